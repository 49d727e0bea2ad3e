"""Draws the picture of docs/gpu.md, what textures hold while a network runs, and writes that page's table of operators.

python docs/gpu_figures.py
"""

from __future__ import annotations

import sys
import tempfile
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from drawing import Drawing

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "converters")]

import edgemem
from edgemem.cli.texture_view import texture_bytes
from edgemem.report.sizes import size_text
from edgemem_converters.onnx.computation.tensor_program import RULES as ONNX_RULES
from edgemem_converters.tflite.computation.tensor_program import RULES as TFLITE_RULES
from models.build import build_tflite

if TYPE_CHECKING:
    from edgemem.plans import PlanSet, SharedObjectsPlan

COLOURS = ("#4c78a8", "#72b7b2", "#54a24b", "#eeca3b", "#f58518", "#b279a2", "#9d755d", "#79706e")
NET, TITLE = "mobilenet_v2_tflite", "MobileNet v2 at 224 x 224"
LEFT, WIDE, HIGH, TOP = 30.0, 400.0, 300.0, 60.0
GAP = 5.0  # between objects


def main() -> None:
    """Write the picture and the table."""
    picture()
    page = ROOT / "docs" / "gpu.md"
    lines = page.read_text(encoding="utf-8").splitlines(keepends=True)
    for start, rules in (("| ONNX | ", ONNX_RULES), ("| TFLite | ", TFLITE_RULES)):
        (number,) = (k for k, line in enumerate(lines) if line.startswith(start))
        lines[number] = f"{start}{', '.join(f'`{name}`' for name in sorted(rules))} |\n"
    page.write_text("".join(lines), encoding="utf-8")


def picture() -> None:
    """What textures hold while a network runs."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.tflite"
        path.write_bytes(build_tflite(NET, size=224))
        planset = edgemem.plan(path, target="gpu-texture")
        rules = edgemem.plan(path, target="gpu-texture", strategy="shared_objects/greedy_in_order")
    ours = planset.best_shared_objects
    assert ours is not None
    rule = min(rules.shared_objects, key=lambda p: p.size)
    drawn = Drawing(900, 460, f"Textures while {TITLE} runs: edgemem's plan and TFLite's rule for OpenGL")
    scale = HIGH / max(ours.size, rule.size)
    for panel, (name, plan) in enumerate((("edgemem", ours), ("TFLite's rule (greedy in order)", rule))):
        _panel(drawn, LEFT + panel * (WIDE + 40), name, planset, plan, scale)
    note = "each band is a texture, as high as it has texels; filled is what the tensor in it takes"
    drawn.text(450, 448, note, size=11)
    drawn.save("gpu.svg")


def _panel(picture: Drawing, left: float, name: str, planset: PlanSet, plan: SharedObjectsPlan, scale: float) -> None:
    """One plan: operators to the right, its textures above each other, the largest below."""
    problem = planset.problem
    steps = int(problem.last_op.max()) + 1
    texels = [extent if isinstance(extent, int) else prod(extent) for extent in plan.objects]
    bottoms, bottom = {}, TOP + HIGH + GAP * 8
    for number in sorted(range(len(texels)), key=lambda n: -texels[n]):
        high = texels[number] * scale
        bottoms[number] = bottom
        picture.rect(left, bottom - high, WIDE, high, "#f0f0f0")
        bottom -= high + GAP
    for k, record in enumerate(problem.records):
        number = int(plan.assignment[k])
        taken = record.size if isinstance(record.size, int) else prod(record.size)
        picture.rect(
            left + record.first_op / steps * WIDE,
            bottoms[number] - taken * scale,
            (record.last_op - record.first_op + 1) / steps * WIDE,
            taken * scale,
            COLOURS[k % len(COLOURS)],
        )
    size = size_text(texture_bytes(planset, plan.size))
    picture.text(left + WIDE / 2, 30, f"{name}: {size} in {len(texels)} textures", size=14)
    picture.text(left + WIDE / 2, TOP + HIGH + GAP * 8 + 18, f"{steps} operators", size=11)


if __name__ == "__main__":
    main()
