"""What runtimes do when an operator runs graphs of its own: one table, read by the proof.

A runtime copies values between the operator and its bodies, and runs the bodies, in an order of its own. That order
says how long each value is needed, which the operator's inputs and outputs alone do not: TensorFlow Lite Micro keeps
the values of a WHILE in the operator's outputs, from before the condition runs for the first time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from edgemem.model.graph import RUN_ONCE

if TYPE_CHECKING:
    from edgemem.model.graph import Op

__all__ = ["OPERATOR", "Copy", "Event", "Run", "events_of"]

OPERATOR: Final = -1  # the operator itself, where a body is numbered from 0

Side: TypeAlias = Literal["inputs", "outputs"]


@dataclass(frozen=True, slots=True)
class Copy:
    """Values are copied from one list of tensors to another, in order.

    Attributes:
        source: the operator (`OPERATOR`) or the number of its body, and which of its lists.
        to: the same for where the copies go.
    """

    source: tuple[int, Side]
    to: tuple[int, Side]


@dataclass(frozen=True, slots=True)
class Run:
    """A body runs; afterwards its outputs are read, be it by a copy or as the condition of a loop."""

    body: int


Event: TypeAlias = Copy | Run

_INPUTS: Final = (OPERATOR, "inputs")
_OUTPUTS: Final = (OPERATOR, "outputs")


def events_of(op: Op) -> tuple[Event, ...]:
    """What a runtime does with the bodies of an operator, in order of time, where they lie in the same arena.

    Of branches each is there in turn, because any of them may run. Of a loop it is the start, one round, and the start
    of the next. The order is that of TensorFlow Lite Micro (kernels/if.cc and kernels/while.cc), the one runtime here
    that runs bodies in the arena that is planned. Loops without a condition of their own, such as ONNX's, hold their
    outputs from before the first round as well, because results are collected there round by round.
    """
    numbers = range(len(op.bodies))
    if op.type in RUN_ONCE:
        return tuple(event for k in numbers for event in (_enter(k), Run(k), _leave(k)))
    if len(op.bodies) == 2:
        round_ = (Copy(_OUTPUTS, (1, "inputs")), Run(1), _leave(1))
        return (_enter(0), Copy(_INPUTS, _OUTPUTS), Run(0), *round_, Copy(_OUTPUTS, (0, "inputs")), Run(0))
    each = tuple(event for k in numbers for event in (_enter(k), Run(k), _leave(k)))
    return (Copy(_INPUTS, _OUTPUTS), *each, *each)


def _enter(body: int) -> Copy:
    return Copy(_INPUTS, (body, "inputs"))


def _leave(body: int) -> Copy:
    return Copy((body, "outputs"), _OUTPUTS)
