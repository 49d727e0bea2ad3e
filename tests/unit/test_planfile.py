"""Plan files give back what was put in, and say what is wrong with everything else."""

from __future__ import annotations

import base64
import json
import re
import shutil
import struct
import subprocess
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import flatbuffers
import numpy as np
import pytest
from hypothesis import given, settings

from edgemem import planfile
from edgemem.errors import PlanFileError
from edgemem.planfile import decode, encode, load, save
from edgemem.planfile.schema import DEFAULTS, slots
from edgemem.planfile.target import target_from, target_maps
from edgemem.plans import LowerBounds, PlanSet, SearchReport
from edgemem.records.problem import Kind, Problem
from edgemem.targets import BUILT_IN, Region, Target
from tests import plan_fbs
from tests.plansets import int64s, plain, plansets, small, typed

SCHEMA = Path(planfile.__file__).parent / "plan.fbs"


def sealed(payload: bytes) -> bytes:
    """A payload behind a right header."""
    return struct.pack("<4sIII", b"EDGM", 1, zlib.crc32(payload), len(payload)) + payload


@pytest.mark.full
@settings(max_examples=300, deadline=None)
@given(plansets())
def test_everything_comes_back(p: PlanSet) -> None:
    data = encode(p)
    back = decode(data)
    assert plain(back) == plain(p)
    assert encode(back) == data


def test_scalar_and_bool_options_stay_apart() -> None:
    p = replace(
        small(), offsets=(replace(small().offsets[0], options={"a": True, "b": 1, "c": "1", "d": 0, "e": False}),)
    )
    assert decode(encode(p)).offsets[0].options == {"a": True, "b": 1, "c": "1", "d": 0, "e": False}
    assert [type(v) for v in decode(encode(p)).offsets[0].options.values()] == [bool, int, str, int, bool]


@pytest.mark.parametrize("order", [None, (), (1, 0, 2)])
def test_no_order_is_not_an_empty_order(order: tuple[int, ...] | None) -> None:
    assert decode(encode(replace(small(), order=order))).order == order


# Written before plans told what a search proved: two plans, one of them of a search.
BEFORE_SEARCHES = (
    "eNqFUrFOwlAUPYUqjWnIGwghkaEDQwcGFxMGBwaJHUrC6OBSbRtclABxcvADHHRz5AMc+BA/gsHBD3BwAOp97W19KS3e5OS93tN373nnvsH5xVADcPp6XFtV"
    "gRPaD4Yj14YLB330KNOFDRkdWGijRbsGBEwY0GPGITwTXhgLwhdhTRBUvEOwCZ9awsl4z60fFeB7E0WC9lbcK8FqHUUGrQZKYrOftwr4q+1uH+efOmPmzVz+"
    "qST/VpJfluTT0GJ3ybfM7QZpqkEwvVD+Fay9R3gkkIXwmTtT/qvk6qfhR7s+jLb7fZgU8AeEO+/2IVD0A3VWL2L9dW6fzlveX76dZU7fJOP/3pjJd+3xW3MJ"
    "P6yjzed1PqcrteQ+9GZztX5V8USiHyV1Wvx9yPyRsgZheD+dz4LAT/hZ4E1vxpJtZjNCrDbp2mS9YC9k7a7sRbhU7rtvXlrB7IrmaLBH6UxaJefl6l0Dv2vT"
    "WnE="
)


def test_an_old_file_is_read() -> None:
    back = decode(zlib.decompress(base64.b64decode(BEFORE_SEARCHES)))
    (plan,) = back.offsets
    assert (plan.strategy, plan.options, plan.size, plan.optimal) == (
        "search",
        {"effort": "fast", "seed": 3},
        172,
        True,
    )
    assert plan.offsets.tolist() == [0, 112]
    assert plan.search is None
    assert back.shared_objects[0].search is None
    assert back.bounds == back.proved == LowerBounds(172, 160)


