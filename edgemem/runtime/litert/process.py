"""LiteRT in a process of its own: it crashes on damaged files that it does not recognise as such."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import EdgememError, MissingDependencyError, RuntimeBindError, error_named
from edgemem.runtime.litert.memory import litert_memory
from edgemem.runtime.litert.package import require_package
from edgemem.runtime.tflite_file import input_forms, open_model, values_of
from edgemem.system.child_call import ChildError, Message, call_child

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.runtime.tflite_file import TfliteModel

__all__ = ["ask", "ask_litert", "trial_refusal"]

_CHILD: Final = "edgemem.runtime.litert.run_child"
_TIMEOUT_S: Final = 600.0
_RUN_S: Final = 60.0  # more for each run that was asked for
_TRIAL_S: Final = 20.0


def ask(module: str, question: Message, *, doing: str, timeout_s: float) -> Message:
    """Have a question answered by a module that calls `serve`, in a process of its own.

    Args:
        module: its dotted name.
        question: the question; its content is a .tflite file.
        doing: what it does, for errors: `LiteRT crashed while {doing}`.
        timeout_s: seconds until it is ended.

    Raises:
        MissingDependencyError: no LiteRT is installed.
        RuntimeBindError: LiteRT crashed, or did not end in time. Errors that the child raises are raised here as well.
    """
    require_package()
    try:
        return call_child(module, question, timeout_s=timeout_s)
    except ChildError as e:
        if e.status is None:
            raise RuntimeBindError(
                f"LiteRT did not end within {timeout_s:g} s while {doing}, and was ended: the model may loop for ever"
            ) from None
        if e.kind == "MemoryError":
            raise RuntimeBindError("the model needs more memory than the machine has") from None
        if e.kind:
            raise error_named(e.kind, str(e)) from None
        raise RuntimeBindError(
            f"LiteRT crashed while {doing} ({e}): the file is damaged, or this LiteRT cannot run it"
        ) from None


def ask_litert(
    task: str,
    path: Path,
    model: TfliteModel,
    arrays: Sequence[NDArray[Any]] = (),
    *,
    timeout_s: float | None = None,
    **more: Any,
) -> tuple[dict[str, Any], Sequence[NDArray[Any]]]:
    """What `edgemem.runtime.litert.run_child` answers for a task, as data and arrays. Errors as `ask`."""
    graph = model.graph()
    names = {
        "inputs": [name for name, _, _ in input_forms(graph)],
        "outputs": [graph.tensors[i].name for i in graph.outputs],
    }
    data = {"task": task, "file": path.name, "shapes": list(model.inputs().items()), "names": names, **more}
    doing = f"running {path.name}"
    limit_s = _TIMEOUT_S + _RUN_S * more.get("runs", 0) if timeout_s is None else timeout_s
    answer = ask(_CHILD, Message(data, arrays, path.read_bytes()), doing=doing, timeout_s=limit_s)
    return dict(answer.data), answer.arrays


def trial_refusal(file: Path) -> str:
    """Why the installed LiteRT does not run a file in the arena of the plan that is in it; "" if it does.

    Also "" if LiteRT is not installed, or nothing came of the trial within 20 seconds.
    """
    try:
        model = open_model(file)
        values_of(input_forms(model.graph()), None)  # which `verify --run` needs, too
        # A run tells more than to prepare it: LiteRT may find sizes as it runs.
        found, _ = ask_litert("run", file, model, timeout_s=_TRIAL_S, feeds=(), runs=1, threads=1, compare=False)
        memory = litert_memory(model, found["arena"])
    except MissingDependencyError:
        return ""
    except EdgememError as e:
        return "" if "did not end within" in str(e) else str(e)
    return "" if memory.is_kept else memory.refusal
