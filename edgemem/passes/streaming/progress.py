"""How many rows every operator of a stage has made after each of its steps.

step      0    1    2          The operators that read the inputs of the stage advance evenly. Every other one
conv      3    5    7 ...      makes all the rows that its inputs so far allow ("push"). To ask instead what the
depthwise 1    3    5 ...      next rows of the last operator need would make the first step the tallest.
conv      1    3    5 ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.errors import TilingError

if TYPE_CHECKING:
    from edgemem.passes.reach import Window
    from edgemem.passes.streaming.region import StripeRegion

__all__ = ["progress_of"]


def progress_of(region: StripeRegion) -> list[list[int]]:
    """The rows that each node (inner index) has made at the end of each step (outer index); all of them in the last.

    Every stripe reads at least one row of each of its inputs. Raises TilingError where that is impossible.
    """
    nodes, stripes = region.nodes, region.stage.stripes
    maker = {node.output: number for number, node in enumerate(nodes)}
    feeds = [sorted({maker[node.inputs[k]] for k in node.window.cut if node.inputs[k] in maker}) for node in nodes]
    progress = []
    for step in range(1, stripes + 1):
        made: list[int] = []
        for node, feed in zip(nodes, feeds, strict=True):
            window = node.window
            if not feed:
                made.append(_source(window, -(-window.made * step // stripes)))
                continue
            count = window.made
            for number in feed:
                rows = made[number]
                if rows < window.given:
                    count = min(count, window.makes(rows) if rows else 0)
            made.append(count)
        progress.append(made)
    _check(region, progress)
    return progress


def _source(window: Window, count: int) -> int:
    """The count, raised so that no stripe consists of padding alone."""
    if window.reach > 1 or not window.before + window.after:
        return count
    return window.made if count >= window.given + window.before else max(count, window.before + 1)


def _check(region: StripeRegion, progress: list[list[int]]) -> None:
    for number, node in enumerate(region.nodes):
        window, done = node.window, 0
        if not window.before and not window.after:
            continue
        for made in progress:
            if made[number] > done:
                need = window.needs(done, made[number])
                if need.begin >= need.end:
                    raise TilingError(node.name, "a stripe of it would be padding alone")
                done = made[number]
