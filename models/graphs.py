"""Networks with irregular graphs: cells found by search, randomly wired stages."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from models.net import Net, NetTensor

# The cells of Liu et al. 2019 (DARTS, second order): per intermediate node two (operation, input) pairs; inputs 0 and
# 1 are the two cells before, 2 and on the nodes of this one.
NORMAL = [("sep", 0), ("sep", 1), ("sep", 0), ("sep", 1), ("sep", 1), ("skip", 0), ("skip", 0), ("dil", 2)]
REDUCE = [("max", 0), ("max", 1), ("skip", 2), ("max", 1), ("max", 0), ("skip", 2), ("skip", 2), ("max", 1)]


def nas_cell(net: Net, *, small: bool) -> None:
    """DARTS cells for 224 pixels: 14 of them, 48 channels; small: 5 cells, 4 channels, 64 pixels.

    A skip of stride 2 is one strided convolution.
    """
    side, channels, cells = (64, 4, 5) if small else (224, 48, 14)
    x = net.input("image", 3, side, side)
    x = net.conv(x, channels // 2, 3, stride=2)
    before = net.conv(x, channels, 3, stride=2, act="none")
    last = net.conv(_relu(net, before), channels, 3, stride=2, act="none")
    for k in range(cells):
        reduction = k in (cells // 3, 2 * cells // 3)
        channels *= 2 if reduction else 1
        before, last = last, _cell(net, before, last, channels, reduction=reduction)
    x = net.global_pool(last)
    x = net.reshape(x, x.channels)
    net.output(net.dense(x, 11 if small else 1000, name="logits"))


def _cell(net: Net, before: NetTensor, last: NetTensor, channels: int, *, reduction: bool) -> NetTensor:
    stride = before.dim(2) // last.dim(2)
    states = [
        # The sums of two double the variance, cell after cell, without batch normalisation.
        net.conv(_relu(net, before), channels, stride=stride, act="none", gain=0.5),
        net.conv(_relu(net, last), channels, act="none", gain=0.5),
    ]
    genotype = REDUCE if reduction else NORMAL
    for pair in zip(genotype[::2], genotype[1::2], strict=True):
        terms = [_operation(net, op, states[k], 2 if reduction and k < 2 else 1) for op, k in pair]
        states.append(net.add(*terms))
    return net.concat(*states[2:])


def _operation(net: Net, op: str, x: NetTensor, stride: int) -> NetTensor:
    if op == "skip":
        return x if stride == 1 else net.conv(_relu(net, x), x.channels, stride=stride, act="none")
    if op == "max":
        return net.pool(x, "Max", 3, stride=stride)
    if op == "dil":
        return _separable(net, x, x.channels, stride=stride, dilation=2)
    return _separable(net, _separable(net, x, x.channels, stride=stride), x.channels)


def randwire(net: Net, *, small: bool) -> None:
    """Three randomly wired stages (Xie et al. 2019, small regime): 32 nodes, 78 channels, 224 pixels.

    Small: 8 nodes, 8 channels, 64 pixels. The wiring is a Watts-Strogatz graph drawn from the seed; inputs of a node
    are summed without learned weights.
    """
    side, channels, nodes = (64, 8, 8) if small else (224, 78, 32)
    x = net.input("image", 3, side, side)
    x = net.conv(x, channels // 2, 3, stride=2, act="none")
    x = _separable(net, x, channels, stride=2)
    for stage in range(3):
        x = _wired_stage(net, x, channels * 2**stage, small_world(nodes, 4, 0.75, seed=(net.seed, stage)))
    x = net.conv(_relu(net, x), 64 if small else 1280)
    x = net.global_pool(x)
    x = net.reshape(x, x.channels)
    net.output(net.dense(x, 11 if small else 1000, name="logits"))


def small_world(nodes: int, neighbours: int, rewire: float, *, seed: tuple[int, ...]) -> list[list[int]]:
    """The predecessors of each node in a `watts_strogatz` graph drawn from the seed."""
    rng = np.random.default_rng(seed)
    return watts_strogatz(nodes, neighbours, rewire, rng.random, lambda free: free[int(rng.integers(len(free)))])


def watts_strogatz(
    nodes: int,
    neighbours: int,
    rewire: float,
    chance: Callable[[], float],
    choose: Callable[[Sequence[int]], int],
) -> list[list[int]]:
    """The predecessors of each node in a Watts-Strogatz graph whose edges run from the lower to the higher index.

    Every node starts linked to `neighbours` around it on a ring; each link then moves to a random node with
    probability `rewire`. `chance` draws from [0, 1), `choose` one of the nodes that are not linked yet.
    """
    links = {frozenset((i, (i + j) % nodes)) for j in range(1, neighbours // 2 + 1) for i in range(nodes)}
    for j in range(1, neighbours // 2 + 1):
        for i in range(nodes):
            if chance() >= rewire:
                continue
            free = [k for k in range(nodes) if k != i and frozenset((i, k)) not in links]
            old = frozenset((i, (i + j) % nodes))
            if free and old in links:
                links.remove(old)
                links.add(frozenset((i, choose(free))))
    before: list[list[int]] = [[] for _ in range(nodes)]
    for low, high in sorted((min(link), max(link)) for link in links):
        before[high].append(low)
    return before


def _wired_stage(net: Net, x: NetTensor, channels: int, before: list[list[int]]) -> NetTensor:
    outs: list[NetTensor] = []
    for sources in before:
        if not sources:
            outs.append(_separable(net, x, channels, stride=2))
            continue
        y = outs[sources[0]] if len(sources) == 1 else net.add(*(outs[s] for s in sources))
        outs.append(_separable(net, y, channels, gain=len(sources) ** -0.5))
    read = {s for sources in before for s in sources}
    sinks = [out for k, out in enumerate(outs) if k not in read]
    return sinks[0] if len(sinks) == 1 else net.op("Mean", sinks, sinks[0].shape)


def _separable(
    net: Net, x: NetTensor, channels: int, *, stride: int = 1, dilation: int = 1, gain: float = 1.0
) -> NetTensor:
    """ReLU, depthwise 3x3, pointwise."""
    y = net.depthwise(_relu(net, x), stride=stride, dilation=dilation, gain=gain, act="none")
    return net.conv(y, channels, act="none")


def _relu(net: Net, x: NetTensor) -> NetTensor:
    return net.op("Relu", [x], x.shape, rectified=True)
