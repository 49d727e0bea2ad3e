"""Every plan file written so far is read, and says what the edgemem that wrote it said."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from edgemem.planfile import decode_all, encode_all

if TYPE_CHECKING:
    from edgemem.plans import PlanSet

FOLDER = Path(__file__).parents[1] / "data_planfiles"
GRAPHS = {"graph": 1, "graph-tflm": 1, "time-limit": 2, "pinned": 3, "textures": 1}  # and their versions


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
    }
    result: dict[str, Any] = json.loads(json.dumps(described))
    return result


def test_every_file_is_tested() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(GRAPHS)


@pytest.mark.parametrize("name", GRAPHS)
def test_a_plan_of_a_graph(name: str) -> None:
    data, told = written(name)
    assert data[4] == GRAPHS[name]
    plansets = decode_all(data)
    assert [facts(p) for p in plansets] == told
    assert encode_all(plansets) == data
