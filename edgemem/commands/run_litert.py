"""A .tflite model run in LiteRT, in a process of its own, which a damaged file or a wrong plan may crash."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.commands.outcome import Outcome
from edgemem.runtime.litert.memory import InterpreterMemory
from edgemem.runtime.litert.process import ask_litert
from edgemem.runtime.memory import report_from

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from numpy.typing import NDArray

    from edgemem.runtime.tflite_file import TfliteModel

__all__ = ["bind_litert", "run_litert"]


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
    compared = f"{path.name} in LiteRT with builtin kernels"
    return Outcome(outputs, memory, memory, not different if compare else None, different, compared)


def bind_litert(path: Path, model: TfliteModel, *, timeout_s: float | None = None) -> InterpreterMemory:
    """The memory of a model once LiteRT has bound it to the plan in its file. Errors as `run_litert`."""
    return report_from(ask_litert("bind", path, model, timeout_s=timeout_s)[0]["memory"], InterpreterMemory)
