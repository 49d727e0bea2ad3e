"""Inputs and outputs as ONNX Runtime describes them: what sessions of several executors give."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Argument", "Form", "argument"]

Form = tuple[str, tuple[int, ...]]

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
