"""Every plan file written so far is read, and says what the edgemem that wrote it said."""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from edgemem.errors import PlanFileError
from edgemem.planfile import VERSION, decode_all, encode_all, encoding
from edgemem.planfile.schema import slots
from edgemem.plans import Settings
from tests.plansets import cycle_columns, plain

if TYPE_CHECKING:
    from edgemem.plans import PlanSet
    from edgemem.trace.recording import Recording

FOLDER = Path(__file__).parents[1] / "data_planfiles"
_NAMES = {1: "graph graph-tflm textures", 2: "time-limit", 3: "pinned", 4: "recording relations regions range cycle"}
VERSIONS = {name: version for version, names in _NAMES.items() for name in names.split()}


def written(name: str) -> tuple[bytes, list[dict[str, Any]]]:
    """An old file's bytes, and the facts about each of its plan sets."""
    document = json.loads((FOLDER / f"{name}.json").read_text())
    return zlib.decompress(base64.b64decode("".join(document["bytes"]))), document["facts"]


def facts(p: PlanSet) -> dict[str, Any]:
    """In the words of the old files."""
    q = p.problem
    described = {
        "records": [(r.name, r.first_op, r.last_op, r.size, r.kind, r.tensors, r.offset) for r in q.records],
        "alignment": q.alignment,
        "reserved": q.reserved,
        "naive": p.naive,
        "bounds": (p.bounds.offsets, p.bounds.shared_objects),
        # Written as optimal where a search proved it, which is a claim to whoever reads it.
        "offsets": [
            (x.strategy, dict(x.options), x.offsets.tolist(), x.size, x.size == p.claimed.offsets) for x in p.offsets
        ],
        "shared_objects": [
            (x.strategy, dict(x.options), x.assignment.tolist(), x.objects, x.size, x.size == p.claimed.shared_objects)
            for x in p.shared_objects
        ],
        "target": p.target and p.target.name,
        "digest": p.digest,
        "steps": p.steps,
        "order": p.order,
        "unplanned": p.unplanned,
        "dims": p.dims,
        "input_shapes": p.input_shapes,
        "versions": p.versions,
        # What version 4 added.
        "relations": [None if rows is None else rows.tolist() for rows in (q.overlap, q.within)],
        "may_lie": [(r.regions, r.traffic) for r in q.records],
        "lies": [(None if x.regions is None else x.regions.tolist(), x.region_sizes) for x in p.offsets],
        "memory": p.target
        and [[(r.name, r.capacity) for r in p.target.regions], dict(p.target.pins), dict(p.target.states)],
        "settings": {name: getattr(p.settings, name) for name in Settings.__slots__},
        "ranges": {name: str(made) for name, made in p.ranges.items()},
        "recording": p.recording and _recording(p.recording),
        "cycle": p.cycle and {**cycle_columns(p.cycle), "sections": [astuple(s) for s in p.cycle.sections]},
    }
    result: dict[str, Any] = json.loads(json.dumps(described))
    return result


def _recording(recording: Recording) -> list[Any]:
    made = recording.fingerprint
    called = made.signature
    signature = [called.call, called.inputs, called.outputs, called.bound, called.shared]
    return [recording.trace.events.tolist(), made.runtime, made.version, made.model, dict(made.options), signature]


def test_every_file_is_tested_and_there_is_one_of_each_version() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(VERSIONS)
    assert set(VERSIONS.values()) == set(range(1, VERSION + 1))


@pytest.mark.parametrize("name", VERSIONS)
def test_an_old_file_is_read_as_it_was_written(name: str) -> None:
    data, told = written(name)
    assert data[4] == VERSIONS[name]
    plansets = decode_all(data)
    for planset, facts_then in zip(plansets, told, strict=True):
        facts_now = facts(planset)
        assert {key: facts_now[key] for key in facts_then} == facts_then
    assert encode_all(plansets) == data


@pytest.mark.parametrize("name", VERSIONS)
def test_a_file_of_a_later_minor_version_is_read(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A later writer has two more fields in every table, and nothing else is different."""
    plansets = decode_all(written(name)[0])
    write_table = encoding._Writer._table

    def later_slots(table: str) -> dict[str, int]:
        count = len(slots(table))
        return {**slots(table), "later": count, "list": count + 1}

    def later_table(self: Any, table: str, **fields: Any) -> int:
        return write_table(self, table, **fields, later=self._string("later"), list=self._int64s([1, 2]))

    with monkeypatch.context() as later:
        later.setattr(encoding, "slots", later_slots)
        later.setattr(encoding._Writer, "_table", later_table)
        data = encode_all(plansets)
    assert b"later" in data
    assert list(map(plain, decode_all(data))) == list(map(plain, plansets))


def test_a_file_of_a_later_major_version_is_refused() -> None:
    data, _ = written("recording")
    later = data[:4] + (VERSION + 1).to_bytes(4, "little") + data[8:]
    with pytest.raises(
        PlanFileError, match="format version 5, this edgemem reads versions 1 to 4; update edgemem-planner"
    ):
        decode_all(later)