def test_only_a_real_number_needs_version_2() -> None:
    """So that whoever reads version 1 goes on reading all files that hold nothing else."""
    plan = replace(small().offsets[0], search=SearchReport(160, "time", 7, 3))
    assert encode(replace(small(), offsets=(plan,)))[4] == 1
    limited = encode(replace(small(), offsets=(replace(plan, options={"time_limit": 0.5}),)))
    assert limited[4] == 2
    assert typed(decode(limited).offsets[0].options) == {"time_limit": (float, 0.5)}


def test_a_map_has_one_encoding() -> None:
    ab = replace(small(), versions={"a": "1", "b": "2"})
    ba = replace(small(), versions={"b": "2", "a": "1"})
    assert encode(ab) == encode(ba)


def test_columns_without_names_are_named_by_index() -> None:
    p = replace(small(), problem=Problem.from_arrays([0, 1, 2], [1, 2, 2], [100, 60, 30], alignment=16))
    assert decode(encode(p)).problem.names == ("0", "1", "2")


def test_decoded_arrays_are_their_own_and_read_only() -> None:
    back = decode(encode(small()))
    for array in (back.offsets[0].offsets, back.shared_objects[0].assignment):
        assert array.base is None
        assert not array.flags.writeable
        assert array.dtype == np.int64


def test_layout_of_the_header() -> None:
    data = encode(small())
    magic, version, checksum, length = struct.unpack_from("<4sIII", data)
    assert (magic, version, length) == (b"EDGM", 1, len(data) - 16)
    assert checksum == zlib.crc32(data[16:])
    assert data[20:24] == b"EMPL"


def test_the_schema_and_the_reader_agree_on_every_field() -> None:
    schema = {
        name: {field: slot for slot, field in enumerate(re.findall(r"^ +(\w+):", body, re.MULTILINE))}
        for name, body in re.findall(r"^table (\w+) \{(.*?)^\}", SCHEMA.read_text(), re.MULTILINE | re.DOTALL)
    }
    assert schema == {table: dict(slots(table)) for table in schema}
    kinds = re.search(r"enum Kind : ubyte \{ (.*) \}", SCHEMA.read_text())
    assert kinds is not None
    assert tuple(kinds[1].split(", "))[: len(get_args(Kind))] == get_args(Kind)


class _Recorder:
    """A builder that notes how the generated code adds a field."""

    def __init__(self) -> None:
        self.added: tuple[str, int, float] = ("", -1, 0)

    def __getattr__(self, method: str) -> Any:
        def note(slot: int, _: object, default: float) -> None:
            self.added = (method, slot, default)

        return note


def test_the_writer_and_the_generated_code_agree_on_every_field() -> None:
    methods = {int: "PrependInt64Slot", bool: "PrependBoolSlot", float: "PrependFloat64Slot"}
    generated: dict[str, dict[str, tuple[str, int, float]]] = {}
    for name in dir(plan_fbs):
        if match := re.fullmatch(r"([A-Za-z]+)Add([A-Z]\w*)", name):
            recorder = _Recorder()
            getattr(plan_fbs, name)(recorder, 0)
            field = re.sub(r"(?<!^)(?=[A-Z])", "_", match[2]).lower()
            generated.setdefault(match[1], {})[field] = recorder.added
    assert len(generated) == 12
    for table, fields in generated.items():
        defaults = DEFAULTS.get(table, {})
        assert defaults.keys() <= fields.keys()
        assert fields == {
            field: (methods[type(defaults[field])], slot, defaults[field])
            if field in defaults
            else ("PrependUOffsetTRelativeSlot", slot, 0)
            for field, slot in slots(table).items()
        }


