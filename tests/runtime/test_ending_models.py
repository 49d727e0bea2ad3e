"""Commands that run models: none hangs, and a signal at any moment leaves no process and no file."""

from __future__ import annotations

import re
import signal
import sys
import time
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from click.testing import CliRunner

from edgemem.cli.main import main
from models.build import build
from tests.processes import children_of, left_behind, started
from tests.tflite_models import ADD_OPTIONS, WHILE, M, O, S, T
from tests.tflite_models import build as build_tflite

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="signals come another way there")


@pytest.fixture
def endless(tmp_path: Path) -> Path:
    """Adds 0 to a number for as long as it is less than the largest there is."""

    def number(name: str, value: int | None = None) -> T:
        return T(name, "int32", (1,), None if value is None else np.array([value], "<i4").tobytes())

    tensors = [number("i"), number("limit", 2**31 - 1), T("c", "bool", (1,))]
    condition = S(tensors, [O("LESS", (0, 1), (2,))], (0,), (2,))
    body = S([number("i"), number("zero", 0), number("j")], [O("ADD", (0, 1), (2,), ADD_OPTIONS)], (0,), (2,))
    whole = S([number("i"), number("n")], [O("WHILE", (0,), (1,), (WHILE, (1, 2)))], (0,), (1,))
    path = tmp_path / "endless.tflite"
    path.write_bytes(build_tflite(M([whole, condition, body])))
    return path


COMMANDS = [
    pytest.param(["size"], "tflite_micro", id="size"),
    pytest.param(["run", "--runtime", "tflm"], "tflite_micro", id="run in tflm"),
    pytest.param(["run", "--runtime", "litert"], "ai_edge_litert", id="run in LiteRT"),
]


@pytest.mark.parametrize(("command", "needs"), COMMANDS)
def test_a_model_that_loops_for_ever_is_ended(endless: Path, command: list[str], needs: str) -> None:
    pytest.importorskip(needs)
    result = CliRunner().invoke(main, [*command, str(endless), "--timeout", "2"])
    assert result.exit_code == 1, result.output
    assert re.search(r"did not end within 2 s.*the model may loop for ever", result.output)
    assert "Traceback" not in result.output


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize(("command", "needs"), COMMANDS)
def test_the_process_of_an_endless_model_ends_with_the_command(
    endless: Path, command: list[str], needs: str, number: signal.Signals, tmp_path: Path
) -> None:
    pytest.importorskip(needs)
    running = started(tmp_path / "temporary", *command, endless)
    running.wait_for(lambda: bool(children_of(running.folder)))
    time.sleep(1.5)  # it has loaded its runtime
    code, seconds, _ = running.ended_by(number)
    assert seconds < 5
    left = left_behind(running.folder)
    if number == signal.SIGKILL:
        left = [entry for entry in left if isinstance(entry, int)]  # its files stay
    else:
        assert code == 128 + number
    assert not left


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("after_s", [0.3, 0.6, 0.9, 1.2, 1.5, 1.8, 2.1, 2.4])
def test_a_signal_at_any_moment_leaves_nothing(tmp_path: Path, number: signal.Signals, after_s: float) -> None:
    pytest.importorskip("onnxruntime")
    model, folder = tmp_path / "model.onnx", tmp_path / "out"
    onnx.save(build("randwire", size="small"), model)
    folder.mkdir()
    running = started(
        tmp_path / "temporary",
        "shrink",
        model,
        "--steps",
        "optimize=all,order",
        "-o",
        folder / "out.onnx",
    )
    time.sleep(after_s)
    code, seconds, err = running.ended_by(number)
    assert seconds < 5
    # Before the command has begun, Python itself ends by the signal; at the end it may have been done.
    assert code in (128 + number, -number, 0), err
    assert not left_behind(running.folder)
    written = sorted(p.name for p in folder.iterdir())
    assert written in ([], ["out.onnx"])
    if code == 0:
        assert CliRunner().invoke(main, ["verify", str(folder / "out.onnx")]).exit_code == 0
