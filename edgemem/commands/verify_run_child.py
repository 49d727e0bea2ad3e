"""Runs the plans in an ONNX file for `edgemem verify --run`, in a process of its own that can be ended."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgemem.commands.executor_run import ExecutorRun
from edgemem.commands.verify_run import verify_run
from edgemem.errors import RuntimeBindError, error_named
from edgemem.proof import Cause, Violation
from edgemem.runtime.memory import MemoryReport, as_data, report_from
from edgemem.system.child_call import ChildError, Message, call_child, serve

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

__all__ = ["verify_run_apart"]


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
    question = Message({"planned": str(planned.absolute()), "inputs": list(given)}, tuple(given.values()))
    try:
        answer = call_child(__name__, question, timeout_s=timeout_s)
    except ChildError as e:
        if e.kind:
            raise error_named(e.kind, str(e)) from None
        if e.status is None:
            raise RuntimeBindError(
                f"{planned.name} did not end within {timeout_s:g} s, and was ended: the model may loop for ever, or "
                "needs a longer --timeout"
            ) from None
        raise RuntimeBindError(f"ONNX Runtime crashed while running {planned.name} ({e})") from None
    return tuple(map(_run_from, answer.data["runs"]))


def _run_from(data: Mapping[str, Any]) -> ExecutorRun:
    report = None if data["report"] is None else report_from(data["report"], MemoryReport)
    violations = tuple(
        Violation(Cause[v["cause"]], v["message"], v["strategy"], tuple(v["records"])) for v in data["violations"]
    )
    return ExecutorRun(data["executor"], report, data["refusal"], violations, data["note"], data["compared"])


def _data_of(run: ExecutorRun) -> dict[str, Any]:
    violations = [
        {"cause": v.cause.name, "message": v.message, "strategy": v.strategy, "records": list(v.records)}
        for v in run.violations
    ]
    report = None if run.report is None else as_data(run.report)
    names = ("executor", "refusal", "note", "compared")
    return {"report": report, "violations": violations, **{name: getattr(run, name) for name in names}}


def _answer(question: Message) -> Message:
    feeds = dict(zip(question.data["inputs"], question.arrays, strict=True))
    runs = verify_run(Path(question.data["planned"]), feeds or None)
    return Message({"runs": list(map(_data_of, runs))})


if __name__ == "__main__":
    serve(_answer)
