"""Networks whose memory depends on the order of operators, as sketches: those that papers about such orders use.

Operators stand in the order in which a builder that follows the paper's figure adds them. Kernel sizes are left out:
only shapes matter.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from models.graphs import NORMAL, REDUCE, watts_strogatz
from models.sketch import Sketch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from edgemem.model.graph import Graph
    from models.sketch import SketchTensor

__all__ = ["GENOTYPES", "concat_cells", "found_cells", "inception", "random_cells", "randwire", "tiled_chain", "unet"]

Pairs: TypeAlias = "list[tuple[str, int]]"


def randwire(nodes: int, *, seed: int) -> Graph:
    """A randomly wired stage (Xie et al. 2019): 64 channels of 28x28, int8; a Watts-Strogatz graph of 4 neighbours.

    A node sums what it reads and is one separable convolution; every link was rewired with probability 0.75.
    """
    rng = random.Random(seed)  # noqa: S311 - no secrets

    def choose(free: Sequence[int]) -> int:
        return next(k for k in iter(lambda: rng.randrange(nodes), -1) if k in free)

    net = Sketch(f"randwire_{nodes}")
    image = net.input(3, 28)
    before = watts_strogatz(nodes, 4, 0.75, rng.random, choose)
    made: list[SketchTensor] = []
    for sources in before:
        reads = [made[k] for k in sources] or [image]
        value = reads[0] if len(reads) == 1 else net.op("Sum", *reads)
        made.append(net.op("SeparableConv", value, channels=64))
    read = {k for sources in before for k in sources}
    return net.graph(net.op("Mean", *(value for k, value in enumerate(made) if k not in read)))


def inception(blocks: int) -> Graph:
    """Blocks of Inception v3 with factorised 7x7 convolutions (Szegedy et al. 2016): 768 channels of 17x17, int8."""
    net = Sketch(f"inception_{blocks}")
    x = net.input(768, 17)
    for _ in range(blocks):
        one = net.op("Conv", x, channels=192)
        seven = net.op("Conv", _chain(net, x, 128, 2), channels=192)
        twice = net.op("Conv", _chain(net, x, 128, 4), channels=192)
        pooled = net.op("Conv", net.op("AveragePool", x), channels=192)
        x = net.concat(one, seven, twice, pooled)
    return net.graph(x)


def _chain(net: Sketch, x: SketchTensor, channels: int, length: int) -> SketchTensor:
    for _ in range(length):
        x = net.op("Conv", x, channels=channels)
    return x


def unet(levels: int = 4, channels: int = 16, side: int = 96) -> Graph:
    """U-Net (Ronneberger et al. 2015) with padded convolutions, int8."""
    net = Sketch("unet")
    x = net.input(3, side)
    skips = []
    for level in range(levels):
        x = _chain(net, x, channels << level, 2)
        skips.append(x)
        x = net.op("MaxPool", x, side=x.height // 2)
    x = _chain(net, x, channels << levels, 2)
    for skip in reversed(skips):
        x = net.op("ConvTranspose", x, channels=skip.channels, side=skip.height)
        x = _chain(net, net.concat(x, skip), skip.channels, 2)
    return net.graph(net.op("Conv", x, channels=1))


def random_cells(cells: int, *, seed: int) -> Graph:
    """Cells drawn from the space of ENAS and NASNet (Zoph et al. 2018): 36 channels of 28x28, int8.

    Five blocks a cell add a separable convolution of one earlier value and a pooling of another.
    """
    rng = random.Random(seed)  # noqa: S311 - no secrets
    net = Sketch(f"cells_{cells}")
    before = net.input(36, 28)
    last = net.op("Conv", before)
    for _ in range(cells):
        states = [net.op("Conv", before), net.op("Conv", last)]
        read: set[int] = set()
        for _ in range(5):
            left, right = rng.choice(states), rng.choice(states)
            read |= {left.index, right.index}
            left = net.op("Conv", net.op("DepthwiseConv", left))
            states.append(net.op("Sum", left, net.op("MaxPool", right)))
        before, last = last, net.op("Conv", net.concat(*(s for s in states if s.index not in read)), channels=36)
    return net.graph(last)


def concat_cells(cells: int, nodes: int, *, seed: int) -> Graph:
    """Cells in the manner of SwiftNet (Cheng et al. 2019): nodes concatenate what they read; 56x56 at first, int8.

    Each node reads up to three of the four before it, and is a pointwise and a depthwise convolution. The published
    cells are not to be had; widths and links are drawn from the seed.
    """
    rng = random.Random(seed)  # noqa: S311 - no secrets
    net = Sketch(f"concat_cells_{cells}x{nodes}")
    x = net.op("Conv", net.input(3, 112), channels=16, side=56)
    for cell in range(cells):
        states, read = [x], set[int]()
        for _ in range(nodes):
            reads = rng.sample(states[-4:], min(len(states[-4:]), rng.randint(1, 3)))
            read |= {value.index for value in reads}
            joined = reads[0] if len(reads) == 1 else net.concat(*reads)
            wide = net.op("Conv", joined, channels=rng.choice((8, 16, 24)) << cell)
            states.append(net.op("DepthwiseConv", wide))
        x = net.concat(*(s for s in states if s.index not in read))
        x = net.op("Conv", x, channels=16 << (cell + 1), side=x.height // 2)
    return net.graph(x)


def tiled_chain(layers: int, tiles: int, *, channels: int = 32, rows: int = 4) -> Graph:
    """A chain of 3x3 convolutions in stripes of rows, layer by layer, int8: each stripe reads the one above and below.

    Layer by layer two whole layers are in memory; one stripe after the other, three stripes of every layer.
    """
    net = Sketch(f"tiled_chain_{layers}x{tiles}")
    image = net.input(3, rows * tiles)
    parts = [net.op("Slice", image, height=rows) for _ in range(tiles)]
    for _ in range(layers):
        parts = [net.op("Conv", *parts[max(k - 1, 0) : k + 2], channels=channels) for k in range(tiles)]
    pooled = (net.op("GlobalAveragePool", part, side=1) for part in parts)
    return net.graph(net.op("Sum", *pooled))


@dataclass(frozen=True, slots=True)
class Genotype:
    """A normal and a reducing cell that a search found.

    A block adds two operations; 0 and 1 are the two cells before, 2 and on are the blocks.
    """

    normal: Pairs
    reduce: Pairs
    normal_ends: tuple[int, ...]
    reduce_ends: tuple[int, ...]


# NASNet-A: Zoph et al. 2018, figure 4. AmoebaNet-A: Real et al. 2019, figure 5. PNASNet-5: Liu et al. 2018, figure 1.
_NASNET = [("sep", 1), ("sep", 0), ("sep", 0), ("sep", 0), ("pool", 1), ("skip", 0), ("pool", 0), ("pool", 0)]
_NASNET_REDUCE = [("sep", 1), ("sep", 0), ("pool", 1), ("sep", 0), ("pool", 1), ("sep", 0), ("skip", 3), ("pool", 2)]
_AMOEBA = [("pool", 0), ("pool", 0), ("skip", 0), ("pool", 1), ("sep", 2), ("sep", 1), ("sep", 2), ("skip", 1)]
_AMOEBA_REDUCE = [("pool", 0), ("sep", 1), ("pool", 1), ("pool", 0), ("pool", 0), ("sep", 2), ("sep", 0), ("pool", 1)]
_PNAS = [("sep", 0), ("pool", 0), ("sep", 1), ("pool", 1), ("sep", 1), ("sep", 1), ("sep", 4), ("pool", 1)]
GENOTYPES = {
    "nasnet_a": Genotype(
        [*_NASNET, ("sep", 1), ("skip", 1)],
        [*_NASNET_REDUCE, ("sep", 2), ("pool", 1)],
        (0, 2, 3, 4, 5, 6),
        (3, 4, 5, 6),
    ),
    "amoebanet_a": Genotype(
        [*_AMOEBA, ("pool", 4), ("sep", 0)], [*_AMOEBA_REDUCE, ("sep", 3), ("twice", 0)], (3, 5, 6), (4, 5, 6)
    ),
    "pnasnet_5": Genotype(
        [*_PNAS, ("sep", 0), ("pool", 1)], [*_PNAS, ("sep", 0), ("pool", 1)], (2, 3, 4, 5, 6), (2, 3, 4, 5, 6)
    ),
    "darts": Genotype(NORMAL, REDUCE, (2, 3, 4, 5), (2, 3, 4, 5)),
}


def found_cells(name: str, *, stacked: int, channels: int, imagenet: bool = False) -> Graph:
    """A network of GENOTYPES, float32, with every ReLU and convolution an operator: 32 pixels (CIFAR), or 224.

    Three groups of `stacked` normal cells, with a reducing one between; for ImageNet two reducing ones before them.
    `channels` double in each reducing cell. These are the networks of HMCOS (Wang et al. 2022).
    """
    genotype = GENOTYPES[name]
    net = Sketch(f"{name}_{'imagenet' if imagenet else 'cifar'}", dtype="float32")
    image = net.input(3, 224 if imagenet else 32)
    x = net.op("Conv", image, channels=32, side=image.height // 2 if imagenet else 0)
    groups = [False] * stacked
    before = x
    for reduces in [True] * 2 * imagenet + [*groups, True, *groups, True, *groups]:
        channels *= 2 if reduces else 1
        before, x = x, _cell(net, genotype, before, x, channels, reduces=reduces)
    x = net.op("GlobalAveragePool", net.op("Relu", x), side=1)
    return net.graph(net.op("Gemm", x, channels=1000 if imagenet else 100))


def _cell(
    net: Sketch, genotype: Genotype, before: SketchTensor, last: SketchTensor, channels: int, *, reduces: bool
) -> SketchTensor:
    now = net.op("Conv", net.op("Relu", last), channels=channels)
    old = now if before is last else _fitted(net, before, last.height, channels)
    states = [old, now]
    pairs = genotype.reduce if reduces else genotype.normal
    for pair in zip(pairs[::2], pairs[1::2], strict=True):
        halves = reduces and states[0].height // 2
        terms = [_OPERATIONS[op](net, states[k], channels, halves if k < 2 and halves else 0) for op, k in pair]
        states.append(net.op("Add", *terms))
    return net.concat(*(states[k] for k in (genotype.reduce_ends if reduces else genotype.normal_ends)))


def _fitted(net: Sketch, x: SketchTensor, side: int, channels: int) -> SketchTensor:
    """A value with these channels, and half as large if it has to be: then from two grids of every second pixel."""
    x = net.op("Relu", x)
    if x.height == side:
        return net.op("Conv", x, channels=channels)
    first = net.op("Conv", net.op("AveragePool", x, side=side), channels=channels // 2)
    shifted = net.op("Slice", net.op("Pad", x, side=x.height + 1), side=x.height)
    second = net.op("Conv", net.op("AveragePool", shifted, side=side), channels=channels // 2)
    return net.concat(first, second)


def _separable(net: Sketch, x: SketchTensor, channels: int, side: int) -> SketchTensor:
    x = net.op("Conv", net.op("DepthwiseConv", net.op("Relu", x), side=side), channels=channels)
    return net.op("Conv", net.op("DepthwiseConv", net.op("Relu", x)), channels=channels)


def _dilated(net: Sketch, x: SketchTensor, channels: int, side: int) -> SketchTensor:
    return net.op("Conv", net.op("DepthwiseConv", net.op("Relu", x), side=side), channels=channels)


def _twice(net: Sketch, x: SketchTensor, channels: int, side: int) -> SketchTensor:
    return net.op("Conv", net.op("Conv", x, channels=channels, side=side), channels=channels)


_OPERATIONS: dict[str, Callable[[Sketch, SketchTensor, int, int], SketchTensor]] = {
    "skip": lambda _net, x, _channels, _side: x,
    "pool": lambda net, x, _channels, side: net.op("Pool", x, side=side),
    "max": lambda net, x, _channels, side: net.op("MaxPool", x, side=side),
    "sep": _separable,
    "dil": _dilated,
    "twice": _twice,
}
