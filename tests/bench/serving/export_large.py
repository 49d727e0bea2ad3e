"""Networks of published sizes with random weights as ONNX files, for weights.py; no weights are downloaded.

    python tests/bench/serving/export_large.py FOLDER [NAME ...]

Needs torch, torchvision, timm, transformers, onnx and onnxruntime. `int8` is the DistilBERT with int8 weights
(`quantize_dynamic`), `decoder` GPT-2 of 16 layers, 1,024 wide, 1.2 GB.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.append(str(Path(__file__).resolve().parents[3]))

from tests.bench.below import foreign_models
from tests.bench.below.foreign_models import First, ids, timm_model, vision
from tests.bench.serving import export_decoders

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

PIXELS = 224
TOKENS = 64


def distilbert() -> Any:
    from transformers import DistilBertConfig, DistilBertModel

    return First(DistilBertModel(DistilBertConfig()), "input_ids"), (ids(TOKENS),)


NETWORKS: dict[str, Callable[[], tuple[torch.nn.Module, tuple[torch.Tensor, ...]]]] = {
    "resnet50": lambda: vision("resnet50", PIXELS),
    "convnext_tiny": lambda: vision("convnext_tiny", PIXELS),
    "swin_t": lambda: vision("swin_t", PIXELS),
    "densenet201": lambda: vision("densenet201", PIXELS),
    "regnet_y_8gf": lambda: vision("regnet_y_8gf", PIXELS),
    "vit_small": lambda: timm_model("vit_small_patch16_224", PIXELS),
    "mixer_s32": lambda: timm_model("mixer_s32_224", PIXELS),
    "res2net50": lambda: timm_model("res2net50_14w_8s", PIXELS),
    "resmlp_24": lambda: timm_model("resmlp_24_224", PIXELS),
    "mobilenet_v3_large": lambda: vision("mobilenet_v3_large", PIXELS),
    "distilbert": distilbert,
}


def export_int8(folder: Path) -> None:
    """The DistilBERT in the folder, with int8 weights."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    source = folder / "distilbert.onnx"
    quantize_dynamic(source, folder / "distilbert_int8.onnx", weight_type=QuantType.QInt8)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    foreign_models.NETWORKS.update(NETWORKS)
    for each in sys.argv[2:] or (*NETWORKS, "int8", "decoder"):
        if each == "int8":
            export_int8(target)
        elif each == "decoder":
            export_decoders.export("gpt2_250m", target)
        else:
            print(each, foreign_models.export(each, target), flush=True)
