"""Which families of transformers and timm run on a GPU, with small random configurations; no weights are downloaded.

    python tests/bench/gpu_coverage.py export FOLDER [NAME...]   # needs torch, timm, transformers and onnxscript
    python tests/bench/gpu_coverage.py check FOLDER [--run]      # needs edgemem; --run: also on the GPU, beside the CPU

They may be two environments. The table says of each exported file whether every operator has a kernel, and else which
operators have none. With `--run` the outputs are compared with ONNX Runtime's, and planned with unshared bits.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import edgemem
    from edgemem.runtime.webgpu.graph_lowering import Missing

_BODY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
_TEXT = {**_BODY, "vocab_size": 200, "max_position_embeddings": 64}
_IMAGE = {**_BODY, "image_size": 32, "patch_size": 8}
_CLIP_TEXT = {**_TEXT, "max_position_embeddings": 16, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
_SAM_BODY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "mlp_dim": 64}
_SAM_IMAGE = {"image_size": 64, "patch_size": 8, "window_size": 4, "global_attn_indexes": [1], "output_channels": 32}
_WAVE = {"conv_dim": (32,) * 3, "conv_stride": (5, 2, 2), "conv_kernel": (10, 3, 2), "num_feat_extract_layers": 3}
_SPEECH_ENCODER = {"d_model": 32, "encoder_layers": 2, "encoder_attention_heads": 4, "encoder_ffn_dim": 64}
_SPEECH = {**_SPEECH_ENCODER, "decoder_layers": 1, "decoder_attention_heads": 4, "max_source_positions": 50}
_SPECIAL_TOKENS = ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id")

# The class of a model without its suffix "Model", and its configuration.
TRANSFORMERS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("Bert", _TEXT),
    "roberta": ("Roberta", _TEXT),
    "albert": ("Albert", {**_TEXT, "embedding_size": 16}),
    "deberta_v2": ("DebertaV2", {**_TEXT, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}),
    "distilbert": ("DistilBert", {"vocab_size": 200, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64}),
    "electra": ("Electra", {**_TEXT, "embedding_size": 16}),
    "mobilebert": ("MobileBert", {**_TEXT, "embedding_size": 16, "intra_bottleneck_size": 16}),
    "mpnet": ("MPNet", _TEXT),
    "gpt2": ("GPT2", {"vocab_size": 200, "n_positions": 64, "n_embd": 32, "n_layer": 2, "n_head": 4}),
    "llama": ("Llama", {**_TEXT, "num_key_value_heads": 2}),
    "t5_encoder": (
        "T5Encoder",
        {"vocab_size": 200, "d_model": 32, "d_ff": 64, "d_kv": 8, "num_layers": 2, "num_heads": 4},
    ),
    "mamba": ("Mamba", {"vocab_size": 200, "hidden_size": 32, "state_size": 4, "num_hidden_layers": 2}),
    "vit": ("ViT", _IMAGE),
    "deit": ("DeiT", _IMAGE),
    "beit": ("Beit", _IMAGE),
    "dinov2": ("Dinov2", _IMAGE),
    "yolos": ("Yolos", {**_IMAGE, "image_size": [32, 32], "num_detection_tokens": 5}),
    "clip": ("CLIP", {"text_config": _CLIP_TEXT, "vision_config": _IMAGE, "projection_dim": 16}),
    "sam": ("SamVision", {**_SAM_BODY, **_SAM_IMAGE}),
    "swin": ("Swin", {"image_size": 32, "embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4], "window_size": 4}),
    "segformer": ("Segformer", {"hidden_sizes": [8, 16, 32, 32], "depths": [1, 1, 1, 1]}),
    "whisper_encoder": ("Whisper", {**_SPEECH, **dict.fromkeys(_SPECIAL_TOKENS, 0)}),
    "wav2vec2": (
        "Wav2Vec2",
        {**_BODY, **_WAVE, "num_conv_pos_embeddings": 16, "num_conv_pos_embedding_groups": 4},
    ),
}
_SIZES = {"sam": 64, "segformer": 64}  # of images; others have 32

# A small model of each family, and the side of its image.
_SMALL_IMAGES = """
    resnet10t mobilenetv2_035 mobilenetv3_small_050 mobilenetv4_conv_small_035 efficientnet_lite0
    tf_efficientnetv2_b0 ghostnet_050 repvgg_a0 hardcorenas_a mixnet_s tinynet_e mnasnet_small fbnetc_100
    spnasnet_100 semnasnet_050 dla46_c hrnet_w18_small res2net50_14w_8s regnetx_002 regnety_002 densenet121 vgg11
    selecsls42 skresnet18 resnest14d vovnet39a cspresnet50 darknet53 dpn48b  xception41 rexnet_100
    lcnet_035 mobileone_s0 convnext_atto poolformer_s12 edgenext_xx_small fastvit_t8 repghostnet_050 starnet_s1
    hgnetv2_b0 nf_resnet26
