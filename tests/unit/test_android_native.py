"""The reader of plan files for devices (kernels/android) says what `edgemem.planfile` decodes, and refuses the rest."""

from __future__ import annotations

import base64
import struct
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import edgemem
from edgemem.errors import PlanFileError
from edgemem.planfile import decode_all, encode, encode_all
from edgemem.planfile.protobuf import encode_field
from edgemem.planning.recording_plan import plan_recording
from edgemem.plans import PlanSet, Settings
from edgemem.records.problem import Problem
from edgemem.runtime.onnxruntime.file import with_plans
from edgemem.targets import BUILT_IN
from edgemem.trace import Trace
from edgemem_converters.tflite.model import TfliteConverter
from models.build import build
from tests import tflite_models
from tests.forge import Forge, sealed
from tests.native_library import ONNX, PLANFILE, TFLITE, PlanFile, c, expected, last_error, stacked
from tests.plansets import cycle_plansets, files, int64s, plansets, recorded, recorded_plansets, small
from tests.plansets import streams as any_streams
from tests.tflite_models import M, O, S, T
from tests.unit.test_planfile_old import VERSIONS, written

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def tflite() -> bytes:
    """Three operators in a row on 64 floats."""
    tensors = [T(f"t{k}", shape=(1, 64)) for k in range(4)]
    return bytes(tflite_models.build(M([S(tensors, [O("RELU", (k,), (k + 1,)) for k in range(3)], (0,), (3,))])))


def planned(model: bytes, path: Path) -> PlanSet:
    path.write_bytes(model)
    return edgemem.plan(path)


def read(data: bytes) -> list[Any]:
    return list(PlanFile(data))


def resealed(data: bytes) -> bytes:
    payload = data[16:]
    return data[:8] + struct.pack("<II", zlib.crc32(payload), len(payload)) + payload


def laid_out(p: PlanSet) -> PlanSet:
    """The plan set with places that are right, if its records have no pins."""
    offsets = stacked(p)
    size = int((offsets + p.problem.size).max(initial=0))
    return replace(p, offsets=(replace(p.offsets[0], offsets=offsets, size=size, regions=None, region_sizes=()),))


def recording_of(stream: Sequence[int], alignment: int = 64) -> PlanSet:
    recording = recorded().recording
    assert recording is not None
    trace = Trace.from_stream(stream)
    return plan_recording(replace(recording, trace=trace), Settings(alignment=alignment))


@pytest.mark.full
@settings(max_examples=100, deadline=None)
@given(plansets())
def test_a_plan_of_a_graph_is_read_as_decode_reads_it(p: PlanSet) -> None:
    assert read(encode(p)) == [expected(p)]


@pytest.mark.full
@settings(max_examples=60, deadline=None)
@given(files())
def test_a_file_of_many_plans_is_read_as_decode_reads_it(sets: list[PlanSet]) -> None:
    data = encode_all(sets)
    assert read(data) == [expected(p) for p in decode_all(data)]


@pytest.mark.full
@settings(max_examples=100, deadline=None)
@given(recorded_plansets().map(laid_out))
def test_a_recording_with_right_places_is_usable(p: PlanSet) -> None:
    file = PlanFile(encode(p))
    assert file.facts(0) == expected(p)
    assert file.facts(0).is_usable == (p.target is None or p.target.is_dense)
    assert file.has_plan(0) == (file.facts(0).is_usable and p.problem.alignment <= 64)


@pytest.mark.full
@settings(max_examples=100, deadline=None)
@given(cycle_plansets())
def test_a_cycle_is_shown_but_not_usable(p: PlanSet) -> None:
    file = PlanFile(encode(p))
    assert file.facts(0) == expected(p)
    assert not file.facts(0).is_usable
    assert not file.has_plan(0)


@pytest.mark.full
@settings(max_examples=100, deadline=None)
@given(any_streams().filter(any))
def test_a_plan_of_edgemem_is_usable_and_makes_a_plan(stream: list[int]) -> None:
    planset = recording_of([min(code, 2**40) for code in stream])
    file = PlanFile(encode(planset))
    assert file.facts(0) == expected(planset)
    assert file.facts(0).is_usable
    assert file.has_plan(0)


@pytest.mark.parametrize("name", VERSIONS)
def test_files_of_every_older_version_are_read(name: str) -> None:
    data, _ = written(name)
    assert data[4] == VERSIONS[name]
    assert read(data) == [expected(p) for p in decode_all(data)]


