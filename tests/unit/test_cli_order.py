"""`edgemem plan --order` and `edgemem.order`: what is found, what is said of it, and what is refused."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

import edgemem as library
from edgemem.cli.main import main
from edgemem.errors import ModelError, UnknownStrategyError
from edgemem.schedule.registry import SOLVERS, Solver
from edgemem.strategy.options import SEED, TIME_LIMIT
from tests.branchy import BRANCHES, BUNDLE_BEST, BUNDLE_GIVEN, JOINS_BEST, bundle, joins
from tests.tflite_models import M, O, S, T, build

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.schedule.problem import OrderProblem
    from edgemem.strategy.options import Option

OPERATORS = 3 * BRANCHES - 1


def edgemem(*args: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in args])


@pytest.fixture(scope="module")
def tflite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "bundle.tflite"
    path.write_bytes(bundle())
    return path


@pytest.fixture(scope="module")
def onnx(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "joins.onnx"
    joins(path)
    return path


def ordering(*args: object) -> dict[str, Any]:
    done = edgemem("plan", *args, "--json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.output)["ordering"]
    return found


def test_the_order_is_told_apart_from_the_plan(tflite: Path) -> None:
    done = edgemem("plan", tflite, "-t", "generic", "--order", "auto")
    assert done.exit_code == 0, done.output
    order, arena, *_ = done.output.splitlines()
    assert ": peak 4.50 KiB" in order
    assert "file's order 24.25 KiB (-81.4 %)" in order
    assert arena.startswith("arena 4.50 KiB = lower bound")
    assert (BUNDLE_BEST, BUNDLE_GIVEN) == (4608, 24832)


@pytest.mark.full
def test_an_order_that_cannot_be_better_is_unchanged(tflite: Path, tmp_path: Path) -> None:
    once, twice = tmp_path / "once.tflite", tmp_path / "twice.tflite"
    assert edgemem("plan", tflite, "--order", "auto", "-o", once).exit_code == 0
    done = edgemem("plan", once, "--order", "auto", "-o", twice)
    assert done.output.startswith("order unchanged: peak ")
    assert twice.read_bytes() == once.read_bytes()


def test_json_has_what_was_found(tflite: Path) -> None:
    found = ordering(tflite, "-t", "generic", "--order", "auto")
    assert (found["peak"], found["given_peak"]) == (BUNDLE_BEST, BUNDLE_GIVEN)
    assert found["lower_bound"] <= BUNDLE_BEST
    assert found["optimal"] == (found["lower_bound"] == BUNDLE_BEST)
    assert found["method"] in SOLVERS
    assert set(found) == {"method", "peak", "given_peak", "lower_bound", "optimal", "stopped", "seconds"}


@pytest.mark.full
def test_given_keeps_the_order_of_the_file(tflite: Path, tmp_path: Path) -> None:
    plain, given = tmp_path / "plain.tflite", tmp_path / "given.tflite"
    assert edgemem("plan", tflite, "-o", plain).exit_code == 0
    done = edgemem("plan", tflite, "--order", "given", "-o", given)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("arena ")
    assert given.read_bytes() == plain.read_bytes()


@pytest.mark.parametrize("method", ["greedy", "beam"])
def test_one_method(tflite: Path, method: str) -> None:
    found = ordering(tflite, "-t", "generic", "--order", method)
    assert found["method"] == method
    assert found["peak"] == BUNDLE_BEST


def test_what_is_refused(tflite: Path, tmp_path: Path) -> None:
    done = edgemem("plan", tflite, "--order", "fastest")
    assert done.exit_code == 2
    assert "no method 'fastest' orders operators; there are auto, given, " in done.output
    records = tmp_path / "records.csv"
    records.write_text("tensor,first_op,last_op,size\na,0,1,8\n")
    done = edgemem("plan", records, "--order", "auto")
    assert done.exit_code == 1
    assert "there is no graph to change" in done.output


class Watched:
    """A solver that notes the options which it is given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.seen: list[dict[str, object]] = []
        options: dict[str, Option] = {"effort": ("default", "fast", "max"), "seed": SEED, "time_limit": TIME_LIMIT}
        solver = Solver("watched", 0, "-", "-", options, None, None, self)
        monkeypatch.setitem(SOLVERS, "watched", solver)

    def __call__(self, problem: OrderProblem, **options: object) -> tuple[int, ...]:
        self.seen.append(options)
        return tuple(range(problem.count))


