"""Every plan file written so far is read, and says what the edgemem that wrote it said."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from edgemem.errors import PlanFileError
from edgemem.planfile import decode_all, encode, encode_all
from edgemem.planfile.legacy import decode_recordings
from tests.plansets import plain

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
    assert {path.stem for path in FOLDER.glob("*.json")} == {*GRAPHS, "recordings"}


@pytest.mark.parametrize("name", GRAPHS)
def test_a_plan_of_a_graph(name: str) -> None:
    data, told = written(name)
    assert data[4] == GRAPHS[name]
    plansets = decode_all(data)
    assert [facts(p) for p in plansets] == told
    assert encode_all(plansets) == data


def test_recorded_plans() -> None:
    data, told = written("recordings")
    plansets = decode_recordings(data)
    assert len(plansets) == len(told) == 3
    for planset, one in zip(plansets, told, strict=True):
        assert planset.recording is not None
        old, new = one["fingerprint"], planset.recording.fingerprint
        assert facts(planset) == {key: value for key, value in one.items() if key in facts(planset)}
        assert planset.recording.trace.events.tolist() == one["stream"]
        assert (new.runtime, new.version, new.model) == ("onnxruntime", old["runtime"], old["model"])
        assert new.options == {
            "level": "ORT_ENABLE_ALL",
            "intra_threads": old["intra_threads"],
            "inter_threads": old["inter_threads"],
            "providers": "CPUExecutionProvider",
        }
        assert [[name, kind, list(shape)] for name, kind, shape in new.signature.inputs] == old["signature"]["inputs"]
    signatures = [p.recording.fingerprint.signature for p in plansets if p.recording]
    assert [(s.call, s.bound, s.shared) for s in signatures] == [
        ("run", False, False),
        ("run", False, True),
        ("run", True, False),
    ]
    # They go on in a file of today.
    assert [plain(p) for p in decode_all(encode_all(plansets))] == [plain(p) for p in plansets]


def sealed(text: bytes, *files: bytes) -> bytes:
    """A file of recorded plans with a right checksum."""
    body = b"".join((text, *files))
    return struct.pack("<4sIII", b"EDGT", 1, zlib.crc32(body), len(text)) + body


def taken_apart() -> tuple[list[dict[str, Any]], list[bytes]]:
    """The entries of the recorded plans, and the plan file of each."""
    data, _ = written("recordings")
    end = 16 + struct.unpack_from("<I", data, 12)[0]
    entries, files = json.loads(data[16:end]), []
    for entry in entries:
        files.append(data[end : end + entry["bytes"]])
        end += entry["bytes"]
    return entries, files


def test_of_two_plans_with_one_fingerprint_the_first_counts() -> None:
    entries, files = taken_apart()
    entries[1] = dict(entries[1], fingerprint=entries[0]["fingerprint"])
    plansets = decode_recordings(sealed(json.dumps(entries).encode(), *files))
    assert [plain(p) for p in plansets] == [plain(p) for p in decode_recordings(written("recordings")[0])[::2]]


@pytest.mark.parametrize(
    "change",
    [
        {"events": 6},
        {"events": 9},
        {"events": 2**61},
        {"events": -1},
        {"events": "7"},
        {"heap": [[7, 64]]},
        {"heap": [[-1, 64]]},
        {"heap": [[0, 64]]},
        {"heap": [[1, 2, 3]]},
        {"heap": 5},
        {"bytes": 0},
        {"bytes": 2**61},
        {"fingerprint": {}},
        {"fingerprint": None},
    ],
)
def test_a_forged_entry_is_refused(change: dict[str, Any]) -> None:
    entries, files = taken_apart()
    entries[1] |= change
    with pytest.raises(PlanFileError, match=r"malformed: .*; record it again$"):
        decode_recordings(sealed(json.dumps(entries).encode(), *files))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"EDGT", "too short"),
        (b"EDGM" + bytes(20), "begins with b'EDGM'"),
        (b"EDGT\x02" + bytes(20), "version 2"),
        (sealed(b"[]")[:-1], "checksum"),
        (sealed(b"[]", b"x"), "belong to no plan"),
        (sealed(b"[" * 100_000), "malformed"),
        (sealed(b"7"), "malformed"),
        (sealed(b"[7]"), "malformed"),
        (sealed(b'{"bytes": 1}'), "malformed"),
        (sealed(b"\xff"), "malformed"),
    ],
)
def test_no_recorded_plans(data: bytes, message: str) -> None:
    with pytest.raises(PlanFileError, match=f"{message}.*; record it again$"):
        decode_recordings(data)


def test_no_bit_flip_in_a_plan_of_recorded_plans_raises_anything_else() -> None:
    entries, files = taken_apart()
    text = json.dumps(entries).encode()
    for position in range(0, len(files[0]), 7):
        flipped = bytearray(files[0])
        flipped[position] ^= 1 << position % 8
        with pytest.raises(PlanFileError):
            decode_recordings(sealed(text, bytes(flipped), *files[1:]))


def test_a_recording_cannot_be_taken_for_a_graph_plan() -> None:
    data, _ = written("recordings")
    with pytest.raises(PlanFileError, match="begins with b'EDGT'"):
        decode_all(data)
    assert encode(decode_recordings(data)[0])[4] == 4
