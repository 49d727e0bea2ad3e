"""Draws the pictures of docs/below-the-bound.md: overlap, stripes, and one network's memory in three plans.

python docs/below_figures.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from drawing import Drawing

sys.path.insert(0, str(Path(__file__).parents[1]))

import edgemem
from models.build import build_tflite

if TYPE_CHECKING:
    from edgemem.plans import PlanSet

IN, OUT, KEPT = "#9ecae1", "#fdae6b", "#74c476"
COLOURS = ("#4c78a8", "#72b7b2", "#54a24b", "#eeca3b", "#f58518", "#b279a2", "#9d755d", "#79706e")


def overlap() -> None:
    """A 3x3 convolution of stride 2 that writes over the rows of its input that it does not read again."""
    picture = Drawing(880, 330, "The output of a convolution beside its input, and over the rows that were read")
    rows, row = 8, 14  # of the input; its output has 4 rows of the same size
    steps = rows // 2
    # Input rows from here on are read by this output row or a later one.
    needed = [max(2 * step - 1, 0) for step in range(steps)]
    # The output row's end may not lie above the first input row that is still read afterwards.
    distance = max((step + 1) - (needed[step + 1] if step + 1 < steps else rows) for step in range(steps))
    for panel, (title, gap) in enumerate((("side by side", None), ("overlapping", max(distance, 0)))):
        left, bottom, wide = 70 + panel * 430, 270, 80
        input_at = steps if gap is None else gap
        picture.text(left + 2 * wide, 30, title, size=14)
        for step in range(steps):
            x = left + step * wide
            for k in range(rows):
                if k >= needed[step]:
                    picture.rect(x, bottom - (input_at + k + 1) * row, wide - 8, row, IN)
            for k in range(step + 1):
                picture.rect(x, bottom - (k + 1) * row, wide - 8, row, OUT)
            picture.text(x + wide / 2 - 4, bottom + 18, f"row {step}")
        top = max(input_at + rows, steps) * row
        picture.line([(left - 8, bottom), (left - 8, bottom - top)], width=1.5)
        picture.text(left - 14, bottom - top / 2, f"{max(input_at + rows, steps)} rows", anchor="end", size=11)
        picture.text(left + 2 * wide, bottom + 36, "output row that is being written", size=11)
    picture.rect(330, 315, 12, 10, IN)
    picture.text(348, 324, "input that is still read", anchor="start", size=11)
    picture.rect(500, 315, 12, 10, OUT)
    picture.text(518, 324, "output written so far", anchor="start", size=11)
    picture.save("below-overlap.svg")


def stripes() -> None:
    """Two 3x3 convolutions layer by layer, and in stripes that keep two rows between them."""
    picture = Drawing(880, 330, "Two layers one after the other, and in stripes that keep the rows needed again")
    rows, row, wide = 12, 16, 44
    picture.text(180, 28, "layer by layer: whole tensors", size=14)
    for place, (name, colour) in enumerate((("input", IN), ("middle", KEPT), ("output", OUT))):
        x = 60 + place * 90
        for k in range(rows):
            picture.rect(x, 50 + k * row, wide, row, colour)
        picture.text(x + wide / 2, 50 + rows * row + 18, name)
    picture.text(180, 285, "12 rows of the middle tensor at once", size=11)
    picture.text(610, 28, "three stripes of four rows", size=14)
    made = 0
    for stripe in range(3):
        x = 390 + stripe * 165
        # The middle layer is one row behind the input, the output one behind the middle: their windows have 3 rows.
        middle = (0 if stripe == 0 else 4 * stripe - 1, 4 * stripe + 3 if stripe < 2 else rows)
        output = (made, middle[1] - 1 if stripe < 2 else rows)
        made = output[1]
        for k in range(rows):
            y = 50 + k * row
            is_read = 4 * stripe - 2 <= k < 4 * stripe + 4
            picture.rect(x, y, 38, row, IN if is_read else "#fff", opacity=1 if is_read else 0.5)
            if middle[0] <= k < middle[1]:
                picture.rect(x + 46, y, 38, row, KEPT)
            elif stripe and max(middle[0] - 2, 0) <= k < middle[0]:
                picture.rect(x + 46, y, 38, row, KEPT, opacity=0.45)
            else:
                picture.rect(x + 46, y, 38, row, "#fff", opacity=0.5)
            picture.rect(x + 92, y, 38, row, OUT if k < output[1] else "#fff", opacity=1 if k < output[1] else 0.5)
        picture.text(x + 65, 50 + rows * row + 18, f"stripe {stripe + 1}")
    note = "at most 7 rows of the middle tensor at once, 2 of them kept (pale); none is computed twice"
    picture.text(610, 285, note, size=11)
    picture.save("below-stripes.svg")


def slots() -> None:
    """A concatenation whose pieces are written where they belong, and slices that lie in what they are cut from."""
    picture = Drawing(880, 250, "Pieces of a concatenation in their slots, and slices inside their parent")
    for panel, (title, note) in enumerate(
        (("copied", "two copies, twice the memory"), ("in its slot", "the copy is onto itself, nothing moves"))
    ):
        left = 60 + panel * 430
        picture.text(left + 160, 28, title, size=14)
        for k, (name, size, colour) in enumerate((("kept rows", 2, KEPT), ("new rows", 4, OUT))):
            y = 60 if k == 0 else 60 + 2 * 22
            x = left if panel == 0 else left + 110
            picture.rect(x, y, 110, size * 22, colour)
            picture.text(x + 55, y + size * 11 + 4, name)
        if panel == 0:
            picture.rect(left + 200, 60, 110, 6 * 22, IN)
            picture.text(left + 255, 60 + 3 * 22 + 4, "window")
            picture.line([(left + 115, 60 + 66), (left + 195, 60 + 66)])
            picture.line([(left + 188, 60 + 62), (left + 195, 60 + 66), (left + 188, 60 + 70)])
        else:
            picture.line([(left + 102, 60), (left + 102, 60 + 132)], width=1.5)
            picture.text(left + 96, 60 + 70, "window", anchor="end")
        picture.text(left + 160, 225, note, size=11)
    picture.save("below-slots.svg")


def memory() -> None:
    """MobileNet v2 0.30/80 int8 in TensorFlow Lite Micro: a classical plan, with overlaps, and streamed."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.tflite"
        path.write_bytes(build_tflite("mobilenet_v2_tflite", alpha=0.3, size=80, int8=True, classes=2))
        plans = []
        for title, kernels, steps in (
            ("classical", None, ""),
            ("overlap", "tflm-reference", "overlap=tflm-reference"),
            ("streamed and overlap", "tflm-reference", None),
        ):
            made = edgemem.shrink(path, target="tflm", kernels=kernels, steps=steps)
            plans.append((title, made.planset))
    picture = Drawing(960, 330, "Tensors of MobileNet v2 in time and memory in three plans")
    highest = max(_arena(planset) for _, planset in plans)
    for panel, (title, planset) in enumerate(plans):
        _panel(picture, 60 + panel * 300, title, planset, highest)
    picture.text(16, 40, "bytes", anchor="start", size=11)
    picture.save("below-memory.svg")


