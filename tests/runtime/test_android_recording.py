"""Recordings for an Android app: with ONNX Runtime's own reuse on, which its Java API cannot switch off."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from edgemem.cli.main import main
from edgemem.commands.verify_run import verify_run
from edgemem.runtime.executors import where_it_runs
from edgemem.runtime.onnxruntime.file import plans_in
from edgemem.runtime.onnxruntime.recording import record
from edgemem.runtime.onnxruntime.session import InferenceSession
from tests.onnx_sessions import feeds, options, plain, same, small

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("android")
    (folder / "model.onnx").write_bytes(small("resnet18"))
    call = ["plan", str(folder / "model.onnx"), "--record", "--android", "-o", str(folder / "planned.onnx")]
    done = CliRunner().invoke(main, call)
    assert done.exit_code == 0, done.output
    assert "in an Android app (edgemem android package)" in done.output
    assert "edgemem.InferenceSession): plan with --record" in done.output
    return folder / "planned.onnx"


def test_it_is_of_other_requests_than_a_session_makes(planned: Path, tmp_path: Path) -> None:
    (found,) = [p for p in plans_in(planned.read_bytes()) if p.recording is not None]
    assert found.recording is not None
    assert found.recording.fingerprint.keeps_reuse
    assert found.recording.fingerprint.signature.bound
    (tmp_path / "model.onnx").write_bytes(small("resnet18"))
    usual = record(tmp_path / "model.onnx", sess_options=options("EXTENDED"))
    assert usual.recording is not None
    assert not usual.recording.fingerprint.keeps_reuse
    assert len(found.problem.records) < len(usual.problem.records)
    assert "in an Android app" not in where_it_runs((usual,), ".onnx")


def test_only_a_session_with_reuse_runs_it(planned: Path) -> None:
    alone = plain(small("resnet18"), "EXTENDED")
    values = feeds(alone)
    with InferenceSession(str(planned), options("EXTENDED"), cache=False, record="never", bind_outputs=True) as session:
        session.run(None, values)
        assert "reuse True instead of None" in session.memory.reason
    with InferenceSession(
        str(planned), options("EXTENDED"), cache=False, record="never", bind_outputs=True, keep_reuse=True, poison=True
    ) as session:
        assert same(session.run(None, values), alone.run(None, values))
        assert (session.memory.mode, session.memory.replayed) == ("replay", 1)


def test_verify_run_runs_it(planned: Path) -> None:
    (found,) = [run for run in verify_run(planned) if run.executor == "android"]
    assert found.report is not None
    assert not found.violations


def test_how_to_record_contradicts_no_recording(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(small("resnet18"))
    call = ["plan", str(tmp_path / "model.onnx"), "--android", "--no-record", "-o", str(tmp_path / "planned.onnx")]
    done = CliRunner().invoke(main, call)
    assert done.exit_code == 2
    assert "leave --no-record out" in done.output
    assert not (tmp_path / "planned.onnx").exists()
