"""`edgemem.order`, and orders that `edgemem shrink` writes: what is found, and what is refused."""

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
from edgemem.schedule.registry import SOLVERS
from tests.branchy import BRANCHES, BUNDLE_BEST, BUNDLE_GIVEN, JOINS_BEST, bundle, joins
from tests.tflite_models import M, O, S, T, build

if TYPE_CHECKING:
    from pathlib import Path


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


def planned(path: Path, steps: str, **options: Any) -> int:
    """Bytes of the arena with these steps, under the rules of a generic runtime."""
    best = library.shrink(path, target="generic", steps=steps, **options).planset.best_offsets
    assert best is not None
    return best.size


def test_the_order_is_found_and_written(tflite: Path, tmp_path: Path) -> None:
    once, twice = tmp_path / "once.tflite", tmp_path / "twice.tflite"
    assert planned(tflite, "") == BUNDLE_GIVEN
    done = edgemem("shrink", tflite, "-t", "generic", "-o", once)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("least: 4.50 KiB, 5.4x less with order, arithmetic 1.000x")
    assert planned(once, "") == BUNDLE_BEST
    done = edgemem("shrink", once, "-t", "generic", "-o", twice)
    assert "no change" in done.output
    assert twice.read_bytes() == once.read_bytes()


@pytest.mark.parametrize("method", ["greedy", "beam"])
def test_one_method(tflite: Path, method: str) -> None:
    assert planned(tflite, f"order={method}") == BUNDLE_BEST


def test_what_is_refused(tflite: Path, tmp_path: Path) -> None:
    done = edgemem("shrink", tflite, "--steps", "order=fastest")
    assert done.exit_code == 2
    assert "no method 'fastest' orders operators; there are auto, " in done.output
    records = tmp_path / "records.csv"
    records.write_text("tensor,first_op,last_op,size\na,0,1,8\n")
    done = edgemem("shrink", records)
    assert done.exit_code == 1
    assert "there is no graph to change" in done.output


def test_the_least_plan_is_taken(tmp_path: Path) -> None:
    """What is taken is the least plan, whatever the peaks are."""
    sizes = (1, 9, 7, 9, 9, 1, 8)  # units of 64 bytes
    tensors = [T(f"t{k}", "int8", (1, 64 * size)) for k, size in enumerate(sizes)]
    inputs = ((0,), (1,), (1,), (2,), (2,), (3, 5))
    ops = [O("Stir", reads, (k + 1,)) for k, reads in enumerate(inputs)]
    path = tmp_path / "model.tflite"
    path.write_bytes(build(M([S(tensors, ops, (0,), (4, 6))])))
    assert library.order(path, target="generic").peak == 1216
    assert planned(path, "order") == 1216
    assert library.shrink(path, target="generic").chosen.arena == 1216


@pytest.mark.full
def test_an_order_that_fits_a_budget(tflite: Path) -> None:
    assert edgemem("plan", tflite, "-t", "generic", "--budget", "6KiB").exit_code == 3
    assert edgemem("shrink", tflite, "-t", "generic", "--budget", "6KiB").exit_code == 0


@pytest.mark.full
def test_onnx_is_optimised_for_its_order(onnx: Path, tmp_path: Path) -> None:
    runtime = pytest.importorskip("edgemem.runtime.onnxruntime.baked_file")
    pytest.importorskip("onnxruntime")
    basic, again = tmp_path / "basic.onnx", tmp_path / "again.onnx"
    assert planned(onnx, "optimize=all,order", outputs="close") == JOINS_BEST == 4864
    library.shrink(onnx, steps="optimize=basic").save(basic)
    # What is optimised already stays at its level; its order may be found anew.
    library.shrink(basic, steps="order").save(again)
    assert runtime.baked_note(again).level == "basic"


def test_strategies_lists_the_methods() -> None:
    text = edgemem("strategies").output
    listed = text[text.index("order of operators (shrink --steps order=METHOD)") :]
    entries = [e for e in json.loads(edgemem("strategies", "--json").output) if e["family"] == "order"]
    assert {e["name"] for e in entries} == set(SOLVERS)
    for entry in entries:
        assert f"\n  {entry['name']}" in listed
        assert entry["paper"]


@pytest.mark.full
def test_lines_are_folded_between_words(onnx: Path) -> None:
    pytest.importorskip("onnxruntime")
    parent, child = pty.openpty()
    command = [sys.executable, "-m", "edgemem", "shrink", str(onnx)]
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
    answer = lines[: lines.index("")]
    assert len(answer) > 2, lines  # the answer takes two lines or more
    assert max(map(len, answer)) <= 60
    assert answer[1].startswith("  ")


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


def test_json_is_json_where_a_file_is_written(tflite: Path, tmp_path: Path) -> None:
    done = edgemem("shrink", tflite, "-t", "generic", "--json", "-o", tmp_path / "once.tflite")
    assert done.exit_code == 0
    assert json.loads(done.stdout)["model"] == str(tflite)
    assert (tmp_path / "once.tflite").exists()


def test_a_saving_says_what_it_is_relative_to(tflite: Path) -> None:
    """With a kernel profile the first row has results over inputs already."""
    done = edgemem("shrink", tflite, "-t", "tflm", "--kernels", "tflm-reference")
    assert done.exit_code == 0
    assert " less than with overlap alone, with order and overlap" in done.output.splitlines()[0]