""".split()  # noqa: SIM905 - names of models
_LARGE_IMAGES = """
    inception_v4 mobilevit_xxs mobilevitv2_050 convit_tiny repvit_m0_9 efficientformerv2_s0 levit_128s
    deit_tiny_patch16_224 mixer_s32_224 resmlp_12_224
""".split()  # noqa: SIM905 - names of models
TIMM = dict.fromkeys(_SMALL_IMAGES, 64) | dict.fromkeys(_LARGE_IMAGES, 224)


def started(model: Any, side: int = 0) -> Any:
    """A model whose outputs depend on its inputs; with batches normalised as those of random images of a `side` are."""
    import torch

    for values in model.parameters():
        if values.ndim > 1 and float(values.detach().std()) < 1e-3:  # SAM begins with 1e-10, mixers end with 0
            torch.nn.init.normal_(values, std=0.05)
    if side:
        for layer in model.modules():
            if isinstance(layer, torch.nn.modules.batchnorm._BatchNorm):
                layer.momentum = None
        with torch.no_grad():
            model.train()(torch.rand(4, 3, side, side) * torch.rand(4, 3, 1, 1) * 2)
    return model.eval()


def transformer(name: str) -> tuple[Any, dict[str, Any]]:
    """A model and its inputs by name."""
    import torch
    import transformers

    kind, config = TRANSFORMERS[name]
    base = kind.removesuffix("Encoder") if name == "t5_encoder" else kind
    made = getattr(transformers, f"{base}Config")(**config)
    made._attn_implementation = "eager"
    model = started(getattr(transformers, f"{kind}Model")(made))
    if name == "whisper_encoder":
        model = model.encoder
    side = _SIZES.get(name, 32)
    tokens = torch.randint(2, 199, (1, 16))
    inputs: dict[str, Any] = {
        "input_ids": tokens,
        "attention_mask": torch.ones_like(tokens),
        "pixel_values": torch.rand(1, 3, side, side),
        "input_features": torch.rand(1, 80, 100),
        "input_values": torch.rand(1, 2000),
    }
    taken = inspect.signature(model.forward).parameters
    used = {n: v for n, v in inputs.items() if n in taken}
    if "input_ids" not in used or name in ("mamba", "t5_encoder"):
        used.pop("attention_mask", None)
    return model, used


def export(folder: Path, names: list[str]) -> None:
    """Write FOLDER/hf_NAME.onnx and FOLDER/timm_NAME.onnx; says which cannot be exported."""
    import torch

    class First(torch.nn.Module):  # type: ignore[misc]
        """A model's first result."""

        def __init__(self, inner: torch.nn.Module, names: tuple[str, ...]) -> None:
            super().__init__()
            self.inner, self.names = inner, names
            keeps_caches = "use_cache" in inspect.signature(inner.forward).parameters
            self.more = {"use_cache": False} if keeps_caches else {}

        def forward(self, *values: torch.Tensor) -> Any:
            return self.inner(**dict(zip(self.names, values, strict=True)), **self.more, return_dict=False)[0]

    folder.mkdir(exist_ok=True)
    warnings.simplefilter("ignore")
    for name in names or [*(f"hf_{n}" for n in TRANSFORMERS), *(f"timm_{n}" for n in TIMM)]:
        path = folder / f"{name}.onnx"
        torch.manual_seed(0)
        try:
            if name.startswith("hf_"):
                inner, inputs = transformer(name.removeprefix("hf_"))
                model, values = First(inner, tuple(inputs)).eval(), tuple(inputs.values())
            else:
                import timm

                kind = name.removeprefix("timm_")
                model = started(timm.create_model(kind, pretrained=False, num_classes=20), TIMM[kind])
                values = (torch.rand(1, 3, TIMM[kind], TIMM[kind]),)
            torch.onnx.export(model, values, str(path), dynamo=True, external_data=False, verbose=False)
        except Exception as e:  # noqa: BLE001 - whatever an exporter raises
            print(f"{name}: not exported, {type(e).__name__}: {str(e).splitlines()[0][:200]}", flush=True)