def test_generated_accessors_read_the_same() -> None:
    root = plan_fbs.PlanSet.GetRootAs(encode(small())[16:], 0)
    problem, plan, shared = root.Problem(), root.Offsets(0), root.SharedObjects(0)
    assert problem.FirstOpAsNumpy().tolist() == [0, 1, 2]
    assert problem.LastOpAsNumpy().tolist() == [1, 2, 2]
    assert problem.SizesAsNumpy().tolist() == [100, 60, 30]
    assert problem.KindsAsNumpy().tolist() == [plan_fbs.Kind.input, plan_fbs.Kind.tensor, plan_fbs.Kind.scratch]
    assert problem.Names().TextAsNumpy().tobytes() == "abü".encode()
    assert problem.Names().EndsAsNumpy().tolist() == [1, 2, 4]
    assert problem.TensorEndsAsNumpy().tolist() == [2, 2, 3]
    assert (problem.Rank(), problem.Alignment(), root.Naive()) == (1, 16, 192)
    assert (plan.Strategy(), plan.Size(), plan.Optimal()) == (b"greedy_by_size", 172, False)
    assert plan.OffsetsAsNumpy().tolist() == [0, 112, 0]
    assert (shared.Size(), shared.Optimal(), shared.ObjectsAsNumpy().tolist()) == (160, True, [100, 60])
    assert root.OrderAsNumpy().tolist() == [0, 2, 1]


@pytest.fixture(scope="module")
def flatc() -> str:
    path = shutil.which("flatc")
    if path is None:
        pytest.skip("flatc is not installed")
    return path


def test_flatc_reads_it_by_the_schema(flatc: str, tmp_path: Path) -> None:
    (tmp_path / "p.bin").write_bytes(encode(small())[16:])
    command = [flatc, "--json", "--strict-json", "-o", str(tmp_path), str(SCHEMA), "--", str(tmp_path / "p.bin")]
    subprocess.run(command, check=True, capture_output=True)
    table = json.loads((tmp_path / "p.json").read_text())
    assert table["offsets"][0]["offsets"] == [0, 112, 0]
    assert table["shared_objects"][0] == {
        "strategy": "greedy_by_breadth",
        "options": table["shared_objects"][0]["options"],
        "assignment": [0, 1, 0],
        "objects": [100, 60],
        "size": 160,
        "optimal": True,
    }
    assert table["problem"]["kinds"] == ["input", "tensor", "scratch"]
    assert table["digest"] == "ab" * 32


def test_generated_code_is_of_this_schema(flatc: str, tmp_path: Path) -> None:
    version = subprocess.run([flatc, "--version"], check=True, capture_output=True, text=True).stdout
    if "2.0.8" not in version:
        pytest.skip(f"the code was generated by flatc 2.0.8, here is {version.strip()}")
    subprocess.run([flatc, "--python", "--gen-onefile", "-o", str(tmp_path), str(SCHEMA)], check=True)
    assert (tmp_path / "plan_generated.py").read_text() == Path(plan_fbs.__file__).read_text()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "0 bytes are too short"),
        (b"EDGM", "4 bytes are too short"),
        (b"TFL3" + encode(small())[4:], "begins with b'TFL3'"),
        (
            b"EDGM\x05\0\0\0" + encode(small())[8:],
            r"version 5, this edgemem reads versions 1 to 4; update edgemem-planner",
        ),
        (b"EDGM\x04\0\0\0" + encode(small())[8:], r"identifier is b'EMPL' instead of b'EMPF'"),
        (b"EDGM\x03\0\0\0" + encode(small())[8:], r"has version 3, but holds what version 1 is for"),
        (b"EDGM\0\0\0\0" + encode(small())[8:], r"version 0, this edgemem reads versions 1 to 4; plan again"),
        (encode(small()) + b"\0", r"should have \d+ bytes and has"),
        (encode(small())[:-1], r"should have \d+ bytes and has"),
        (encode(small())[:-1] + b"\1", "checksum differs"),
        (sealed(b""), "outside of the 0 bytes"),
        (sealed(b"\x08\0\0\0EMPM"), "identifier is b'EMPM' instead of b'EMPL'"),
        (sealed(b"\0\0\0\0EMPL"), "points into itself"),
        (sealed(b"\xff\xff\xff\xffEMPL"), "not aligned|outside"),
    ],
)
def test_no_plan_file(data: bytes, message: str) -> None:
    with pytest.raises(PlanFileError, match=message):
        decode(data)