@pytest.mark.parametrize("name", ["resnet18", "unet", "mobilenet_v2"])
def test_the_plan_in_an_onnx_model_is_found(name: str, tmp_path: Path) -> None:
    model = bytes(build(name, size="small").SerializeToString())
    graph = planned(model, tmp_path / "model.onnx")
    made = with_plans(model, [graph, recorded()])
    (first, second) = PlanFile(made, ONNX)
    assert (first, second) == (expected(graph), expected(recorded()))
    assert first.is_usable
    assert list(PlanFile(with_plans(made, [recorded()]), ONNX)) == [expected(recorded())]
    with pytest.raises(ValueError, match="carries no plan; make one with: edgemem plan"):
        PlanFile(model, ONNX)


def test_of_several_plans_in_an_onnx_model_the_last_counts() -> None:
    made = with_plans(b"", [small()]) + with_plans(b"", [recorded()])
    assert list(PlanFile(made, ONNX)) == [expected(recorded())]


@pytest.mark.parametrize("cut", [1, 2, 20])
def test_an_onnx_model_that_is_cut_short_is_refused(cut: int) -> None:
    with pytest.raises(ValueError, match=r"it is damaged|carries no plan"):
        PlanFile(with_plans(b"", [small()])[:-cut], ONNX)


def test_a_plan_that_is_no_base64_is_refused() -> None:
    text = base64.b64encode(encode(small()))
    for bad in (text[:-1], text[:-2] + b"==="[:2] + b"=", b"*" + text[1:], b"=" + text[1:], text + b"===="):
        entry = encode_field(1, b"edgemem.plan") + encode_field(2, bad)
        with pytest.raises(ValueError, match=r"not base64|should have"):
            PlanFile(encode_field(14, entry), ONNX)


def test_the_plan_in_a_tflite_model_is_found(tmp_path: Path) -> None:
    model = TfliteConverter.from_bytes(tflite())
    planset = planned(tflite(), tmp_path / "model.tflite")
    made = model.with_plan(encode(planset), planset).content()
    assert list(PlanFile(made, TFLITE)) == [expected(planset)]
    with pytest.raises(ValueError, match="carries no plan; make one with: edgemem plan"):
        PlanFile(tflite(), TFLITE)
    with pytest.raises(ValueError, match="no TFLite model"):
        PlanFile(encode(planset), TFLITE)
    for cut in range(0, len(made), 97):  # each prefix is refused, or is whole as far as the plan
        try:
            assert list(PlanFile(made[:cut], TFLITE)) == [expected(planset)]
        except ValueError as e:
            assert "plan" in str(e) or "no TFLite model" in str(e) or "outside" in str(e)  # noqa: PT017


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "0 bytes are too short"),
        (b"EDGM", "4 bytes are too short"),
        (b"TFL3" + encode(small())[4:], "does not begin with EDGM"),
        (b"EDGM\x05\0\0\0" + encode(small())[8:], "version 5, this library reads versions 1 to 4; update it"),
        (b"EDGM\0\0\0\0" + encode(small())[8:], "version 0, this library reads versions 1 to 4; plan again"),
        (b"EDGM\x04\0\0\0" + encode(small())[8:], "identifier is not EMPF"),
        (encode(small()) + b"\0", r"should have \d+ bytes and has"),
        (encode(small())[:-1], r"should have \d+ bytes and has"),
        (encode(small())[:-1] + b"\1", "checksum differs"),
        (sealed(b""), "outside of the 0 bytes"),
        (sealed(b"\0\0\0\0EMPL"), "points into itself"),
        (sealed(b"\xff\xff\xff\xffEMPL"), "not aligned|outside"),
    ],
)
def test_no_plan_file(data: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        PlanFile(data)


def test_a_relation_a_region_or_another_order_makes_a_plan_unusable() -> None:
    plain = replace(small(), order=None)
    usable = PlanFile(encode(plain)).facts(0)
    assert usable.is_usable
    assert PlanFile(encode(replace(plain, order=(0, 1, 2)))).facts(0).is_usable
    far = replace(plain, offsets=(replace(plain.offsets[0], size=171),))
    on_top = replace(plain, offsets=(replace(plain.offsets[0], offsets=int64s([0, 96, 0])),))
    apart = replace(plain.offsets[0], regions=int64s([0, 1, 0]), region_sizes=(100, 172))
    changes = {
        "order": small(),
        "without offsets": replace(plain, offsets=()),
        "beyond the arena": far,
        "overlapping": on_top,
        "regions": replace(plain, offsets=(apart,)),
        "reserved": replace(plain, problem=Problem(plain.problem.records, alignment=16, reserved=[(512, 1024)])),
        "of a GPU": replace(plain, target=BUILT_IN["gpu-buffer"]),
        "overlap": replace(plain, problem=Problem(plain.problem.records, alignment=16, overlap=[(0, 1, 0)])),
    }
    for name, planset in changes.items():
        found = PlanFile(encode(planset)).facts(0)
        assert found == expected(planset), name
        assert not found.is_usable, name


def mutated(data: bytes, changes: Sequence[tuple[int, int]]) -> bytes:
    """The file with other bytes in its payload, and a checksum that is right."""
    octets = bytearray(data)
    for at, value in changes:
        octets[16 + at % (len(data) - 16)] = value
    return resealed(bytes(octets))


def outcome(data: bytes) -> tuple[list[Any] | None, list[Any] | str]:
    """What the reader says, None if it refuses the file; and what `decode_all` says, or why it refuses the file."""
    try:
        found = read(data)
    except ValueError:
        found = None
    try:
        return found, [expected(p) for p in decode_all(data)]
    except PlanFileError as e:
        return found, str(e)


@pytest.mark.full
@pytest.mark.parametrize("change", [0x01, 0x80])
def test_one_wrong_byte_is_refused_or_read_as_decode_reads_it(change: int) -> None:
    """Where `decode_all` refuses a file, and the reader does not, the facts are as before or not usable.

    Deviation: the reader sees no attribute of a target but the name, which may be any text. One byte in the ends of
    the attributes makes the name longer, and another attribute what edgemem does not know.
    """
    original = encode_all([replace(small(), order=None), recorded()])
    before = read(original)
    for at in range(0, len(original) - 16, 7):
        found, right = outcome(mutated(original, [(at, original[16 + at] ^ change)]))
        if not isinstance(right, str):
            assert found == right, at
        elif "target: " not in right:
            assert not [facts for facts in found or () if facts.is_usable and facts not in before], (at, right)


@pytest.mark.full
@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([[small()], [recorded()], [small(), recorded()], [recording_of([100, 200, -1, 90, -3, -2])]]),
    st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), min_size=1, max_size=9),
)
def test_what_decode_reads_the_reader_reads_alike(sets: list[PlanSet], changes: list[tuple[int, int]]) -> None:
    found, right = outcome(mutated(encode_all(sets), changes))
    assert isinstance(right, str) or found == right


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.sampled_from([PLANFILE, ONNX, TFLITE]), st.booleans())
def test_any_bytes_are_safe(data: bytes, form: int, behind_a_header: bool) -> None:
    whole = sealed(b"\x08\0\0\0EMPL" + data) if behind_a_header and form == PLANFILE else data
    with pytest.raises(ValueError, match=r"."):
        PlanFile(whole, form)


