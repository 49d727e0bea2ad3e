"""Pages of `edgemem report`, which `edgemem diff` reads. A case is the data in a page, as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import edgemem
from edgemem.difference.comparison import compare_memory
from edgemem.difference.text import difference_data, difference_markdown
from edgemem.errors import PlanFileError
from edgemem.report.memory_data import memory_data, memory_of_data, memory_of_page, script_json
from edgemem.report.planned_memory import planned_memory
from edgemem_converters.onnx.model import OnnxConverter
from tests.fuzz.cases import Target
from tests.fuzz.mutation import mutate_json

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

__all__ = ["TARGET"]

_WORDS = ("0 a", "9 a", "-1 a", "99999999999 ", "", "1,2", "-1", "scratch", "tensor", "texels", "</script>")


def _known() -> list[bytes]:
    from onnx import parser

    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[1, 4] x) => (float[1, 4] y)
        { a = Exp (x)  b = Neg (a)  c = Add (a, b)  d = Relu (c)  y = Mul (d, b) }"""
    graph = OnnxConverter.from_bytes(parser.parse_model(text).SerializeToString()).graph()
    records = [edgemem.UsageRecord(f"r{k}", k, k + 2, 16 * k) for k in range(5)]
    plans = [planned_memory(edgemem.plan(graph), graph), planned_memory(edgemem.plan(edgemem.Problem(records)))]
    return [json.dumps(memory_data(memory)).encode() for memory in plans]


_SEEDS = _known()
_BEFORE = [memory_of_data(json.loads(data)) for data in _SEEDS]


def _run(data: bytes) -> None:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        raise PlanFileError("no JSON") from None
    after = memory_of_page(script_json(content))
    for before in _BEFORE:
        found = compare_memory(before, after)
        json.dumps(difference_data(found))
        difference_markdown(found)
        compare_memory(after, before)


def _seeds() -> Sequence[bytes]:
    return _SEEDS


def _mutate(chance: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    return mutate_json(chance, data, others, _WORDS)


TARGET = Target(_run, _seeds, _mutate)
