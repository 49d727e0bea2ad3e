"""Checks the arguments of a session that Python itself does not check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from edgemem.errors import RuntimeBindError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["checked_max_bytes", "refuse_unknown_keywords"]

# What ONNX Runtime's own constructor takes out of its keyword arguments; it drops others without a word.
_ONNX_RUNTIME: Final = ("disabled_optimizers", "enable_fallback", "read_config_from_model")


def refuse_unknown_keywords(called: Callable[..., object], given: Iterable[str]) -> None:
    """Raise TypeError, as Python does, for a keyword that neither `called` nor ONNX Runtime has."""
    unknown = next((name for name in given if name not in _ONNX_RUNTIME), None)
    if unknown is None:
        return
    from difflib import get_close_matches  # for the error alone
    from inspect import signature

    known = [name for name in signature(called).parameters if name not in ("self", "kwargs")]
    near = get_close_matches(unknown, [*known, *_ONNX_RUNTIME], n=1)
    hint = f". Did you mean {near[0]!r}?" if near else f"; there are {', '.join((*known, *_ONNX_RUNTIME))}"
    raise TypeError(f"InferenceSession.__init__() got an unexpected keyword argument {unknown!r}{hint}")


def checked_max_bytes(max_bytes: int | str | None) -> int | None:
    """The limit in bytes. Raises RuntimeBindError for what is none."""
    if max_bytes is None:
        return None
    from edgemem.targets.units import size_of  # for these sessions alone

    return size_of("max_bytes", max_bytes, error=RuntimeBindError)
