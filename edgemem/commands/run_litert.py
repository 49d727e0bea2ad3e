"""A .tflite model run in LiteRT, in a process of its own, which a damaged file or a wrong plan may crash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from edgemem.commands.outcome import Outcome
from edgemem.runtime.litert.memory import InterpreterMemory
from edgemem.runtime.litert.process import ask
from edgemem.runtime.memory import report_from
from edgemem.system.child_call import Message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.commands.tflite_file import TfliteModel

__all__ = ["ask_litert", "bind_litert", "run_litert"]

_CHILD: Final = "edgemem.commands.litert_child"
_TIMEOUT_S: Final = 600.0
_RUN_S: Final = 60.0  # more for each run that was asked for


def run_litert(
    path: Path,
    model: TfliteModel,
    feeds: Mapping[str, NDArray[Any]] | None,
    *,
    runs: int,
    threads: int,
    compare: bool,
    poison: bool,
    timeout_s: float | None = None,
) -> Outcome:
    """Run a .tflite model with LiteRT's builtin kernels inside the plan in its file, or one that is made now.

    Args:
        path: the file.
        model: the file as opened, in the sizes to run it in.
        feeds: inputs by name; random ones where none is given.
        runs: how many.
        threads: of the kernels.
        compare: also run it without a plan.
        poison: fill the arena with a pattern before every run.
        timeout_s: seconds until it is ended; None for ten minutes and one more for each run.

    Raises:
        ModelError: LiteRT refuses the model or the inputs. RuntimeBindError: it crashes, or cannot run the plan.
        InvalidPlanError: the plan in the file is wrong. MissingDependencyError: no LiteRT is installed.
    """
    given = feeds or {}
    found, arrays = ask_litert(
        "run",
        path,
        model,
        tuple(given.values()),
        timeout_s=timeout_s,
        feeds=list(given),
        runs=runs,
        threads=threads,
        compare=compare,
        poison=poison,
        # A file with a plan runs inside it or not at all; one without may run as LiteRT has it, which the report says.
        refuse="raise" if model.plan() is not None else "plain",
    )
    outputs = dict(zip(found["outputs"], arrays, strict=True))
    memory, different = report_from(found["memory"], InterpreterMemory), tuple(found["different"])
    return Outcome(outputs, memory, memory, not different if compare else None, different)


def bind_litert(path: Path, model: TfliteModel, *, timeout_s: float | None = None) -> InterpreterMemory:
    """The memory of a model once LiteRT has bound it to the plan in its file. Errors as `run_litert`."""
    return report_from(ask_litert("bind", path, model, timeout_s=timeout_s)[0]["memory"], InterpreterMemory)


def ask_litert(
    task: str,
    path: Path,
    model: TfliteModel,
    arrays: Sequence[NDArray[Any]] = (),
    *,
    timeout_s: float | None = None,
    **more: Any,
) -> tuple[dict[str, Any], Sequence[NDArray[Any]]]:
    """What `edgemem.commands.litert_child` answers for a task, as data and arrays. Errors as `run_litert`."""
    data = {"task": task, "file": path.name, "shapes": list(model.inputs().items()), **more}
    doing = f"{'preparing' if task == 'bind' else 'running'} {path.name}"
    limit_s = _TIMEOUT_S + _RUN_S * more.get("runs", 0) if timeout_s is None else timeout_s
    answer = ask(_CHILD, Message(data, arrays, path.read_bytes()), doing=doing, timeout_s=limit_s)
    return dict(answer.data), answer.arrays
