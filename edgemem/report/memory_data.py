"""Planned memory as compact JSON: what a report page carries, and what `edgemem diff` reads out of it.

Rows are columns. Texts that repeat are numbers into a list, and a name is how many characters it shares with the one
before it, a space, and the rest: names in models begin alike.
"""

from __future__ import annotations

import json
from dataclasses import astuple
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import PlanFileError
from edgemem.report.planned_memory import MemoryOperator, MemoryRecord, MemoryTensor, PlannedMemory, PlanRow
from edgemem.report.recorded_memory import RecordedMemory

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["SCHEMA_VERSION", "memory_data", "memory_of_data", "memory_of_page", "script_json"]

SCHEMA_VERSION: Final = 1
_MOST_CHARACTERS: Final = 1 << 26  # of all names
_OPENING: Final = '<script type="application/json" id="edgemem-data">'
_CLOSING: Final = "</script>"
_PLAIN: Final = (
    "name subject target digest unit strategy arena lower_bound naive peak_op peak tail whole kernels".split()  # noqa: SIM905
)


def memory_data(memory: PlannedMemory) -> dict[str, Any]:
    """JSON-ready data with all that `memory_of_data` needs."""
    tensors, records, operators = memory.tensors, memory.records, memory.operators
    dtypes, dtype = _coded(t.dtype for t in tensors)
    kinds, kind = _coded(r.kind for r in records)
    types, op_type = _coded(o.type for o in operators)
    shapes, shape = _coded(",".join(map(str, t.shape)) for t in tensors)
    first_names = _first_names(tensors)
    return {
        "schema_version": SCHEMA_VERSION,
        **{name: getattr(memory, name) for name in _PLAIN},
        "tensors": {
            "name": _front_coded([t.name for t in tensors]),
            "dtypes": dtypes,
            "dtype": dtype,
            "shapes": shapes,
            "shape": shape,
            "record": [t.record for t in tensors],
        },
        "records": {
            "name": [0 if first_names.get(k) == r.name else r.name for k, r in enumerate(records)],
            "first": [r.first for r in records],
            "length": [r.last - r.first for r in records],
            "size": [r.size for r in records],
            "kinds": kinds,
            "kind": kind,
            "offset": [r.offset for r in records],
            "object": [r.shared_object for r in records] if memory.objects else [],
            "region": [r.region for r in records] if any(r.region for r in records) else [],
        },
        "operators": {
            "label": _told(
                [o.label for o in operators], [tensors[o.writes[0]].name if o.writes else "" for o in operators]
            ),
            "types": types,
            "type": op_type,
            "reads": [list(o.reads) for o in operators],
            "writes": [list(o.writes) for o in operators],
            "weights": [o.weights for o in operators],
            "macs": [o.macs for o in operators],
        },
        "plans": [[p.family, p.strategy, p.size, p.is_optimal, p.stopped] for p in memory.plans],
        "objects": list(memory.objects),
        "recorded": None if memory.recorded is None else astuple(memory.recorded),
        "unplanned": [list(pair) for pair in memory.unplanned],
        "versions": dict(memory.versions),
    }


def memory_of_data(data: object) -> PlannedMemory:
    """The rows again. Raises PlanFileError for what `memory_data` did not write."""
    if not isinstance(data, dict) or data.get("schema_version") != SCHEMA_VERSION:
        raise PlanFileError(f"it holds no data of an edgemem report in version {SCHEMA_VERSION}; make the report again")
    try:
        memory = _decoded(data)
        _check(memory)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as e:
        why = f"{type(e).__name__}, {str(e).strip(chr(39))}"[:80]
        raise PlanFileError(f"the data of the report are damaged ({why}); make it again") from None
    return memory


def memory_of_page(text: str) -> PlannedMemory:
    """The rows in a report page. Raises PlanFileError if the text is none, or is damaged."""
    begin = text.find(_OPENING)
    end = text.find(_CLOSING, begin)
    if begin < 0 or end < 0:
        raise PlanFileError("it is no page that `edgemem report` made")
    try:
        return memory_of_data(json.loads(text[begin + len(_OPENING) : end]))
    except (ValueError, RecursionError):
        raise PlanFileError("the data of the report are damaged; make it again") from None


def script_json(data: object) -> str:
    """An element with the data. No text in them can end it, or begin another one."""
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=True)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return f"{_OPENING}{text}{_CLOSING}"


def _coded(values: Iterable[str]) -> tuple[list[str], list[int]]:
    """The different texts, and the number of each value among them."""
    numbers: dict[str, int] = {}
    coded = [numbers.setdefault(value, len(numbers)) for value in values]
    return list(numbers), coded


def _first_names(tensors: Iterable[MemoryTensor]) -> dict[int, str]:
    """Record -> the name of its first tensor."""
    found: dict[int, str] = {}
    for tensor in tensors:
        found.setdefault(tensor.record, tensor.name)
    return found


def _front_coded(names: Sequence[str]) -> list[str]:
    return _told(names, ["", *names])


