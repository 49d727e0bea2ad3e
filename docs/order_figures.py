"""Draws the pictures of docs/order.md: two orders of a small graph, its lower bound, and memory over a training step.

python docs/order_figures.py             needs PyTorch for the last one, and leaves it out where there is none
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from drawing import EDGE, Drawing

sys.path.insert(0, str(Path(__file__).parents[1]))

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Point: TypeAlias = tuple[float, float]

COLOURS = {"x": "#9ecae1", "a": "#f58518", "b": "#eeca3b", "c": "#54a24b", "d": "#72b7b2", "e": "#b279a2"}
GIVEN, FOUND = "#4c78a8", "#f58518"
# Two branches: what each operator reads, and how much it gives. `x` is there before the first operator.
READS: Mapping[str, tuple[str, ...]] = {"a": ("x",), "b": ("x",), "c": ("a",), "d": ("b",), "e": ("c", "d")}
SIZES = {"x": 1, "a": 4, "b": 4, "c": 1, "d": 1, "e": 1}
PLACES: Mapping[str, Point] = {"x": (0, 1), "a": (1, 0.35), "b": (1, 1.65), "c": (2, 0.35), "d": (2, 1.65), "e": (3, 1)}


def alive(order: Sequence[str]) -> list[list[str]]:
    """For each operator of an order the tensors in memory while it runs, in the order in which they came."""
    last = {t: max(at for at, op in enumerate(order) if t in (op, *READS[op])) for t in SIZES}
    born = {"x": 0} | {op: at for at, op in enumerate(order)}
    return [[t for t in ("x", *order) if born[t] <= at <= last[t]] for at in range(len(order))]


def orders() -> None:
    """A graph with two branches, breadth first and branch by branch."""
    picture = Drawing(900, 300, "A graph with two branches, and what is in memory in two orders of its operators")
    _graph(picture, 40, 60, 85, 85)
    picture.text(170, 30, "tensors, with their sizes", size=14)
    for panel, order in enumerate(("abcde", "acbde")):
        left, bottom, wide, unit = 370 + panel * 280, 250, 48, 20
        bars = alive(order)
        peak = max(sum(SIZES[t] for t in bar) for bar in bars)
        for at, bar in enumerate(bars):
            top = bottom
            for tensor in bar:
                top -= SIZES[tensor] * unit
                picture.rect(left + at * wide, top, wide - 6, SIZES[tensor] * unit, COLOURS[tensor])
                picture.text(left + at * wide + wide / 2 - 3, top + SIZES[tensor] * unit / 2 + 4, tensor, size=11)
            picture.text(left + at * wide + wide / 2 - 3, bottom + 18, f"run {order[at]}", size=11)
        line = bottom - peak * unit
        picture.line([(left - 6, line), (left + 5 * wide, line)], "crimson", dash="4 3")
        title = ("layer by layer", "branch by branch")[panel]
        picture.text(left + 2.5 * wide, 30, f"{title}: {peak}", size=14)
    picture.save("order-two.svg")


def _graph(picture: Drawing, left: float, top: float, across: float, down: float) -> None:
    places = {t: (left + x * across, top + y * down) for t, (x, y) in PLACES.items()}
    for op, reads in READS.items():
        for tensor in reads:
            picture.line([places[tensor], places[op]])
    for tensor, (x, y) in places.items():
        picture.rect(x - 17, y - 15, 34, 30, COLOURS[tensor])
        picture.text(x, y + 4, f"{tensor} {SIZES[tensor]}")


def bound() -> None:
    """What has run before an operator is closed under what they read; what crosses its border is in memory."""
    picture = Drawing(900, 330, "Sets of operators that may have run before an operator, and the cheapest of them")
    left, top, across, down = 60, 70, 130, 62
    # name -> place and size; the chain below may have run or not when o runs
    places: Mapping[str, Point] = {
        "x": (0, 1.5),
        "p": (1, 0.5),
        "q": (2, 0.5),
        "o": (3, 0.5),
        "r": (1, 2.5),
        "s": (2, 2.5),
        "t": (3, 2.5),
        "y": (4, 1.5),
    }
    sizes = {"x": 3, "p": 4, "q": 2, "o": 5, "r": 6, "s": 1, "t": 4, "y": 1}
    edges = ("xp", "pq", "qo", "xr", "rs", "st", "oy", "ty")
    at = {name: (left + x * across, top + y * down) for name, (x, y) in places.items()}
    for edge in edges:
        picture.line([at[edge[0]], at[edge[1]]])
    needed, free = "#c6dbef", "#fff"
    colours = {"x": needed, "p": needed, "q": needed, "o": FOUND, "y": "#ddd"}
    for name, (x, y) in at.items():
        picture.rect(x - 22, y - 16, 44, 32, colours.get(name, free))
        picture.text(x, y + 5, f"{name} {sizes[name]}", size=13)
    # The border between what has run and what has not: q is needed by o; r and s have run as well, t has not.
    x1, x2 = at["q"][0] + across / 2, at["s"][0] + across / 2
    picture.line([(x1, 40), (x1, top + 1.5 * down), (x2, top + 1.5 * down), (x2, 285)], "crimson", dash="6 4", width=2)
    other = at["x"][0] + across / 2
    picture.line([(x1 - 8, 40), (x1 - 8, top + 1.2 * down), (other, top + 1.7 * down), (other, 285)], EDGE, dash="2 3")
    picture.text(x1, 32, "has run | has not", size=12)
    picture.text(x2 + 6, 303, "q + s + o = 2 + 1 + 5 = 8: the least", anchor="start", size=12)
    picture.text(other, 303, "q + x + o = 2 + 3 + 5 = 10", size=12)
    lines = (
        "When o runs, all that it reads from",
        "has run (blue), and nothing after it.",
        "The others may have run or not, but",
        "never one without what it reads from.",
        "What crosses the border is in memory,",
        "with what o itself writes. The cheapest",
        "border is a minimum cut: one maximum",
        "flow gives it. No order does better at o.",
    )
    for k, text in enumerate(lines):
        picture.text(632, 70 + 22 * k, text, anchor="start", size=12)
    picture.save("order-bound.svg")


def curves(name: str, title: str, given: Sequence[int], found: Sequence[int], bound_: int) -> None:
    """Memory in use at each operator, in two orders."""
    picture = Drawing(900, 330, f"{title}: memory in use at each operator in two orders")
    left, bottom, wide, high, unit = 70.0, 280.0, 790.0, 230.0, 2**20
    top = max(*given, *found) * 1.05
    for level in range(0, int(top / unit) + 1, max(int(top / unit / 6) // 5 * 5, 1)):
        y = bottom - level * unit / top * high
        picture.line([(left, y), (left + wide, y)], "#ddd", width=0.5)
        picture.text(left - 8, y + 4, str(level), anchor="end", size=11)
    for values, colour, label, place in ((given, GIVEN, "PyTorch's order", 0), (found, FOUND, "edgemem", 1)):
        step = wide / len(values)
        points = [(left + (k + 0.5) * step, bottom - v / top * high) for k, v in enumerate(values)]
        picture.line(points, colour, width=1.5)
        picture.text(left + 20, 52 + 18 * place, f"{label}: {max(values) / unit:.1f} MiB", anchor="start", size=12)
        picture.rect(left + 5, 43 + 18 * place, 10, 10, colour)
    y = bottom - bound_ / top * high
    picture.line([(left, y), (left + wide, y)], "crimson", dash="4 3")
    picture.text(left + 20, 52 + 36, f"lower bound: {bound_ / unit:.1f} MiB", anchor="start", size=12)
    picture.rect(left + 5, 43 + 36, 10, 10, "crimson")
    picture.text(left + wide / 2, 22, title, size=14)
    picture.text(left + wide / 2, bottom + 28, "operators, in the order in which they run", size=11)
    picture.text(left - 8, 30, "MiB", anchor="end", size=11)
    picture.save(name)


def training() -> None:
    """One training step of ResNet-18 with one sample."""
    import edgemem
    from edgemem.records.lifetime import lifetimes
    from edgemem.strategy.bounds import operator_breadths
    from edgemem.targets import BUILT_IN
    from tests.bench.order.training_models import captured

    graph = captured("resnet18", 1, "sgd")
    ordering = edgemem.order(graph)
    target = BUILT_IN[graph.default_target]
    given, found = (
        operator_breadths(lifetimes(g, target).problem).tolist() for g in (graph, graph.reordered(ordering.order))
    )
    title = "One training step of ResNet-18, one sample: what operators allocate"
    curves("order-training.svg", title, given, found, ordering.lower_bound)


def main() -> None:
    """Write all pictures."""
    orders()
    bound()
    if importlib.util.find_spec("torch") is None:
        print("order-training.svg is left as it is: it needs PyTorch")
        return
    training()


if __name__ == "__main__":
    main()
