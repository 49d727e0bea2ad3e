"""Networks of torchvision, timm and transformers with random weights, exported to ONNX; no weights are downloaded.

    python tests/bench/below/foreign_models.py FOLDER [NAME...]

needs `pip install torch torchvision timm transformers onnx onnxscript`, in an environment of their own.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

IMAGE = 96
# torchvision's own operators are built for one build of torch; no network here runs them; its import names two.
_OPERATORS = torch.library.Library("torchvision", "DEF")
for _name in ("nms", "qnms"):
    _OPERATORS.define(f"{_name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def vision(name: str, size: int = IMAGE, **options: Any) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    """A classifier of torchvision."""
    from torchvision import models

    made = models.get_model(name, weights=None, num_classes=20, **options)
    return made, (torch.rand(1, 3, size, size),)


class Scores(torch.nn.Module):
    """A segmentation network without the names of its results."""

    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)["out"]


def segmentation(name: str, size: int = IMAGE) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    from torchvision import models

    made = models.get_model(name, weights=None, weights_backbone=None, num_classes=5)
    return Scores(made), (torch.rand(1, 3, size, size),)


def timm_model(name: str, size: int = IMAGE, **options: Any) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...]]:
    import timm

    made = timm.create_model(name, pretrained=False, num_classes=20, **options)
    return made, (torch.rand(1, 3, size, size),)


class First(torch.nn.Module):
    """A network of transformers that gives its first result."""

    def __init__(self, inner: torch.nn.Module, *names: str) -> None:
        super().__init__()
        self.inner, self.names = inner, names

    def forward(self, *values: torch.Tensor) -> torch.Tensor:
        return self.inner(**dict(zip(self.names, values, strict=True)), return_dict=False)[0]


def ids(length: int) -> torch.Tensor:
    return torch.randint(0, 99, (1, length))


SMALL = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 200,
}


def bert(length: int = 64) -> Any:
    from transformers import BertConfig, BertModel

    return First(BertModel(BertConfig(**SMALL)), "input_ids", "attention_mask"), (
        ids(length),
        torch.ones(1, length, dtype=torch.int64),
    )


def distilbert() -> Any:
    from transformers import DistilBertConfig, DistilBertModel

    return First(
        DistilBertModel(DistilBertConfig(vocab_size=200, dim=64, n_layers=2, n_heads=4, hidden_dim=128)), "input_ids"
    ), (ids(48),)


def gpt2() -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    return First(
        GPT2LMHeadModel(GPT2Config(vocab_size=200, n_positions=128, n_embd=64, n_layer=2, n_head=4, use_cache=False)),
        "input_ids",
    ), (ids(64),)


def llama() -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return First(LlamaForCausalLM(LlamaConfig(**SMALL, num_key_value_heads=2, use_cache=False)), "input_ids"), (
        ids(64),
    )


def t5() -> Any:
    from transformers import T5Config, T5EncoderModel

    return First(
        T5EncoderModel(T5Config(vocab_size=200, d_model=64, d_ff=128, d_kv=16, num_layers=2, num_heads=4)), "input_ids"
    ), (ids(48),)


def whisper() -> Any:
    from transformers import WhisperConfig, WhisperModel

    config = WhisperConfig(
        d_model=64,
        encoder_layers=2,
        encoder_attention_heads=4,
        encoder_ffn_dim=128,
        decoder_attention_heads=4,
        max_source_positions=100,
        decoder_layers=1,
    )
    return First(WhisperModel(config).encoder, "input_features"), (torch.rand(1, 80, 200),)


def vit() -> Any:
    from transformers import ViTConfig, ViTForImageClassification

    rest = {k: v for k, v in SMALL.items() if k != "vocab_size"}
    return First(ViTForImageClassification(ViTConfig(**rest, image_size=96, patch_size=16)), "pixel_values"), (
        torch.rand(1, 3, 96, 96),
    )


def segformer() -> Any:
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    config = SegformerConfig(hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 1, 1], decoder_hidden_size=64, num_labels=5)
    return First(SegformerForSemanticSegmentation(config), "pixel_values"), (torch.rand(1, 3, 96, 96),)


def wav2vec2() -> Any:
    from transformers import Wav2Vec2Config, Wav2Vec2Model

    config = Wav2Vec2Config(
        **SMALL,
        conv_dim=(64,) * 4,
        conv_stride=(5, 2, 2, 2),
        conv_kernel=(10, 3, 3, 2),
        num_feat_extract_layers=4,
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
    )
    return First(Wav2Vec2Model(config), "input_values"), (torch.rand(1, 4000),)


def swin() -> Any:
    from transformers import SwinConfig, SwinModel

    return First(
        SwinModel(
            SwinConfig(image_size=64, patch_size=4, embed_dim=24, depths=[1, 1], num_heads=[2, 4], window_size=4)
        ),
        "pixel_values",
    ), (torch.rand(1, 3, 64, 64),)


class Detr(torch.nn.Module):
    """A detector as in DETR: a small backbone, a transformer, scores and boxes of queries."""

    def __init__(self) -> None:
        super().__init__()
        n = torch.nn
        self.backbone = n.Sequential(
            *(
                m
                for a, b in ((3, 16), (16, 32), (32, 64))
                for m in (n.Conv2d(a, b, 3, 2, 1), n.BatchNorm2d(b), n.ReLU())
            )
        )
        self.transformer = n.Transformer(64, 4, 1, 1, 128, batch_first=True)
        self.queries = n.Parameter(torch.rand(20, 64))
        self.places = n.Parameter(torch.rand(144, 64))
        self.scores, self.boxes = n.Linear(64, 6), n.Linear(64, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        seen = self.backbone(x).flatten(2).permute(0, 2, 1)
        made = self.transformer(seen + self.places, self.queries.unsqueeze(0))
        return self.scores(made), self.boxes(made).sigmoid()


class Pyramid(torch.nn.Module):
    """Three maps of features from a pyramid, as detectors read them."""

    def __init__(self) -> None:
        super().__init__()
        n = torch.nn
        self.steps = n.ModuleList(
            n.Sequential(n.Conv2d(a, b, 3, 2, 1), n.SiLU(), n.Conv2d(b, b, 3, 1, 1), n.SiLU())
            for a, b in ((3, 16), (16, 32), (32, 64), (64, 64))
        )
        self.sides = n.ModuleList(n.Conv2d(b, 32, 1) for b in (32, 64, 64))
        self.heads = n.ModuleList(n.Conv2d(32, 12, 3, 1, 1) for _ in range(3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        maps = []
        for step in self.steps:
            x = step(x)
            maps.append(x)
        made, top = [], None
        for side, value in zip(reversed(self.sides), reversed(maps[1:]), strict=True):
            here = side(value)
            top = here if top is None else here + torch.nn.functional.interpolate(top, scale_factor=2.0)
            made.append(top)
        return tuple(head(value) for head, value in zip(self.heads, made, strict=True))


class Lstm(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(40, 48, 2, batch_first=True, bidirectional=True)
        self.out = torch.nn.Linear(96, 30)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.lstm(x)[0])


class Upscaler(torch.nn.Module):
    """Super-resolution: residual blocks and PixelShuffle."""

    def __init__(self) -> None:
        super().__init__()
        n = torch.nn
        self.head = n.Conv2d(3, 24, 3, 1, 1)
        self.blocks = n.ModuleList(
            n.Sequential(n.Conv2d(24, 24, 3, 1, 1), n.PReLU(24), n.Conv2d(24, 24, 3, 1, 1)) for _ in range(3)
        )
        self.tail = n.Sequential(n.Conv2d(24, 48, 3, 1, 1), n.PixelShuffle(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first = y = self.head(x)
        for block in self.blocks:
            y = y + block(y)
        return self.tail(first + y)


NETWORKS: dict[str, Callable[[], tuple[torch.nn.Module, tuple[torch.Tensor, ...]]]] = {
    "tv_resnet18": lambda: vision("resnet18"),
    "tv_mobilenet_v2": lambda: vision("mobilenet_v2"),
    "tv_mobilenet_v3_small": lambda: vision("mobilenet_v3_small", 128),
    "tv_shufflenet_v2": lambda: vision("shufflenet_v2_x0_5", 128),
    "tv_mnasnet": lambda: vision("mnasnet0_5"),
    "tv_squeezenet": lambda: vision("squeezenet1_1", 128),
    "tv_efficientnet_b0": lambda: vision("efficientnet_b0"),
    "tv_regnet_y": lambda: vision("regnet_y_400mf"),
    "tv_googlenet": lambda: vision("googlenet", aux_logits=False, init_weights=False),
    "tv_densenet121": lambda: vision("densenet121", 64),
    "tv_lraspp": lambda: segmentation("lraspp_mobilenet_v3_large", 128),
    "tv_deeplab": lambda: segmentation("deeplabv3_mobilenet_v3_large", 128),
    "timm_efficientnet_lite0": lambda: timm_model("efficientnet_lite0"),
    "timm_mobilevit_xxs": lambda: timm_model("mobilevit_xxs", 128),
    "timm_convnext_atto": lambda: timm_model("convnext_atto"),
    "timm_ghostnet": lambda: timm_model("ghostnet_050"),
    "timm_repvgg_a0": lambda: timm_model("repvgg_a0", 64),
    "timm_levit_128s": lambda: timm_model("levit_128s", 224),
    "timm_hardcorenas": lambda: timm_model("hardcorenas_a"),
    "timm_mixnet_s": lambda: timm_model("mixnet_s"),
    "timm_tinynet_e": lambda: timm_model("tinynet_e", 106),
    "timm_edgenext_xxs": lambda: timm_model("edgenext_xx_small"),
    "timm_mobileone_s0": lambda: timm_model("mobileone_s0"),
    "timm_fastvit_t8": lambda: timm_model("fastvit_t8", 128),
    "timm_poolformer": lambda: timm_model("poolformer_s12", 64),
    "timm_deit_tiny": lambda: timm_model("deit_tiny_patch16_224", 224, depth=2),
    "timm_mixer": lambda: timm_model("mixer_s32_224", 224),
    "timm_dla": lambda: timm_model("dla46_c"),
    "timm_hrnet": lambda: timm_model("hrnet_w18_small", 64),
    "timm_resmlp": lambda: timm_model("resmlp_12_224", 224),
    "timm_res2net": lambda: timm_model("res2net50_14w_8s", 64),
    "hf_bert": bert,
    "hf_distilbert": distilbert,
    "hf_gpt2": gpt2,
    "hf_llama": llama,
    "hf_t5_encoder": t5,
    "hf_whisper_encoder": whisper,
    "hf_vit": vit,
    "hf_segformer": segformer,
    "hf_wav2vec2": wav2vec2,
    "hf_swin": swin,
    "detr": lambda: (Detr(), (torch.rand(1, 3, 96, 96),)),
    "pyramid": lambda: (Pyramid(), (torch.rand(1, 3, 128, 128),)),
    "lstm": lambda: (Lstm(), (torch.rand(1, 32, 40),)),
    "upscaler": lambda: (Upscaler(), (torch.rand(1, 3, 64, 64),)),
}


def spread(network: torch.nn.Module, values: tuple[torch.Tensor, ...]) -> None:
    """Statistics of batch normalisation as of a trained network, so that values neither vanish nor grow."""
    norms = [m for m in network.modules() if isinstance(m, torch.nn.modules.batchnorm._BatchNorm)]
    for norm in norms:
        norm.momentum = None
        norm.train()
    with torch.no_grad():
        for _ in range(3):
            noise = [
                torch.randn_like(v).repeat(4, *[1] * (v.dim() - 1)) if v.is_floating_point() else v for v in values
            ]
            try:
                network(*noise)
            except Exception:  # noqa: BLE001 - a network of one batch alone
                network(*values)
    network.eval()


def export(name: str, folder: Path) -> str:
    torch.manual_seed(sum(map(ord, name)))
    network, values = NETWORKS[name]()
    network.eval()
    spread(network, values)
    path = folder / f"{name}.onnx"
    try:
        torch.onnx.export(network, values, str(path), dynamo=True, external_data=False, verbose=False)
        how = "dynamo"
    except Exception as e:  # noqa: BLE001 - exporters raise anything
        print("   dynamo:", type(e).__name__, str(e).splitlines()[0][:100], flush=True)
        torch.onnx.export(network, values, str(path), dynamo=False, opset_version=17)
        how = "script"
    return how


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    warnings.simplefilter("ignore")
    for name in sys.argv[2:] or NETWORKS:
        start = time.perf_counter()
        try:
            how = export(name, folder)
        except Exception as e:  # noqa: BLE001 - exporters raise anything
            print(f"{name}: FAILED {type(e).__name__} {str(e)[:300]}", flush=True)
            continue
        print(
            f"{name}: {how} {(folder / f'{name}.onnx').stat().st_size:,} bytes, {time.perf_counter() - start:.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
