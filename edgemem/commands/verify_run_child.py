"""Runs the plans in an ONNX file for `edgemem verify --run`, in a process of its own that can be ended.

    python -m edgemem.commands.verify_run_child FOLDER

FOLDER holds the question (`question.json`, `input0.npy`, ...) and gets the answer (`answer.json`). A model that loops
for ever, and a crash, end the child alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem import errors
from edgemem.commands.executor_run import ExecutorRun
from edgemem.commands.verify_run import verify_run
from edgemem.errors import EdgememError, RuntimeBindError
from edgemem.proof import Cause, Violation
from edgemem.runtime.memory import MemoryReport, Origin
from edgemem.system.child_process import run_child
from edgemem.system.files import temporary_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["verify_run_apart"]

# Errors that can be made of their message.
_PASSED: Final = (
    *("RuntimeBindError", "ModelError", "UnsupportedError", "UnknownShapeError", "PlanError", "InvalidPlanError"),
    *("StalePlanError", "PlanFileError"),
)


def verify_run_apart(
    planned: Path, feeds: Mapping[str, NDArray[Any]] | None = None, *, timeout_s: float
) -> tuple[ExecutorRun, ...]:
    """`verify_run` in a process of its own.

    Args:
        planned: an .onnx file with plans.
        feeds: inputs by name; random ones otherwise.
        timeout_s: seconds until the process is ended.

    Raises RuntimeBindError if it crashes or does not end in time, and what `verify_run` raises.
    """
    given = feeds or {}
    with temporary_folder() as folder:
        for k, value in enumerate(given.values()):
            np.save(folder / f"input{k}.npy", value, allow_pickle=False)
        question = {"planned": str(planned.absolute()), "inputs": list(given)}
        (folder / "question.json").write_text(json.dumps(question), encoding="utf-8")
        try:
            done = run_child(__name__, [str(folder)], timeout_s=timeout_s)
        except subprocess.TimeoutExpired:
            raise RuntimeBindError(
                f"{planned.name} did not end within {timeout_s:g} s, and was ended: the model may loop for ever, or "
                "needs a longer --timeout"
            ) from None
        answer = folder / "answer.json"
        if not answer.is_file():
            lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
            last = lines[-1] if lines else f"status {done.returncode}"
            raise RuntimeBindError(f"ONNX Runtime crashed while running {planned.name} ({last})")
        found = json.loads(answer.read_text(encoding="utf-8"))
    if "error" in found:
        kind = found["error"] if found["error"] in _PASSED else "RuntimeBindError"
        raise getattr(errors, kind)(found["message"])
    return tuple(map(_run_from, found["runs"]))


def _run_from(data: Mapping[str, Any]) -> ExecutorRun:
    report = data["report"]
    if report is not None:
        origin = report["origin"]
        report = MemoryReport(**{**report, "origin": None if origin is None else Origin(**origin)})
    violations = tuple(
        Violation(Cause[v["cause"]], v["message"], v["strategy"], tuple(v["records"])) for v in data["violations"]
    )
    return ExecutorRun(data["executor"], report, data["refusal"], violations, data["note"])


def _data_of(run: ExecutorRun) -> dict[str, Any]:
    violations = [
        {"cause": v.cause.name, "message": v.message, "strategy": v.strategy, "records": list(v.records)}
        for v in run.violations
    ]
    report = None if run.report is None else asdict(run.report)
    names = ("executor", "refusal", "note")
    return {"report": report, "violations": violations, **{name: getattr(run, name) for name in names}}


def _serve(folder: Path) -> None:
    question = json.loads((folder / "question.json").read_text(encoding="utf-8"))
    names = question["inputs"]
    feeds = {name: np.load(folder / f"input{k}.npy", allow_pickle=False) for k, name in enumerate(names)}
    answer: dict[str, Any]
    try:
        answer = {"runs": list(map(_data_of, verify_run(Path(question["planned"]), feeds or None)))}
    except EdgememError as e:
        answer = {"error": type(e).__name__, "message": str(e)}
    (folder / "answer.json").write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
