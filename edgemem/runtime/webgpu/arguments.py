"""Inputs and outputs of a session as ONNX Runtime describes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgemem.formats import Form

__all__ = ["Argument", "argument"]

_TYPES = {"float32": "float", "float64": "double"}


@dataclass(frozen=True, slots=True)
class Argument:
    """An input or output, with the attributes of `onnxruntime.NodeArg`; every dimension is known."""

    name: str
    type: str
    shape: list[int | str | None]


def argument(name: str, form: Form) -> Argument:
    """An argument of a dtype and a shape."""
    return Argument(name, f"tensor({_TYPES.get(form[0], form[0])})", list(form[1]))
