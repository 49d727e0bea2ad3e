"""`edgemem trace`: the figures of a snapshot are those of the blocks in it, and of its plan."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner, Result

from edgemem import planfile
from edgemem.cli.main import main
from edgemem.trace import Section, Trace
from edgemem.trace.file import save_trace
from tests.snapshots import FRAMES, Device, snapshot, write

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20


def edgemem(*args: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in args])


def _figures(*args: object) -> dict[str, Any]:
    done = edgemem("trace", *args, "--json")
    assert done.exit_code == 0, done.output
    figures: dict[str, Any] = json.loads(done.output)
    return figures


@pytest.fixture
def fragmented(tmp_path: Path) -> Path:
    """A segment of 64 MiB; 4 x 5 MiB by turns with 4 x 3 MiB, of which the former are freed for one of 10 MiB."""
    device = Device()
    address = device.segment(64 * MIB)["address"]
    for k in range(4):
        device.alloc(address + k * 8 * MIB, 5 * MIB, frames=FRAMES)
        device.alloc(address + (k * 8 + 5) * MIB, 3 * MIB)
    for k in range(4):
        device.free(address + k * 8 * MIB, 5 * MIB)
    device.alloc(address + 40 * MIB, 10 * MIB)
    device.note("oom", size=30 * MIB, device_free=2 * MIB)
    return write(tmp_path / "fragmented.pickle", snapshot(device))


def _loop(tmp_path: Path, *, last: int = 5 * MIB) -> Path:
    """Three iterations, each with 5 MiB in a section and 3 MiB; 1 MiB is made before and kept."""
    size, request, iteration, section = [MIB], [0], [-1], [-1]
    for k in range(3):
        size += [5 * MIB if k < 2 else last, 3 * MIB, 0, 0]
        request += [2 * k + 1, 2 * k + 2, 2 * k + 1, 2 * k + 2]
        iteration += [k] * 4
        section += [0, -1, -1, -1]
    trace = Trace.from_columns(
        size, request, iteration=iteration, section=section, sections=(Section("layers.0 forward", 0),)
    )
    path = tmp_path / "loop.npz"
    save_trace(trace, path)
    return path


def test_the_figures_of_a_snapshot(fragmented: Path) -> None:
    figures = _figures(fragmented)
    assert figures["device"] == 0
    assert figures["requests"] == 9
    assert figures["requested_peak"] == 32 * MIB
    assert figures["reserved_peak"] == 64 * MIB
    assert figures["arena"] == figures["lower_bound"] == 32 * MIB
    assert figures["optimal"]
    assert figures["planned"] == "trace"
    assert figures["not_cyclic"] == "it has no iterations"
    assert figures["outside"] == 0
    assert figures["failures"] == [{"size": 30 * MIB, "free": 2 * MIB}]
    assert figures["largest"] == [
        {"size": 5 * MIB, "count": 4, "place": "train.py:40 forward"},
        {"size": 3 * MIB, "count": 4, "place": ""},
    ]
    # 5, 3, 5, 3 and 3 MiB share a segment of 20 MiB; in the second one, two of 5 MiB make room for 10.
    assert figures["simulated"]["reserved_peak"] == 40 * MIB
    assert figures["simulated"]["out_of_memory"] is None


def test_what_is_stranded_when_a_request_fails_is_told(fragmented: Path) -> None:
    """A request of 10 MiB and four of 3 MiB were alive in 64 MiB when the one of 30 MiB failed."""
    assert _figures(fragmented)["at_failures"] == [{"used": 22 * MIB, "stranded": 42 * MIB}]
    lines = edgemem("trace", fragmented).output.splitlines()
    assert any(line.startswith("  lost at the failure") and f"{42 * MIB:,}" in line for line in lines)
    assert "22.00 MiB were in use then, and 42.00 MiB were reserved and not in use" in lines


def test_the_first_lines_are_the_answer_and_what_it_saves(fragmented: Path) -> None:
    done = edgemem("trace", fragmented)
    first, second, *rest = done.output.splitlines()
    assert first.startswith("arena 32.00 MiB = lower bound (optimal), ")
    assert second == "PyTorch reserved 64.00 MiB: -50.0 % with the plan"
    assert any(line.startswith("reserved by PyTorch") and "50.0% used" in line for line in rest)
    assert any(line.startswith("  lost at the peak") and f"{32 * MIB:,}" in line for line in rest)
    assert "a request of 30.00 MiB failed with 2.00 MiB free on the device" in rest
    assert any("20,971,520" in line and "train.py:40 forward" in line for line in rest)
    assert max(len(line.rstrip()) for line in done.output.splitlines()) <= 80


def test_one_iteration_is_planned_where_they_agree(tmp_path: Path) -> None:
    figures = _figures(_loop(tmp_path))
    assert figures["planned"] == "iteration"
    assert (figures["arena"], figures["lower_bound"], figures["outside"]) == (8 * MIB, 8 * MIB, MIB)
    assert figures["reserved_peak"] is None
    assert figures["largest"][0] == {"size": 5 * MIB, "count": 1, "place": "layers.0 forward"}
    done = edgemem("trace", _loop(tmp_path))
    assert "PyTorch's caching allocator would reserve 22.00 MiB: -59.1 % with the plan" in done.output
    assert "outside of the plan" in done.output
    output = tmp_path / "loop.edgemem"
    assert edgemem("trace", _loop(tmp_path), "-o", output).exit_code == 0
    (planset,) = planfile.load_all(output)
    assert planset.cycle is not None
    assert (planset.cycle.length, planset.cycle.device, planset.problem.alignment) == (4, "cpu", 64)
    assert "of the cycle: arena 8,388,608" in " ".join(edgemem("verify", output).output.split())


def test_iterations_that_differ_are_planned_as_a_whole_unless_they_are_dynamic(tmp_path: Path) -> None:
    path = _loop(tmp_path, last=6 * MIB)
    # The first two agree.
    assert _figures(path)["planned"] == "iteration"
    device = Device()
    address = device.segment(64 * MIB)["address"]
    marks = []
    for k in range(2):
        marks.append({"name": f"ProfilerStep#{k}", "stage": "START", "time_us": device.time_us + 1})
        device.alloc(address, (5 + k) * MIB, user_metadata="mlp.experts.3")
        device.alloc(address + 16 * MIB, 2 * MIB)
        device.free(address, (5 + k) * MIB)
        device.free(address + 16 * MIB, 2 * MIB)
    other = write(tmp_path / "two.pickle", snapshot(device, external_annotations=marks))
    whole = _figures(other)
    assert whole["planned"] == "trace"
    assert "asks for 5,242,880 bytes in 'mlp.experts.3'" in whole["not_cyclic"]
    dynamic = _figures(other, "--dynamic", "*.experts.*")
    assert (dynamic["planned"], dynamic["arena"], dynamic["outside"]) == ("iteration", 2 * MIB, 6 * MIB)


def test_the_plan_is_written_and_shown(fragmented: Path, tmp_path: Path) -> None:
    output = tmp_path / "plan.edgemem"
    done = edgemem("trace", fragmented, "-o", output, "-s", "offsets/greedy_by_size")
    assert done.exit_code == 0
    assert done.output.rstrip().endswith(f"wrote {output}")
    planset = planfile.load(output)
    assert [p.strategy for p in planset.offsets] == ["greedy_by_size"]
    assert planset.problem.alignment == 512
    assert planset.cycle is None
    assert edgemem("show", output).output.startswith("arena 32.00 MiB")


def test_the_picture_is_drawn(fragmented: Path, tmp_path: Path) -> None:
    svg = tmp_path / "memory.svg"
    done = edgemem("trace", fragmented, "--svg", svg)
    assert done.output.rstrip().endswith(f"wrote {svg}")
    root = ET.parse(svg).getroot()
    texts = " ".join(element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text"))
    assert "fragmented.pickle" in texts
    for shown in ("reserved 40.00 MiB", "measured 64.00 MiB", "planned 32.00 MiB"):
        assert shown in texts


def test_alignment_and_allocator_are_settings(fragmented: Path) -> None:
    assert _figures(fragmented, "--alignment", 4096, "--allocator", "expandable_segments:True")["arena"] == 32 * MIB
    grown = _figures(fragmented, "--allocator", "expandable_segments:True")["simulated"]
    assert grown["reserved_peak"] != _figures(fragmented)["simulated"]["reserved_peak"]
    assert edgemem("trace", fragmented, "--allocator", "nonsense:1").exit_code == 1


def test_settings_in_the_snapshot_that_cannot_be_simulated_are_said(tmp_path: Path) -> None:
    device = Device()
    device.alloc(device.segment(2 * MIB)["address"], 1000)
    path = write(
        tmp_path / "s.pkl",
        snapshot(device, allocator_settings={"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync"}),
    )
    figures = _figures(path)
    assert figures["simulated"] is None
    assert "backend:cudaMallocAsync" in figures["not_simulated"]
    assert "not simulated: " in edgemem("trace", path).output
    assert _figures(path, "--allocator", "")["simulated"]["reserved_peak"] == 2 * MIB


def test_a_device_of_several_is_chosen(tmp_path: Path) -> None:
    one, other = Device(0), Device(3)
    one.alloc(one.segment(2 * MIB)["address"], 1000)
    other.alloc(other.segment(2 * MIB)["address"], 3000)
    path = write(tmp_path / "s.pickle", snapshot(one, other))
    assert _figures(path, "--device", 3)["requested_peak"] == 3000
    for args, says in (((), "is of the devices [0, 3]; choose one"), (("--device", 1), "has no device 1; there are")):
        done = edgemem("trace", path, *args)
        assert done.exit_code == 1
        assert says in done.output


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["none.pickle"], 1, "no file none.pickle"),
        (["-o", "plan.onnx"], 2, "give -o FILE.edgemem"),
        (["--svg", "a.png"], 2, "give --svg FILE.svg"),
        (["--device", -1], 2, "Invalid value for '--device'"),
    ],
)
def test_wrong_use(fragmented: Path, args: list[object], code: int, says: str) -> None:
    done = edgemem("trace", *([fragmented, *args] if str(args[0]).startswith("-") else args))
    assert done.exit_code == code
    assert says in done.output


def test_files_without_requests(tmp_path: Path) -> None:
    empty = tmp_path / "empty.npz"
    save_trace(Trace.from_stream([]), empty)
    for path in (empty, write(tmp_path / "empty.pickle", {"segments": [], "device_traces": [[]]})):
        done = edgemem("trace", path)
        assert done.exit_code == 1
        assert "record while the program runs" in done.output or "take a snapshot while" in done.output


def test_names_in_a_snapshot_cannot_command_the_terminal(tmp_path: Path) -> None:
    device = Device()
    frame = {"filename": "a.py", "line": 1, "name": "\x1b[2Jclear"}
    device.alloc(device.segment(2 * MIB)["address"], 1000, frames=[frame])
    done = edgemem("trace", write(tmp_path / "s.pickle", snapshot(device)))
    assert "\x1b" not in done.output
    assert "a.py:1" in done.output