def _told(names: Sequence[str], like: Sequence[str]) -> list[str]:
    """How many characters each name shares with another one, a space, and the rest."""
    coded = []
    for name, other in zip(names, like, strict=False):
        shared = sum(1 for _ in takewhile(_is_shared, zip(other, name, strict=False)))
        coded.append(f"{shared} {name[shared:]}")
    return coded


def _is_shared(pair: tuple[str, str]) -> bool:
    # JavaScript counts a character beyond U+FFFF twice, so that none is in a shared part.
    return pair[0] == pair[1] and pair[0] <= "\uffff"


def _front_decoded(coded: Sequence[str]) -> list[str]:
    return _heard(coded, None)


def _heard(coded: Sequence[str], like: Sequence[str] | None) -> list[str]:
    """The names again, each told from one of `like`, or from the one before it.

    Raises ValueError for more characters than a model has: each name may repeat a long one.
    """
    names, before, total = [], "", 0
    for k, text in enumerate(coded):
        shared, _, rest = text.partition(" ")
        before = (before if like is None else like[k])[: int(shared)] + rest
        names.append(before)
        total += len(before)
        if total > _MOST_CHARACTERS:
            raise ValueError("its names are too long")
    return names


def _decoded(data: dict[str, Any]) -> PlannedMemory:
    tensors, records, operators = data["tensors"], data["records"], data["operators"]
    shapes = [tuple(map(int, text.split(","))) if text else () for text in tensors["shapes"]]
    nowhere = [-1] * len(records["first"])
    rows = tuple(
        MemoryTensor(name, tensors["dtypes"][dtype], shapes[shape], record)
        for name, dtype, shape, record in zip(
            _front_decoded(tensors["name"]), tensors["dtype"], tensors["shape"], tensors["record"], strict=True
        )
    )
    first_names = _first_names(rows)
    return PlannedMemory(
        **{name: data[name] for name in _PLAIN},
        tensors=rows,
        records=tuple(
            MemoryRecord(
                first_names[k] if name == 0 else name,
                first,
                first + length,
                size,
                records["kinds"][kind],
                offset,
                shared,
                region,
            )
            for k, name, first, length, size, kind, offset, shared, region in zip(
                range(len(nowhere)),
                records["name"],
                records["first"],
                records["length"],
                records["size"],
                records["kind"],
                records["offset"],
                records["object"] or nowhere,
                records["region"] or [0] * len(nowhere),
                strict=True,
            )
        ),
        operators=tuple(
            MemoryOperator(
                label,
                operators["types"][kind],
                tuple(reads),
                tuple(writes),
                weights,
                macs,
            )
            for label, kind, reads, writes, weights, macs in zip(
                _heard(operators["label"], [rows[w[0]].name if w else "" for w in operators["writes"]]),
                *(operators[key] for key in ("type", "reads", "writes", "weights", "macs")),
                strict=True,
            )
        ),
        plans=tuple(PlanRow(*row) for row in data["plans"]),
        objects=tuple(data["objects"]),
        recorded=RecordedMemory(*data["recorded"]) if data.get("recorded") else None,
        unplanned=tuple((tensor, reason) for tensor, reason in data["unplanned"]),
        versions={str(k): str(v) for k, v in data["versions"].items()},
    )


def _check(memory: PlannedMemory) -> None:
    """Raise PlanFileError for figures that no plan has: what reads the rows may then index with them."""
    texts = [
        *(getattr(memory, name) for name in ("name", "subject", "target", "digest", "unit", "strategy", "kernels")),
        *(p.strategy for p in memory.plans),
        *(text for r in memory.records for text in (r.name, r.kind)),
        *(text for o in memory.operators for text in (o.label, o.type)),
        *(t.dtype for t in memory.tensors),
    ]
    sizes = [
        *(getattr(memory, name) for name in ("arena", "lower_bound", "naive", "peak_op", "peak", "tail", "whole")),
        *(n for r in memory.records for n in (r.first, r.last - r.first, r.size, r.offset + 1, r.shared_object + 1)),
        *(n for o in memory.operators for n in (o.weights, o.macs)),
        *memory.objects,
        *((r.arena, r.lower_bound, 0 if r.results is None else r.results) if (r := memory.recorded) else ()),
    ]
    count, steps = len(memory.tensors), len(memory.operators)
    wrong = {
        "texts": not all(isinstance(text, str) for text in texts),
        "sizes": not all(type(n) is int and 0 <= n < 1 << 63 for n in sizes),
        "lifetimes": bool(steps) and not all(r.last < steps for r in memory.records),
        "records of tensors": not all(
            type(t.record) is int and -1 <= t.record < len(memory.records) for t in memory.tensors
        ),
        "tensors of operators": not all(
            type(n) is int and 0 <= n < count for o in memory.operators for n in (*o.reads, *o.writes)
        ),
    }
    found = next((what for what, is_wrong in wrong.items() if is_wrong), "")
    if found:
        raise PlanFileError(f"the data of the report hold {found} that no plan has; make it again")
