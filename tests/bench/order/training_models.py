"""Training steps of the networks that OLLA was measured with, captured without memory for them.

    python tests/bench/order/training_models.py [NAME ...] [--batch N ...] [--optimizer sgd|adam]

It needs torch 2.13.0 (CPU), torchvision 0.28.0 (`--no-deps`, with pillow) and transformers 5.23.0. Networks, sizes of
inputs and the optimizer (SGD without momentum) are those of the authors' benchmarks.py, as it lies on
github.com/facebookresearch/MODel_opt: so clips have one frame, and XLM-R reads four words. `gpt` is not among them: 12
decoders of width 768 over 128 words.

`nodes` are those of FX that run, `ops` are what is ordered; `torch` is the peak in PyTorch's order of what the step
itself allocates, `persistent` are the parameters, buffers and the optimizer's state, `batch` is the batch.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.append(str(Path(__file__).resolve().parents[3]))

import torch
from torch import nn
from torch.nn import functional

import edgemem.torch
from edgemem.schedule.peak import peak_of
from edgemem.targets import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.torch import TrainingGraph

__all__ = ["GPT", "OLLA", "build", "captured", "torchvision_models"]

GPT = "gpt"
_OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "adam": torch.optim.Adam,
}


@dataclass(frozen=True, slots=True)
class Step:
    """What `edgemem.torch.capture` takes, but the optimizer."""

    model: nn.Module
    loss_fn: Callable[[Any, Any], Any]
    batch: tuple[Any, Any]


def captured(name: str, batch: int, optimizer: str = "sgd") -> TrainingGraph:
    """The training step of a network by name, with `sgd` or `adam`."""
    step = build(name, batch)
    return edgemem.torch.capture(step.model, step.loss_fn, step.batch, _OPTIMIZERS[optimizer](step.model.parameters()))


def build(name: str, batch: int, device: str = "meta") -> Step:
    """A network by name (`OLLA` or `GPT`) for a size of the batch. On the device `cpu` it has memory."""
    with torch.device(device), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of weights that are not downloaded, and nested tensors that are not used
        return _STEPS[name](batch)


def torchvision_models() -> Any:
    """torchvision.models. Without its compiled operators, which no classifier uses, it has to find their names."""
    if not hasattr(torch.ops.torchvision, "nms"):
        library = torch.library.Library("torchvision", "DEF")
        library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _kept.append(library)
    from torchvision import models

    return models


_kept: list[Any] = []  # what a library has defined goes with it


def _images(make: Callable[[Any], Any], *size: int, loss: Any = None) -> Callable[[int], Step]:
    """A classifier of images or clips."""

    def step(batch: int) -> Step:
        pixels = torch.rand(batch, 3, *(size or (224, 224)))
        return Step(make(torchvision_models()).train(), loss or functional.cross_entropy, (pixels, _classes(batch)))

    return step


def _classes(count: int) -> Any:
    return torch.zeros(count, dtype=torch.int64)


def _three_heads(output: Any, target: Any) -> Any:
    """GoogLeNet has two more classifiers in training; the authors put the outputs of all three behind each other."""
    return functional.cross_entropy(torch.cat(tuple(output), -1), target)


def _as_large(output: Any, _: Any) -> Any:
    """The loss of what is no classifier, against zeros, as the authors have it."""
    return functional.cross_entropy(output, torch.zeros_like(output))


def _transformer(batch: int, **options: int) -> Step:
    words = (torch.rand(10, batch, 512), torch.rand(20, batch, 512))
    return Step(nn.Transformer(**options).train(), _as_large, (words, ()))


class _Encoder(nn.Module):
    """XLM-R (base) without a head."""

    def __init__(self) -> None:
        super().__init__()
        torchvision_models()  # transformers imports it, too
        from transformers import XLMRobertaConfig, XLMRobertaModel

        config = XLMRobertaConfig(
            vocab_size=250002, max_position_embeddings=514, type_vocab_size=1, attn_implementation="eager"
        )
        self.model = XLMRobertaModel(config, add_pooling_layer=False)

    def forward(self, words: Any, places: Any) -> Any:
        return self.model(input_ids=words, position_ids=places).last_hidden_state


def _xlm_r(batch: int) -> Step:
    words = torch.zeros(batch, 4, dtype=torch.int64)
    return Step(_Encoder().train(), _as_large, ((words, torch.zeros_like(words)), ()))


class _Decoder(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.grow, self.shrink = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).chunk(3, -1)
        q, k, v = (p.view(batch, length, self.heads, -1).transpose(1, 2) for p in parts)
        weights = (q @ k.transpose(-1, -2) / (width // self.heads) ** 0.5).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.shrink(functional.gelu(self.grow(self.norm2(x))))


class _Gpt(nn.Module):
    def __init__(self, layers: int = 12, width: int = 768, heads: int = 12, words: int = 30000) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Parameter(torch.zeros(128, width))
        self.blocks = nn.Sequential(*(_Decoder(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, x: Any) -> Any:
        return self.head(self.norm(self.blocks(self.words(x) + self.places))).flatten(0, 1)


def _gpt(batch: int) -> Step:
    words = torch.zeros(batch, 128, dtype=torch.int64)
    return Step(_Gpt().train(), functional.cross_entropy, (words, _classes(batch * 128)))


_STEPS: dict[str, Callable[[int], Step]] = {
    "alexnet": _images(lambda m: m.alexnet()),
    "vgg11": _images(lambda m: m.vgg11()),
    "vgg16": _images(lambda m: m.vgg16()),
    "googlenet": _images(lambda m: m.googlenet(), loss=_three_heads),
    "resnet18": _images(lambda m: m.resnet18()),
    "resnet50": _images(lambda m: m.resnet50()),
    "mobilenet_v2": _images(lambda m: m.mobilenet_v2()),
    "mnasnet0_5": _images(lambda m: m.mnasnet0_5()),
    "efficientnet_b0": _images(lambda m: m.efficientnet_b0()),
    "vit_b_16": _images(lambda m: m.vit_b_16()),
    "r3d_18": _images(lambda m: m.video.r3d_18(), 1, 112, 112),
    "transformer_1": lambda batch: _transformer(batch, nhead=1, num_encoder_layers=1, num_decoder_layers=1),
    "transformer": _transformer,
    "xlm_r": _xlm_r,
    GPT: _gpt,
}
OLLA = tuple(name for name in _STEPS if name != GPT)


def main() -> None:
    """Capture each network and print what it consists of."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("names", nargs="*", default=list(_STEPS), metavar="NAME")
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 32])
    parser.add_argument("--optimizer", choices=_OPTIMIZERS, default="sgd")
    arguments = parser.parse_args()
    print(f"{'network':16} {'batch':>5} {'nodes':>6} {'ops':>5} {'torch':>8} {'persistent':>10} {'batch':>7}    MiB")
    for name in arguments.names:
        for batch in arguments.batch:
            begin = time.monotonic()
            graph = captured(name, batch, arguments.optimizer)
            seconds = time.monotonic() - begin
            nodes = len(graph.prologue) + sum(map(len, graph.nodes.values()))
            peak, kept, given = (
                b / 2**20 for b in (peak_of(graph, BUILT_IN["pytorch"]), graph.persistent, graph.batch)
            )
            row = f"{name:16} {batch:5} {nodes:6} {len(graph.ops):5} {peak:8.2f} {kept:10.2f} {given:7.2f}"
            print(f"{row}  {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
