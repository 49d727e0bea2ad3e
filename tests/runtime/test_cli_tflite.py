"""`edgemem run`, `size`, `verify --run`, `export` and `shrink --steps fold,order` on real .tflite files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from edgemem.cli.main import main
from models.fetch import FetchError, fetch
from tests.tflite_models import M, O, S, T, build

pytest.importorskip("ai_edge_litert")


def edgemem(*args: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in args])


def planned(name: str, folder: Path, *flags: str) -> Path:
    try:
        source = fetch(name)
    except FetchError as e:
        pytest.skip(f"{name} cannot be fetched: {e}")
    path = folder / f"{name}.tflite"
    done = edgemem("plan", source, *flags, "-o", path)
    assert done.exit_code == 0, done.output
    return path


@pytest.mark.full
@pytest.mark.parametrize("name", ["mp_hand_recrop", "mww_okay_nabu", "tflm_sine_float"])
@pytest.mark.parametrize("runtime", ["litert", "tflm"])
def test_one_file_runs_as_before(name: str, runtime: str, tmp_path: Path) -> None:
    if runtime == "tflm":
        pytest.importorskip("tflite_micro")
    done = edgemem("run", planned(name, tmp_path, "--target", runtime), "--runtime", runtime, "--compare")
    assert done.exit_code == 0, done.output
    assert done.output.startswith("LiteRT's arena " if runtime == "litert" else "arena ")
    assert "identical to a plain run" in done.output


def test_there_is_no_memory_of_edgemem_s_to_poison(tmp_path: Path) -> None:
    done = edgemem("run", planned("tflm_sine_float", tmp_path), "--poison")
    assert done.exit_code == 2
    assert "--poison is for .onnx models" in done.output


@pytest.mark.exhaustive
def test_the_smallest_arena_of_pose_landmark_lite_falls_by_a_fifth(tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro")
    name = "mp_pose_landmark_lite"
    folded, ordered = tmp_path / "folded.tflite", tmp_path / "ordered.tflite"
    assert edgemem("shrink", fetch(name), "--steps", "fold,order", "-o", ordered).exit_code == 0
    from edgemem_converters.tflite.model import TfliteConverter

    folded.write_bytes(TfliteConverter.from_bytes(fetch(name).read_bytes()).folded().content())
    own, ours = (json.loads(edgemem("size", f, "--json").output) for f in (folded, ordered))
    assert ours["workspace"] == own["workspace"] == 0
    assert ours["arena"] <= 0.8 * own["arena"]
    assert ": right\n" in edgemem("verify", "--run", ordered).output


@pytest.mark.full
def test_size_in_litert_is_what_litert_takes() -> None:
    try:
        path = fetch("mp_hand_recrop")
    except FetchError as e:
        pytest.skip(f"it cannot be fetched: {e}")
    size = json.loads(edgemem("size", path, "--runtime", "litert", "--json").output)
    assert size["arena"] == 3_080_192
    assert edgemem("size", path, "--runtime", "litert").output.startswith("arena ")


def test_offline_metadata_is_exported(tmp_path: Path) -> None:
    path, out = planned("tflm_sine_float", tmp_path), tmp_path / "offline.bin"
    assert edgemem("export", path, "-f", "tflm-metadata", "-o", out).exit_code == 0
    numbers = np.frombuffer(out.read_bytes(), "<i4").tolist()
    assert numbers[:2] == [1, 0]
    assert numbers[2] == len(numbers) - 3
    assert max(numbers[3:]) < 128


@pytest.mark.full
def test_only_tflite_has_it(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    model = tmp_path / "m.onnx"
    subprocess.run(
        [sys.executable, str(root / "models/build.py"), "resnet18", "--size", "small", "-o", str(model)],
        check=True,
        capture_output=True,
    )
    out = tmp_path / "p.onnx"
    assert edgemem("plan", model, "-o", out).exit_code == 0
    assert edgemem("export", out, "-f", "tflm-metadata").exit_code == 4
    assert edgemem("size", out, "--runtime", "tflm").exit_code == 2


@pytest.mark.full
def test_what_litert_takes_names_the_plan(tmp_path: Path) -> None:
    path = planned("mp_hand_recrop", tmp_path, "--target", "litert", "-s", "offsets/naive")
    made = json.loads(edgemem("size", path, "--runtime", "litert", "--json").output)
    assert made["arena"] == 3_080_192
    assert made["planned"] > 9_000_000
    assert "naive, plan of the graph under litert, from the file" in made["plan"]
    other = planned("mp_hand_recrop", tmp_path)
    made = json.loads(edgemem("size", other, "--runtime", "litert", "--json").output)
    assert made["planned"] is None
    assert "--target litert" in made["plan"]


@pytest.mark.exhaustive
def test_measure_compares_two_files_in_eighty_columns(tmp_path: Path) -> None:
    ours = planned("tflm_sine_float", tmp_path, "--target", "litert")
    done = edgemem("measure", ours, "--against", fetch("tflm_sine_float"), "--repeats", 1, "--rounds", 1, "--xnnpack")
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[:2] == [f"1: {ours.name}, compared with 2", f"2: {ours.name}"]
    assert max(map(len, lines)) <= 80
    names = ["1 litert", "1 xnnpack", "1 tflm", "2 litert", "2 xnnpack", "2 tflm"]
    for title in ("arena ", "process ", "cpu ms "):
        start = next(k for k, line in enumerate(lines) if line.startswith(title))
        shown = [" ".join(line.split()[:2]) for line in lines[start + 1 : start + 7]]
        assert [name for name in shown if "tflm" not in name] == [name for name in names if "tflm" not in name]
    told = json.loads(edgemem("measure", ours, "--runtime", "litert", "--rounds", 1, "--json").output)
    assert [row["configuration"] for row in told] == ["litert"]
    assert "from the file" in told[0]["plan"]


@pytest.mark.parametrize("flags", [("--dim", "N=1"), ("--vary", "N=1..2")])
def test_measure_refuses_options_of_onnx_models(flags: tuple[str, ...], tmp_path: Path) -> None:
    done = edgemem("measure", planned("tflm_sine_float", tmp_path), *flags)
    assert done.exit_code == 2
    assert "--input-shape" in done.output


def test_measure_refuses_options_of_tflite_models(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"")
    for flags in (("--xnnpack",), ("--runtime", "tflm"), ("--against", tmp_path / "m.onnx")):
        done = edgemem("measure", tmp_path / "m.onnx", *flags)
        assert done.exit_code == 2
        assert ".tflite models" in done.output


@pytest.mark.full
def test_sizes_that_the_file_leaves_open(tmp_path: Path) -> None:
    """They are asked for; what was given is in the plan, and holds for every command that runs it."""
    signature = (-1, -1, -1, 3)
    tensors = [T(name, shape=(1, 1, 1, 3), signature=signature) for name in "xay"]
    source, planned_file = tmp_path / "open.tflite", tmp_path / "planned.tflite"
    source.write_bytes(build(M([S(tensors, [O("ABS", (0,), (1,)), O("NEG", (1,), (2,))], (0,), (2,))])))
    asked = edgemem("plan", source)
    assert asked.exit_code == 1
    assert "--input-shape x=1,N,N,3" in asked.output
    done = edgemem("plan", source, "-t", "litert", "--input-shape", "x=1,8,8,3", "-o", planned_file)
    assert done.exit_code == 0, done.output
    assert "Planned for x = 1,8,8,3" in done.output
    assert "Planned for x = 1,8,8,3" in edgemem("show", planned_file).output
    ran = edgemem("run", planned_file, "--compare")
    assert ran.exit_code == 0, ran.output
    assert "1x8x8x3" in ran.output
    assert edgemem("verify", "--run", planned_file).exit_code == 0
    # TensorFlow Lite Micro runs the file in its own sizes.
    refused = edgemem("plan", source, "--input-shape", "x=1,8,8,3", "-o", planned_file)
    assert refused.exit_code == 1
    assert "cannot resize inputs" in refused.output
    same = edgemem("plan", source, "--input-shape", "x=1,1,1,3", "-o", planned_file)
    assert same.exit_code == 0, same.output
    assert edgemem("verify", planned_file).exit_code == 0


def test_a_size_that_is_planned_without_being_chosen_is_named(tmp_path: Path) -> None:
    source = tmp_path / "batch.tflite"
    tensors = [T(name, shape=(1, 4), signature=(-1, 4)) for name in "xy"]
    source.write_bytes(build(M([S(tensors, [O("ABS", (0,), (1,))], (0,), (1,))])))
    assert "Planned for x = 1,4" in edgemem("plan", source).output


def test_tensors_of_one_name_are_told_apart(tmp_path: Path) -> None:
    tensors = [T("x", shape=(2, 6)), T("x", shape=(1, 50)), T("a", shape=(2, 6)), T("a", shape=(1, 50))]
    graph = S(tensors, [O("ABS", (0,), (2,)), O("EXP", (1,), (3,))], (0, 1), (2, 3))
    (tmp_path / "m.tflite").write_bytes(build(M([graph])))
    done = CliRunner().invoke(main, ["run", str(tmp_path / "m.tflite"), "--compare", "-o", str(tmp_path / "out")])
    assert done.exit_code == 0, done.output
    assert "outputs identical" in done.output
    shapes = sorted(np.load(file).shape for file in (tmp_path / "out").iterdir())
    assert shapes == [(1, 50), (2, 6)]


def test_what_does_not_run_is_no_promise(tmp_path: Path) -> None:
    """RESHAPE to a shape that is an input: made-up values are none, and nothing is known before a run."""
    tensors = [T("x", shape=(3, 4)), T("s", "int32", (2,)), T("a", shape=(3, 4)), T("y", shape=(3, 4))]
    graph = S(tensors, [O("RESHAPE", (0, 1), (2,)), O("ABS", (2,), (3,))], (0, 1), (3,))
    (tmp_path / "m.tflite").write_bytes(build(M([graph])))
    words = ["plan", "-t", "litert", str(tmp_path / "m.tflite"), "-o", str(tmp_path / "p.tflite")]
    done = CliRunner().invoke(main, words)
    assert "runs as planned" not in done.output


def test_the_time_for_a_size_is_limited(tmp_path: Path) -> None:
    graph = S([T("x"), T("y")], [O("ABS", (0,), (1,))], (0,), (1,))
    (tmp_path / "m.tflite").write_bytes(build(M([graph])))
    done = edgemem("size", tmp_path / "m.tflite", "--runtime", "litert", "--timeout", "0.001")
    assert done.exit_code == 1
    assert "did not end within 0.001 s" in done.output