def _arena(planset: PlanSet) -> int:
    best = planset.best_offsets
    assert best is not None
    return best.size


def _panel(picture: Drawing, left: float, title: str, planset: PlanSet, highest: int) -> None:
    """One plan: operators to the right, addresses upwards."""
    best, problem = planset.best_offsets, planset.problem
    assert best is not None
    wide, high, bottom = 270.0, 230.0, 280.0
    steps = int(problem.last_op.max()) + 1
    order = np.lexsort((problem.size, problem.first_op))
    for number, k in enumerate(order.tolist()):
        first, last = int(problem.first_op[k]), int(problem.last_op[k])
        size, offset = int(problem.size[k]), int(best.offsets[k])
        picture.rect(
            left + first / steps * wide,
            bottom - (offset + size) / highest * high,
            (last - first + 1) / steps * wide,
            size / highest * high,
            COLOURS[number % len(COLOURS)],
            opacity=0.75,
        )
    top = bottom - best.size / highest * high
    picture.line([(left, top), (left + wide, top)], "crimson", dash="4 3")
    picture.text(left + wide / 2, 30, f"{title}: {best.size:,} bytes", size=14)
    picture.text(left + wide / 2, bottom + 20, f"{steps} operators", size=11)


def main() -> None:
    """Write all pictures."""
    overlap()
    slots()
    stripes()
    memory()


if __name__ == "__main__":
    main()
