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
from typing import TYPE_CHECKING, Any, get_args

import flatbuffers
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemem import planfile
from edgemem.errors import PlanFileError
from edgemem.planfile import decode, encode, load, plan_fbs, save
from edgemem.planfile.schema import SLOTS
from edgemem.plans import LowerBounds, OffsetPlan, PlanSet, SearchReport, SharedObjectsPlan
from edgemem.records.problem import Kind, Problem, UsageRecord
from edgemem.targets import BUILT_IN, Region, Target

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn

    from edgemem.records.problem import Size

INT64_MAX = 2**63 - 1
SCHEMA = Path(planfile.__file__).parent / "plan.fbs"

texts = st.text(st.characters(codec="utf-8"), max_size=8)
natural = st.integers(0, INT64_MAX)
options = st.dictionaries(
    texts,
    st.booleans()
    | st.integers(-INT64_MAX - 1, INT64_MAX)
    | texts
    | st.floats(allow_nan=False, allow_infinity=False).filter(lambda x: str(x) != "-0.0"),
    max_size=4,
)
reports = st.none() | st.builds(SearchReport, natural, texts, natural, st.none() | natural)


def int64s(values: list[int]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(values, np.int64)


@st.composite
def problems(draw: DrawFn) -> Problem:
    rank = draw(st.integers(1, 3))
    size = st.integers(0, 10**5)
    sizes: st.SearchStrategy[Any] = size if rank == 1 else st.tuples(*[size] * rank)
    records: list[UsageRecord] = []
    for _ in range(draw(st.integers(0, 6))):
        first, length = draw(st.tuples(st.integers(0, 2**62), st.integers(0, 20)))
        kind = draw(st.sampled_from(get_args(Kind)))
        tensors = tuple(draw(st.lists(texts, max_size=3)))
        records.append(UsageRecord(draw(texts), first, first + length, draw(sizes), kind, tensors))
    pinned = draw(st.booleans())
    if records and pinned:
        records[-1] = replace(records[-1], offset=2**12 * draw(st.integers(2, 2**20)))
    return Problem(records, alignment=2 ** draw(st.integers(0, 12)), reserved=draw(ranges(2**12)))


def ranges(most: int) -> st.SearchStrategy[list[tuple[int, int]]]:
    return st.lists(st.tuples(st.integers(0, most), st.integers(0, most)).map(lambda r: (min(r), max(r))), max_size=3)


@st.composite
def targets(draw: DrawFn) -> Target:
    target = draw(st.sampled_from(list(BUILT_IN.values())))
    if draw(st.booleans()):
        target = replace(target, name=draw(texts), alignment=2 ** draw(st.integers(0, 12)))
        reserved = tuple(draw(ranges(2**63 - 1)))
        target = replace(target, region=Region(draw(texts), draw(st.none() | natural), reserved))
    return target


@st.composite
def plansets(draw: DrawFn) -> PlanSet:
    problem = draw(problems())
    count, rank = len(problem), 1 if problem.extents is None else problem.extents.shape[1]
    offsets, shared = [], []
    for _ in range(draw(st.integers(0, 3))):
        column = int64s(draw(st.lists(natural, min_size=count, max_size=count)))
        offsets.append(
            OffsetPlan(draw(texts), draw(options), column, draw(natural), draw(st.booleans()), draw(reports))
        )
    for _ in range(draw(st.integers(0, 3))):
        extents: st.SearchStrategy[Any] = st.tuples(*[natural] * rank) if rank > 1 else natural
        objects: tuple[Size, ...] = tuple(draw(st.lists(extents, min_size=1, max_size=4)))
        column = int64s(draw(st.lists(st.integers(0, len(objects) - 1), min_size=count, max_size=count)))
        shared.append(
            SharedObjectsPlan(
                draw(texts), draw(options), column, objects, draw(natural), draw(st.booleans()), draw(reports)
            )
        )
    steps = draw(st.lists(texts, max_size=5))
    return PlanSet(
        problem,
        draw(natural),
        LowerBounds(draw(natural), draw(natural)),
        tuple(offsets),
        tuple(shared),
        target=draw(st.none() | targets()),
        digest=draw(texts),
        steps=tuple(steps) if problem.last_op.max(initial=-1) < len(steps) else (),
        unplanned=tuple(draw(st.lists(st.tuples(texts, texts), max_size=3))),
        order=draw(st.none() | st.integers(0, 6).flatmap(lambda n: st.permutations(range(n))).map(tuple)),
        dims=draw(st.dictionaries(texts, natural, max_size=3)),
        input_shapes=draw(st.dictionaries(texts, st.lists(natural, max_size=4).map(tuple), max_size=3)),
        versions=draw(st.dictionaries(texts, texts, max_size=3)),
    )


def plain(p: PlanSet) -> dict[str, object]:
    """Everything in a plan set as values that compare, types of option values included."""
    q = p.problem
    return {
        "records": [(r.name, r.first_op, r.last_op, r.size, r.kind, r.tensors) for r in q.records],
        "names": q.names,
        "columns": [c.tolist() for c in (q.first_op, q.last_op, q.size)],
        "extents": None if q.extents is None else q.extents.tolist(),
        "alignment": q.alignment,
        "offsets": [(x.strategy, typed(x.options), x.offsets.tolist(), x.size, x.optimal, x.search) for x in p.offsets],
        "shared": [
            (x.strategy, typed(x.options), x.assignment.tolist(), x.objects, x.size, x.optimal, x.search)
            for x in p.shared_objects
        ],
        "numbers": (p.naive, p.bounds),
        "graph": (p.target, p.digest, p.steps, p.unplanned, p.order),
        "maps": (p.dims, p.input_shapes, p.versions),
    }


def typed(values: Any) -> dict[str, tuple[type, object]]:
    return {key: (type(value), value) for key, value in values.items()}


def small() -> PlanSet:
    records = [
        UsageRecord("a", 0, 1, 100, "input", ("a", "a/view")),
        UsageRecord("b", 1, 2, 60),
        UsageRecord("ü", 2, 2, 30, "scratch", ("ü",)),
    ]
    return PlanSet(
        Problem(records, alignment=16),
        naive=192,
        bounds=LowerBounds(160, 160),
        offsets=(
            OffsetPlan("greedy_by_size", {"seed": 3, "fast": True, "mode": "x"}, int64s([0, 112, 0]), 172, False),
        ),
        shared_objects=(SharedObjectsPlan("greedy_by_breadth", {}, int64s([0, 1, 0]), (100, 60), 160, True),),
        target=BUILT_IN["tflm"],
        digest="ab" * 32,
        steps=("conv", "relu", "softmax"),
        unplanned=(("s", "a string"),),
        order=(0, 2, 1),
        dims={"N": 1},
        input_shapes={"a": (1, 5, 5)},
        versions={"edgemem": "0.1.0"},
    )


def sealed(payload: bytes) -> bytes:
    """A payload behind a right header."""
    return struct.pack("<4sIII", b"EDGM", 1, zlib.crc32(payload), len(payload)) + payload


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
    assert schema == SLOTS
    kinds = re.search(r"enum Kind : ubyte \{ (.*) \}", SCHEMA.read_text())
    assert kinds is not None
    assert tuple(kinds[1].split(", "))[: len(get_args(Kind))] == get_args(Kind)


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
    assert (tmp_path / "plan_generated.py").read_text() == SCHEMA.with_name("plan_fbs.py").read_text()


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
        ({"target": Target("x", region=Region("r", -1))}, "region"),
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