Change = dict[str, Any]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"naive": -1}, "naive is -1"),
        ({"naive": 2**63}, "beyond int64"),
        ({"bounds": LowerBounds(-5, 0)}, "offsets_bound is -5"),
        ({"digest": "\ud800"}, "surrogates not allowed"),
        ({"order": (0, 2)}, "no permutation of 2"),
        ({"order": (0, 0)}, "no permutation of 2"),
        ({"order": (-1, 0)}, "no permutation of 2"),
        ({"steps": ("only",)}, "1 steps, but records until step 2"),
        ({"dims": {"N": -1}}, "no dimension"),
        ({"input_shapes": {"x": (1, -1)}}, "input_dims has -1"),
        ({"input_shapes": {"x": (2**63,)}}, "within int64"),
        ({"target": Target("x", aliasing="mine")}, "aliasing is one of"),
        ({"target": Target("x", alignment=3)}, "alignment 3 is not a power of two"),
        ({"target": Target("x", regions=(Region("r", -1),))}, "region"),
        ({"target": Target("x", kernels="mine")}, "kernels is one of none, tflm-reference"),
        ({"target": Target("x", slots=1)}, "slots is bool"),  # type: ignore[arg-type]
    ],
)
def test_what_would_not_be_read_is_not_written(change: Change, message: str) -> None:
    with pytest.raises(PlanFileError, match=f"^these plans cannot be written: (?!.*plan again).*{message}"):
        encode(replace(small(), **change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"offsets": int64s([0, 1])}, "offsets has 2 entries instead of 3"),
        ({"offsets": int64s([0, -16, 1])}, "offsets has -16"),
        ({"offsets": np.array([0.0, 1.0, 2.0])}, "column of float64"),
        ({"size": -1}, "size is -1"),
        ({"options": {"a": None}}, "'a' is None; there are int, bool, str and float"),
        ({"options": {"a": float("inf")}}, "'a' in options is inf"),
        ({"search": SearchReport(-1, "work", 0)}, "bound is -1"),
        ({"search": SearchReport(0, "work", 0, -1)}, "seed is -1"),
        ({"options": {"a": 2**63}}, "within int64"),
    ],
)
def test_an_offset_plan_that_contradicts_itself(change: Change, message: str) -> None:
    p = small()
    with pytest.raises(PlanFileError, match=message):
        encode(replace(p, offsets=(replace(p.offsets[0], **change),)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"assignment": int64s([0, 1])}, "assignment has 2 entries instead of 3"),
        ({"assignment": int64s([0, 2, 1])}, "none of the 2"),
        ({"assignment": int64s([0, -1, 1])}, "none of the 2"),
        ({"objects": (100, -60)}, "objects has -60"),
        ({"objects": ((10, 10), (6, 10))}, "not bytes"),
    ],
)
def test_a_shared_objects_plan_that_contradicts_itself(change: Change, message: str) -> None:
    p = small()
    with pytest.raises(PlanFileError, match=message):
        encode(replace(p, shared_objects=(replace(p.shared_objects[0], **change),)))


def test_two_gib_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flatbuffers.Builder, "MAX_BUFFER_SIZE", len(encode(small())) - 100)  # instead of 2 GiB
    with pytest.raises(PlanFileError, match="2 gigabytes"):
        encode(small())


def test_save_and_load(tmp_path: Path) -> None:
    path = tmp_path / "net.edgemem"
    save(small(), path)
    assert plain(load(path)) == plain(small())
    assert path.read_bytes() == encode(small())