def test_efforts_seeds_and_limits_hold_for_the_order_too(tflite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(monkeypatch)
    ordering(tflite, "--order", "watched", "--effort", "fast", "--seed", 7, "--time-limit", 100)
    # Half of the time is for the plan.
    assert watched.seen.pop() == {"effort": "fast", "seed": 7, "time_limit": pytest.approx(50, abs=5)}
    # The strategy that was chosen for the plan has none of these options.
    ordering(tflite, "--order", "watched", "--effort", "max", "-s", "offsets/greedy_by_size")
    assert watched.seen.pop() == {"effort": "max"}
    without = edgemem("plan", tflite, "--effort", "max", "-s", "offsets/greedy_by_size")
    assert without.exit_code == 2


def test_an_order_with_a_larger_plan_is_not_taken(tmp_path: Path) -> None:
    """A lower peak that greedy_in_order packs worse: 1,216 bytes of 1,600 alive at once, and 1,664 bytes of arena."""
    sizes = (1, 9, 7, 9, 9, 1, 8)  # units of 64 bytes
    tensors = [T(f"t{k}", "int8", (1, 64 * size)) for k, size in enumerate(sizes)]
    inputs = ((0,), (1,), (1,), (2,), (2,), (3, 5))
    ops = [O("Stir", reads, (k + 1,)) for k, reads in enumerate(inputs)]
    path, plain, out = (tmp_path / f"{name}.tflite" for name in ("model", "plain", "out"))
    path.write_bytes(build(M([S(tensors, ops, (0,), (4, 6))])))
    assert library.order(path, target="generic").peak == 1216
    options = ("-t", "generic", "-s", "offsets/greedy_in_order")
    assert edgemem("plan", path, *options, "-o", plain).exit_code == 0
    done = edgemem("plan", path, *options, "--order", "auto", "-o", out)
    assert done.output.startswith("order unchanged: peak 1.56 KiB, bound 1.19 KiB\n")
    assert out.read_bytes() == plain.read_bytes()
    searched = json.loads(edgemem("plan", path, "-t", "generic", "--order", "auto", "--json").output)
    assert min(p["size"] for p in searched["plans"] if p["family"] == "offsets") == 1216


@pytest.mark.full
def test_an_order_that_fits_a_budget(tflite: Path) -> None:
    assert edgemem("plan", tflite, "--budget", "6KiB").exit_code == 3
    assert edgemem("plan", tflite, "--budget", "6KiB", "--order", "auto").exit_code == 0


@pytest.mark.full
def test_onnx_is_baked_for_its_order(onnx: Path, tmp_path: Path) -> None:
    runtime = pytest.importorskip("edgemem.runtime.onnxruntime.baked_file")
    pytest.importorskip("onnxruntime")
    out = tmp_path / "out.onnx"
    done = edgemem("plan", onnx, "--order", "auto", "-o", out)
    assert done.exit_code == 0, done.output
    order, arena, *_ = done.output.splitlines()
    assert ": peak 4.75 KiB" in order
    assert "file's order 6.50 KiB (-26.9 %)" in order
    assert arena.startswith("arena 4.75 KiB = lower bound")
    assert "this is its graph of the level all (--optimize gives another)" in done.output
    assert runtime.baked_note(out).level == "all"
    assert JOINS_BEST == 4864
    # What is baked already stays at its level; its order may be found anew.
    again = tmp_path / "again.onnx"
    basic = tmp_path / "basic.onnx"
    assert edgemem("plan", onnx, "--optimize", "basic", "-o", basic).exit_code == 0
    done = edgemem("plan", basic, "--order", "auto", "-o", again)
    assert "file's order 6.50 KiB" in done.output
    assert "this is its graph of the level" not in done.output
    assert runtime.baked_note(again).level == "basic"


def test_given_keeps_the_order_of_an_onnx_file(onnx: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    out = tmp_path / "out.onnx"
    done = edgemem("plan", onnx, "--order", "given", "-o", out)
    assert done.exit_code == 0, done.output
    names = [[op.name for op in library.load(path).graph().ops] for path in (onnx, out)]  # type: ignore[union-attr]
    assert names[0][:9] == names[1][:9]  # the last two are fused
    assert names[0].index("tall0") < names[0].index("wide0")
    assert "this is its graph of the level all" in done.output


def test_onnx_with_open_dimensions_says_what_excludes_what(onnx: Path) -> None:
    done = edgemem("plan", onnx, "--order", "auto", "--dim", "batch=1..8")
    assert done.exit_code == 1
    assert "--order writes a graph of one size" in done.output
    done = edgemem("plan", onnx, "--order", "auto", "--state", "auto")
    assert done.exit_code == 1
    assert "--state keeps the model's dimensions open, and --order fixes them" in done.output


def test_strategies_lists_the_methods() -> None:
    text = edgemem("strategies").output
    listed = text[text.index("order of operators (--order)") :]
    entries = [e for e in json.loads(edgemem("strategies", "--json").output) if e["family"] == "order"]
    assert {e["name"] for e in entries} == set(SOLVERS)
    for entry in entries:
        assert f"\n  {entry['name']}" in listed
        assert entry["paper"]


@pytest.mark.full
def test_lines_are_folded_between_words(onnx: Path) -> None:
    pytest.importorskip("onnxruntime")
    parent, child = pty.openpty()
    command = [sys.executable, "-m", "edgemem", "plan", str(onnx), "--order", "auto"]
    environment = {**os.environ, "COLUMNS": "60", "TERM": "xterm"}
    process = subprocess.Popen(command, stdout=child, stderr=subprocess.DEVNULL, env=environment)
    os.close(child)
    text = b""
    while True:
        try:
            piece = os.read(parent, 4096)
        except OSError:
            break
        if not piece:
            break
        text += piece
    assert process.wait() == 0
    os.close(parent)
    lines = text.decode().replace("\r", "").splitlines()
    first = lines.index(next(line for line in lines if line.startswith("arena")))
    assert first == 2, lines  # the order takes two lines
    assert max(map(len, lines[:first])) <= 60
    assert lines[1].startswith("      ")


def test_the_verb_takes_what_plan_takes(tflite: Path) -> None:
    model = library.load(tflite)
    assert not isinstance(model, library.Problem)
    graph = model.graph()  # type: ignore[union-attr]
    found = [library.order(source, target="generic") for source in (tflite, str(tflite), model, graph)]  # type: ignore[arg-type]
    assert {(o.peak, o.given_peak, o.order) for o in found} == {(BUNDLE_BEST, BUNDLE_GIVEN, found[0].order)}
    assert library.plan(graph.reordered(found[0].order), target="generic").bounds.offsets == BUNDLE_BEST
    assert isinstance(found[0], library.Ordering)


def test_the_figures_of_an_ordering_fit_a_line(tflite: Path) -> None:
    text = repr(library.order(tflite, target="generic"))
    assert text.startswith("Ordering(method='")
    assert f"peak={BUNDLE_BEST}, given_peak={BUNDLE_GIVEN}, lower_bound=" in text
    assert text.endswith(f"operators={OPERATORS})")
    assert len(text) < 200


def test_the_verb_refuses_what_has_no_operators(tflite: Path) -> None:
    problem = library.plan(tflite).problem
    with pytest.raises(ModelError, match="usage records have no operators to order"):
        library.order(problem)  # type: ignore[arg-type]
    with pytest.raises(UnknownStrategyError, match="no method 'best'"):
        library.order(tflite, "best")
    with pytest.raises(ModelError, match="give them to load"):
        library.order(library.load(tflite), dims={"n": 1})  # type: ignore[arg-type]


def test_an_alignment_counts(tflite: Path) -> None:
    expected = 4096 + 1024 + 256  # the last one needs no padding
    assert library.order(tflite, target="generic", alignment=1024).peak == expected
    assert ordering(tflite, "-t", "generic", "--order", "auto", "--alignment", 1024)["peak"] == expected