def test_every_truncation_of_a_payload_is_refused() -> None:
    data = encode_all([small(), recorded()])
    for cut in range(16, len(data) - 1):
        try:
            found = read(resealed(data[:cut]))
        except ValueError:
            continue
        assert found == [expected(p) for p in decode_all(resealed(data[:cut]))]


def test_a_file_that_uses_bytes_again_and_again_is_refused_in_time() -> None:
    """4,000 plan sets that are one table of 2,000 records would be 8 million records."""
    forge = Forge()
    planset = forge.table("PlanSet", Problem=forge.records(2000))
    sets = forge.offsets([planset] * 4000)
    forge.builder.Finish(forge.table("PlanFile", PlanSets=sets), file_identifier=b"EMPF")
    with pytest.raises(ValueError, match="used more than once"):
        PlanFile(sealed(bytes(forge.builder.Output()), 4))


def test_wrong_arguments_are_refused() -> None:
    lib = c()
    assert not lib.em_planfile_read(None, 4, PLANFILE)
    assert not lib.em_planfile_read(b"1234", -1, PLANFILE)
    assert not lib.em_planfile_read(encode(small()), 10, 7)
    assert "form" in last_error()
    assert lib.em_planfile_sets(None) == 0
    file = PlanFile(encode(small()))
    for index in (-1, 1, 2**40):
        assert lib.em_planfile_set(file.handle, index, None) == -1
        assert not lib.em_planfile_plan(file.handle, index)
    assert lib.em_planfile_set(file.handle, 0, None) == -1
    assert lib.em_planfile_record(file.handle, 0, 3, None) == -1
    assert not lib.em_planfile_plan(file.handle, 0)
    assert "not of a recording" in last_error()
    assert not lib.em_planfile_plan(PlanFile(encode_all([replace(recorded(), offsets=(far(recorded()),))])).handle, 0)
    assert "outside of the arena" in last_error()


def far(p: PlanSet) -> Any:
    return replace(p.offsets[0], size=10)
