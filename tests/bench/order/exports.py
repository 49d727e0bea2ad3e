"""Exports networks of torchvision, timm and transformers with random weights as ONNX files, for inference.py.

    python tests/bench/order/exports.py FOLDER [NAME ...]

Needs PyTorch with those packages. A file that is there already is left alone.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

sys.path.append(str(Path(__file__).resolve().parents[3]))

from tests.bench.order.training_models import torchvision_models

TIMM = {
    "coat_tiny": 224,
    "dla102x2": 224,
    "dla34": 224,
    "ghostnet_100": 224,
    "hrnet_w18": 224,
    "hrnet_w48": 224,
    "inception_v4": 299,
    "maxvit_tiny_rw_224": 224,
    "nasnetalarge": 331,
    "pnasnet5large": 331,
    "res2net50_26w_4s": 224,
    "xcit_tiny_12_p16_224": 224,
}
TORCHVISION = {"densenet121": 224, "googlenet": 224, "inception_v3": 299}
TRANSFORMERS = ("bert", "swin", "t5")
TOKENS = 64


class Outer(torch.nn.Module):  # type: ignore[misc]
    """A model of transformers with its last hidden state as the only output."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, *given: Any) -> Any:
        names = ("pixel_values",) if given[0].ndim == 4 else ("input_ids", "decoder_input_ids")
        return self.model(**dict(zip(names, given, strict=False))).last_hidden_state


def network(name: str) -> tuple[Any, tuple[Any, ...]]:
    """A model in evaluation mode, and its inputs."""
    models = torchvision_models()  # transformers and timm import it, too
    torch.manual_seed(0)
    if name in TRANSFORMERS:
        transformers, words = import_module("transformers"), torch.randint(0, 1000, (1, TOKENS))
        match name:
            case "bert":
                return Outer(transformers.BertModel(transformers.BertConfig())).eval(), (words,)
            case "swin":
                return Outer(transformers.SwinModel(transformers.SwinConfig())).eval(), (torch.zeros(1, 3, 224, 224),)
        config = transformers.T5Config(d_model=256, d_ff=1024, num_layers=6, num_heads=4, use_cache=False)
        return Outer(transformers.T5Model(config)).eval(), (words, words)
    if name in TIMM:
        side, timm = TIMM[name], import_module("timm")
        return timm.create_model(name, pretrained=False, exportable=True).eval(), (torch.zeros(1, 3, side, side),)
    side = TORCHVISION[name]
    options = {} if name == "densenet121" else {"aux_logits": False, "init_weights": False}
    return getattr(models, name)(weights=None, **options).eval(), (torch.zeros(1, 3, side, side),)


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", default=[*TIMM, *TORCHVISION, *TRANSFORMERS])
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in args.names:
        path = args.folder / f"{name}.onnx"
        if not path.exists():
            model, given = network(name)
            with torch.no_grad():
                torch.onnx.export(model, given, str(path), dynamo=False, opset_version=17)
        print(path)


if __name__ == "__main__":
    main()
