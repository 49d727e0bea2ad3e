"""What tuning kernels for GPUs gives: the tuned kernel against the plain one, on layers of MobileNet and Inception.

python tests/bench/gpu_kernels.py [--adapter llvmpipe] [--storage buffer] [--precision fp32] [--rounds 9] [--tilings]

The plain kernel is the same text with one position and one slice of channels for each thread. Both are run alternately
and timed on the GPU by timestamps; a time is the least of the rounds. GFLOP/s count a multiplication and an addition.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2]))

import tests.webgpu
from edgemem.model.tensor_ops import Convolution
from edgemem.runtime.webgpu.lowering import Lowering, lower
from edgemem.runtime.webgpu.lowering.blocks import Tiling
from edgemem.runtime.webgpu.lowering.convolution import depthwise, tiled
from tests.webgpu import bind, hold
from tests.webgpu_adapters import ADAPTERS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.runtime.webgpu.dispatch import Dispatch

PLAIN = Tiling(64, 1, 1)
TILINGS = (Tiling(16, 4, 1), Tiling(16, 4, 2), Tiling(16, 2, 2), Tiling(16, 4, 4), Tiling(8, 4, 4), Tiling(64, 4, 4))


@dataclass(frozen=True)
class Layer:
    """A convolution of a network: `size` and `kernel` are (height, width); `depth`: depthwise."""

    name: str
    size: tuple[int, int]
    ins: int
    outs: int
    kernel: tuple[int, int] = (1, 1)
    stride: int = 1
    dilation: int = 1
    depth: bool = False

    def make(self) -> tuple[Convolution, Lowering]:
        """The operation and its tensors: 0 the input, 1 the output of the same size divided by the stride."""
        numbers = np.random.default_rng(0)
        height, width = (-(-n // self.stride) for n in self.size)
        weights = numbers.standard_normal((self.outs, *self.kernel, 1 if self.depth else self.ins)).astype(np.float32)
        op = Convolution(
            input=0,
            output=1,
            weights=weights,
            bias=np.zeros(self.outs, np.float32),
            stride=(self.stride, self.stride),
            dilation=(self.dilation, self.dilation),
            pads=(self.kernel[0] // 2 * self.dilation, self.kernel[1] // 2 * self.dilation),
            groups=self.ins if self.depth else 1,
        )
        return op, Lowering({0: (1, *self.size, self.ins), 1: (1, height, width, self.outs)}, "nhwc")

    def operations(self) -> float:
        """Multiplications and additions, in thousands of millions."""
        positions = -(-self.size[0] // self.stride) * -(-self.size[1] // self.stride)
        taps = self.kernel[0] * self.kernel[1] * (1 if self.depth else self.ins)
        return 2 * positions * taps * self.outs / 1e9


LAYERS = (
    Layer("MobileNet first 3x3 / 2", (224, 224), 3, 32, (3, 3), 2),
    Layer("MobileNet 1x1 at 112", (112, 112), 32, 64),
    Layer("MobileNet 1x1 at 56", (56, 56), 128, 128),
    Layer("MobileNet 1x1 at 14", (14, 14), 512, 512),
    Layer("MobileNet 1x1 at 7", (7, 7), 1024, 1024),
    Layer("MobileNet depthwise at 112", (112, 112), 32, 32, (3, 3), depth=True),
    Layer("MobileNet depthwise / 2", (112, 112), 96, 96, (3, 3), 2, depth=True),
    Layer("MobileNet depthwise at 14", (14, 14), 512, 512, (3, 3), depth=True),
    Layer("DeepLab depthwise, dilated", (33, 33), 192, 192, (3, 3), 1, 2, depth=True),
    Layer("Inception 3x3 at 35", (35, 35), 96, 96, (3, 3)),
    Layer("Inception 1x7 at 17", (17, 17), 192, 192, (1, 7)),
    Layer("Inception 1x1 at 8", (8, 8), 2048, 320),
)


class Timer:
    """Times dispatches on the device by timestamps."""

    def __init__(self) -> None:
        import wgpu

        self.gpu = tests.webgpu.device()
        if "timestamp-query" not in self.gpu.features:
            raise SystemExit("this adapter has no timestamps")
        self.queries = self.gpu.create_query_set(type="timestamp", count=2)
        usage = wgpu.BufferUsage.QUERY_RESOLVE | wgpu.BufferUsage.COPY_SRC
        self.answers = self.gpu.create_buffer(size=16, usage=usage)

    def ms(self, bound: list[tuple[Any, Any, tuple[int, int, int]]]) -> float:
        """Milliseconds of dispatches that are run once, one after another."""
        encoder = self.gpu.create_command_encoder()
        marks = {
            "query_set": self.queries,
            "beginning_of_pass_write_index": 0,
            "end_of_pass_write_index": 1,
        }
        compute_pass = encoder.begin_compute_pass(timestamp_writes=marks)
        for pipeline, group, workgroups in bound:
            compute_pass.set_pipeline(pipeline)
            compute_pass.set_bind_group(0, group)
            compute_pass.dispatch_workgroups(*workgroups)
        compute_pass.end()
        encoder.resolve_query_set(self.queries, 0, 2, self.answers, 0)
        self.gpu.queue.submit([encoder.finish()])
        start, end = np.frombuffer(self.gpu.queue.read_buffer(self.answers), np.uint64)
        return float(end - start) / 1e6


def alternate(
    variants: Mapping[str, list[Dispatch]], context: Lowering, timer: Timer, args: argparse.Namespace
) -> dict[str, float]:
    """The least time of each variant, all run in turn on the same tensors."""
    numbers = np.random.default_rng(1)
    held = {
        tensor: hold(
            tensor,
            numbers.standard_normal(context.shape(tensor)).astype(np.float32),
            context.stored(tensor),
            args.storage,
            args.precision,
        )
        for tensor in context.shapes
    }
    bound = {
        name: [(*bind(d, held, args.precision), d.workgroups) for d in dispatches]
        for name, dispatches in variants.items()
    }
    for work in bound.values():
        timer.ms(work)  # compiles it
    times: dict[str, list[float]] = {name: [] for name in bound}
    for _ in range(args.rounds):
        for name, work in bound.items():
            times[name].append(timer.ms(work))
    return {name: min(found) for name, found in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--adapter", default=ADAPTERS[0], help="letters of its name")
    parser.add_argument("--storage", default="buffer")
    parser.add_argument("--precision", choices=("fp32", "fp16"), default="fp32")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tilings", action="store_true", help="other tilings, too")
    args = parser.parse_args()
    found = tests.webgpu.device(args.adapter)
    tests.webgpu.device = lambda *_: found  # type: ignore[assignment]
    timer = Timer()
    print(f"{found.adapter.info['device']}, {args.storage}, {args.precision}, least of {args.rounds} alternated runs")
    print(f"{'':28} plain ms  tuned ms  ratio  GFLOP/s")
    for layer in LAYERS:
        op, context = layer.make()
        plain = depthwise(op, context, repeat=1) if layer.depth else tiled(op, context, PLAIN)
        variants = {"plain": plain, "tuned": lower(op, context)}
        if args.tilings and not layer.depth:
            variants |= {f"{t.lanes}/{t.repeat}/{t.block}": tiled(op, context, t) for t in TILINGS}
        times = alternate(variants, context, timer, args)
        plain_ms, tuned_ms = times.pop("plain"), times.pop("tuned")
        others = "  ".join(f"{name} {ms:.3f}" for name, ms in times.items())
        rate = layer.operations() / tuned_ms * 1e3
        print(
            f"{layer.name:28} {plain_ms:8.3f} {tuned_ms:9.3f} {plain_ms / tuned_ms:6.2f} {rate:8.1f}  {others}",
            flush=True,
        )


if __name__ == "__main__":
    main()
