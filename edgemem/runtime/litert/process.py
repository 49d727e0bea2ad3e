"""LiteRT in a process of its own: it crashes on damaged files that it does not recognise as such."""

from __future__ import annotations

from edgemem.errors import RuntimeBindError, error_named
from edgemem.runtime.litert.package import require_package
from edgemem.system.child_call import ChildError, Message, call_child

__all__ = ["ask"]


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