def check(folder: Path, *, runs: bool) -> int:
    """Print the table of a folder's files; returns how many do not run."""
    from edgemem.errors import UnsupportedError
    from edgemem.runtime.webgpu.gpu_model import read_gpu_model
    from edgemem.runtime.webgpu.graph_lowering import missing_kernels

    waiting: Counter[str] = Counter()
    tally: Counter[tuple[str, bool]] = Counter()
    print("| model | on a GPU |\n|---|---|")
    for path in sorted(folder.glob("*.onnx")):
        said = "runs"
        try:
            missing = missing_kernels(read_gpu_model(path))
        except UnsupportedError as e:
            missing, said = None, str(e)
        if missing is not None:
            reasons = _reasons(missing)
            waiting.update(reasons)
            said = "; ".join(f"{count} {reason}" for reason, count in reasons.items())
        elif runs and said == "runs":
            said = _run(path)
        tally[path.stem.split("_")[0], said.startswith("runs")] += 1
        print(f"| {path.stem} | {said} |", flush=True)
    for kind in dict.fromkeys(k for k, _ in tally):
        print(f"\n{kind}: {tally[kind, True]} of {tally[kind, True] + tally[kind, False]} run")
    print("\nfirst of what models wait for:", waiting.most_common(12))
    return sum(count for (_, is_run), count in tally.items() if not is_run)


def _reasons(missing: Missing) -> Mapping[str, int]:
    """How many operators have no kernel for each reason."""
    found = {f"{kind} ({why})" if why != kind else kind: len(names) for (kind, why), names in missing.operators.items()}
    return found | dict.fromkeys(missing.tensors, 1)


def _run(path: Path) -> str:
    """Run a model inside its plan and without one, beside ONNX Runtime."""
    import numpy as np
    import onnxruntime

    import edgemem

    with edgemem.GpuExecutor(path, poison=True) as planned, edgemem.GpuExecutor(path, sharing=False) as apart:
        session = onnxruntime.InferenceSession(path)
        feeds, others = (_feeds(planned, seed) for seed in (1, 2))
        made, other, right = planned.run(None, feeds), apart.run(None, feeds), session.run(None, feeds)
        changed = session.run(None, others)
    if any(a.tobytes() != b.tobytes() for a, b in zip(made, other, strict=True)):
        return "WRONG: planned and unshared bits differ"
    if any(np.abs(a - b).max() <= 1e-2 * np.abs(a).max() for a, b in zip(right, changed, strict=True)):
        return "WRONG: outputs that hardly depend on the inputs show nothing"
    far = max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(made, right, strict=True))
    return f"runs, {far:.0e} from ONNX Runtime" if far < 1e-3 else f"WRONG by {far:.0e}"


def _feeds(executor: edgemem.GpuExecutor, seed: int) -> dict[str, Any]:
    """Random inputs, and masks that hide nothing."""
    import numpy as np

    random = np.random.default_rng(seed)
    feeds: dict[str, Any] = {}
    for argument in executor.get_inputs():
        shape = [int(n) for n in argument.shape]  # type: ignore[arg-type]
        whole = np.int64 if "int64" in argument.type else np.int32
        values = (
            random.integers(1, 90, shape).astype(whole) if "int" in argument.type else random.random(shape, np.float32)
        )
        feeds[argument.name] = np.ones(shape, whole) if "mask" in argument.name else values
    return feeds


def main() -> int:
    """Export or check, as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=("export", "check"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--run", action="store_true")
    given = parser.parse_args()
    if given.step == "export":
        export(given.folder, given.names)
        return 0
    return check(given.folder, runs=given.run)


if __name__ == "__main__":
    sys.exit(main())
