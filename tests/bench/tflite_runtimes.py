"""What real TFLite runtimes take for a model, and what they take with edgemem, as a page of documentation.

    python tests/bench/tflite_runtimes.py docs/tflite.md

replaces the table in the page, between its two marks. Everything is measured: LiteRT's arenas are those of its
interpreter with builtin kernels, TFLite Micro's from a run of it. A row is printed only if all outputs are equal, bit
for bit, to those of the file as it came. Models come from pinned packages (`models/fetch.py`).
"""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))

import numpy as np
from ai_edge_litert.interpreter import OpResolverType

import edgemem
from edgemem import planfile
from edgemem.errors import RuntimeBindError
from edgemem.records.micro_planner import predicted_head
from edgemem.runtime.executors import MICRO_KERNELS
from edgemem.runtime.litert.interpreter import Interpreter
from edgemem.runtime.litert.probe import LiteRTProbe
from edgemem.runtime.tflm.execution import execute, input_values
from edgemem.schedule.order import find_order
from edgemem.targets import BUILT_IN
from edgemem_converters.tflite.model import TfliteConverter
from models.fetch import catalogue, fetch
from tests.litert_inputs import random_inputs

BEGIN, END = "<!-- table: made by tests/bench/tflite_runtimes.py -->", "<!-- end of the table -->"
KERNELS = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
QUICK = ("offsets/greedy_by_size", "offsets/greedy_by_breadth", "offsets/litert_arena")


def in_litert(data: bytes) -> tuple[list[Any], int]:
    """Outputs of two runs on random inputs in LiteRT's builtin kernels, and its arena."""
    interpreter = Interpreter(model_content=data, experimental_op_resolver_type=KERNELS)
    interpreter.allocate_tensors()
    details = interpreter.get_input_details()
    outputs = []
    for seed in (1, 2):
        for entry, value in zip(details, random_inputs(details, seed), strict=True):
            interpreter.set_tensor(entry["index"], value)
        interpreter.invoke()
        outputs += [interpreter.get_tensor(d["index"]).copy() for d in interpreter.get_output_details()]
    return outputs, interpreter.memory.reserved


def same(one: Any, other: Any) -> bool:
    """Equal, bit for bit."""
    return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(one, other, strict=True))


def litert_arenas(model: TfliteConverter) -> list[int | None]:
    """LiteRT's arena for the file as it came, and for the folded and ordered one if that is less."""
    folded = model.folded()
    try:
        expected, own = in_litert(model.content())
        order = find_order(LiteRTProbe().annotated(folded.graph(), folded), BUILT_IN["litert"]).order
    except (RuntimeBindError, RuntimeError, ValueError):
        return [None, None]
    sizes = [own]
    for candidate in dict.fromkeys((folded, folded.with_order(order))):
        outputs, arena = in_litert(candidate.content())
        assert same(outputs, expected)
        sizes.append(arena)
    return [own, min(sizes)]


def tflm_arenas(model: TfliteConverter) -> list[int | None]:
    """Naive size and bound of the folded and ordered model, TFLite Micro's own head, the planned ones; all measured.

    The last one is of a plan with `shrink --kernels tflm-reference`, the kernels of the package tflite-micro.
    """
    folded = model.folded()
    rules = BUILT_IN["tflm"]
    ordered = folded.with_order(find_order(folded.graph(), rules).order)
    candidates = []
    for candidate in dict.fromkeys((folded, ordered)):
        planset = edgemem.plan(candidate, target=rules, strategy=QUICK)
        if planset.best_offsets and not planset.best_offsets.optimal:
            planset = edgemem.plan(candidate, target=rules)
        candidates.append((planset, candidate))
    planset, chosen = min(candidates, key=lambda c: c[0].best_offsets.size if c[0].best_offsets else 0)
    graph = folded.graph()
    naive, bound = planset.naive, min(p.bounds.offsets for p, _ in candidates)
    values = [v + np.ones((), v.dtype) for v in input_values(graph)]
    over = edgemem.plan(chosen, target=rules.changed(kernels=MICRO_KERNELS, slots=True), effort="fast")
    heads: list[int | None] = []
    try:
        own = execute(folded.content(), values, outputs=len(graph.outputs), runs=2)
        for made in (planset, over):
            planned = chosen.with_plan(planfile.encode(made), made).content()
            ours = execute(planned, values, outputs=len(graph.outputs), runs=2)
            assert same(own.outputs, ours.outputs)
            heads.append(ours.head)
    except RuntimeBindError:
        return [naive, bound, None, None, None]
    assert predicted_head(graph, {}).total <= own.head
    return [naive, bound, own.head, *heads]


def table() -> str:
    """The table, with the versions it was measured with."""
    versions = ", ".join(f"{p} {version(p)}" for p in ("ai-edge-litert", "tflite-micro"))
    head = ["model", "naive", "bound", "LiteRT", "LiteRT, ordered", "TFLM", "edgemem in TFLM"]
    head.append("with an overlap")
    lines = [
        f"Measured with {versions}; bytes.",
        "",
        f"| {' | '.join(head)} |",
        "|---" + "|---:" * (len(head) - 1) + "|",
    ]
    for name in (entry.name for entry in catalogue().values() if entry.path.endswith(".tflite")):
        model = edgemem.load(fetch(name))
        assert isinstance(model, TfliteConverter)
        naive, bound, *micro = tflm_arenas(model)
        cells = [naive, bound, *litert_arenas(model), *micro]
        lines.append(f"| {name} | " + " | ".join("-" if c is None else f"{c:,}" for c in cells) + " |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def main(page: Path) -> None:
    """Replace the table in the page."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
