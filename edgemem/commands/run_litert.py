"""A .tflite model run in LiteRT, in a process of its own, which a damaged file may crash."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.commands.outcome import Outcome
from edgemem.runtime.litert.memory import litert_memory
from edgemem.runtime.litert.process import ask_litert

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import Any

    from numpy.typing import NDArray

    from edgemem.runtime.tflite_file import TfliteModel

__all__ = ["run_litert"]


def run_litert(
    path: Path,
    model: TfliteModel,
    feeds: Mapping[str, NDArray[Any]] | None,
    *,
    runs: int,
    threads: int,
    compare: bool,
    timeout_s: float | None = None,
) -> Outcome:
    """Run a .tflite model with LiteRT's builtin kernels, and measure its arena.

    Args:
        path: the file.
        model: the file as opened, in the sizes to run it in.
        feeds: inputs by name; random ones where none is given.
        runs: how many.
        threads: of the kernels.
        compare: also run it without tensors that share memory.
        timeout_s: seconds until it is ended; None for ten minutes and one more for each run.

    Raises:
        ModelError: LiteRT refuses the model or the inputs. RuntimeBindError: it crashes, or its arena is larger than
            the plan in the file has it.
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
    )
    memory = litert_memory(model, found["arena"])
    if memory.mode == "planned":
        memory.check()
    outputs, different = dict(zip(found["outputs"], arrays, strict=True)), tuple(found["different"])
    compared = f"{path.name} in LiteRT with builtin kernels in which no tensors share memory"
    return Outcome(outputs, memory, memory, not different if compare else None, different, compared)