def test_a_failing_save_keeps_the_file(tmp_path: Path) -> None:
    path = tmp_path / "net.edgemem"
    save(small(), path)
    before = path.read_bytes()
    with pytest.raises(PlanFileError):
        save(replace(small(), naive=-1), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_save_into_no_folder(tmp_path: Path) -> None:
    with pytest.raises(PlanFileError, match=r"cannot write plan file .*nowhere"):
        save(small(), tmp_path / "nowhere" / "net.edgemem")


def test_load_names_the_path(tmp_path: Path) -> None:
    with pytest.raises(PlanFileError, match=r"missing\.edgemem"):
        load(tmp_path / "missing.edgemem")
    with pytest.raises(PlanFileError, match=re.escape(str(tmp_path))):
        load(tmp_path)
    damaged = tmp_path / "damaged.edgemem"
    damaged.write_bytes(encode(small())[:-4])
    with pytest.raises(PlanFileError, match=r"damaged\.edgemem: the plan file should have"):
        load(damaged)
    with pytest.raises(PlanFileError, match="cannot read"):
        load(Path("nul\0byte"))


def test_a_file_without_a_rule_for_narrow_elements_has_that_of_its_target() -> None:
    """Files are older than the rule, and are not written anew because of it."""
    for name, target in BUILT_IN.items():
        assert "sub_byte" not in target_maps(target).values
        assert target_from(target_maps(target)) == target
        other = replace(target, sub_byte="packed" if name == "tflm" else "unpacked")
        assert target_maps(other).values["sub_byte"] == other.sub_byte
        assert target_from(target_maps(other)) == other


def test_a_file_without_kernels_and_slots_has_none() -> None:
    """Files are older than both, and are not written anew because of them."""
    for target in BUILT_IN.values():
        assert target_maps(target).values.keys().isdisjoint({"kernels", "slots"})
        if not target.is_dense:
            continue
        other = replace(target, kernels="cmsis-nn-dsp", slots=True)
        assert target_maps(other).values["kernels"] == "cmsis-nn-dsp"
        assert target_from(target_maps(other)) == other
    old, new = (encode(replace(small(), target=replace(BUILT_IN["tflm"], slots=s))) for s in (False, True))
    assert b"slots" not in old
    assert b"slots" in new
    assert decode(new).target == replace(BUILT_IN["tflm"], slots=True)


def test_roles_are_not_stored() -> None:
    """They are for searches, and follow from the graph."""
    p = small()
    roles = Problem(p.problem.records, alignment=p.problem.alignment, roles=[0] * len(p.problem))
    assert roles.roles is not None
    assert encode(replace(p, problem=roles)) == encode(replace(p, problem=replace_roles(roles)))
    assert decode(encode(replace(p, problem=roles))).problem.roles is None


def replace_roles(problem: Problem) -> Problem:
    return Problem(problem.records, alignment=problem.alignment)


def test_zero_is_a_dimension_and_an_offset() -> None:
    target = Target("t", pins={"a": 0}, states={"past": "present"})
    p = replace(small(), dims={"N": 0}, target=target)
    assert (decode(encode(p)).dims, decode(encode(p)).target) == ({"N": 0}, target)
    for change in ({"pins": {"a": -1}}, {"pins": {"a": "0"}}, {"states": {"past": 5}}):
        with pytest.raises(PlanFileError, match=r"a state is not|a tensor is pinned at"):
            target_from(replace(target_maps(target), **change))


def test_the_package_has_what_it_names() -> None:
    assert all(hasattr(planfile, name) for name in planfile.__all__)
    assert not hasattr(planfile, "nothing")


def test_traffic_needs_the_version_that_says_it() -> None:
    records = [replace(record, traffic=3) for record in small().problem.records]
    p = replace(small(), problem=Problem(records, alignment=small().problem.alignment))
    assert plain(decode(encode(p))) == plain(p)
    assert int.from_bytes(encode(p)[4:8], "little") == 4
