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

__all__ = ["OPERATOR", "Copy", "Event", "Run", "Side", "events_of", "side_of"]

OPERATOR: Final = -1  # the operator itself, where a body is numbered from 0

# One of an operator's two lists, or of a body's.
Side: TypeAlias = Literal["inputs", "outputs"]


@dataclass(frozen=True, slots=True)
class Copy:
    """Values are copied from one list of tensors to another, in order.

    Attributes:
        source: the operator (`OPERATOR`) or the number of its body, and which of its lists.
        to: the same for where the copies go.
        skip: how many of the source's tensors come before the one whose bytes the first of `to` gets. Where both of a
            pair lie in one place, nothing is copied. None: it is not known which gets which, or they are changed.
    """

    source: tuple[int, Side]
    to: tuple[int, Side]
    skip: int | None = None

    def pairs(self, op: Op) -> tuple[tuple[int, int], ...]:
        """The positions in `source` and `to` of the tensors with the same bytes; () if they are not known."""
        if self.skip is None:
            return ()
        count = min(len(side_of(op, self.source)) - self.skip, len(side_of(op, self.to)))
        return tuple((self.skip + k, k) for k in range(count))


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
        taken, given = (1, 0) if op.type == "IF" else (None, None)  # the first input is what IF decides by
        enter = [Copy(_INPUTS, (k, "inputs"), taken) for k in numbers]
        leave = [Copy((k, "outputs"), _OUTPUTS, given) for k in numbers]
        return tuple(event for k in numbers for event in (enter[k], Run(k), leave[k]))
    if len(op.bodies) == 2:
        skip = 0 if op.type == "WHILE" else None
        start = (Copy(_INPUTS, (0, "inputs"), skip), Copy(_INPUTS, _OUTPUTS, skip), Run(0))
        round_ = (Copy(_OUTPUTS, (1, "inputs"), skip), Run(1), Copy((1, "outputs"), _OUTPUTS, skip))
        return (*start, *round_, Copy(_OUTPUTS, (0, "inputs"), skip), Run(0))
    # The outputs are kept while a body runs: what was collected in them, and values that the next round takes in.
    each = tuple(
        event
        for k in numbers
        for event in (
            Copy(_INPUTS, (k, "inputs")),
            Copy(_OUTPUTS, (k, "inputs")),
            Run(k),
            Copy(_OUTPUTS, _OUTPUTS),
            Copy((k, "outputs"), _OUTPUTS),
        )
    )
    return (Copy(_INPUTS, _OUTPUTS), *each, *each)


def side_of(op: Op, side: tuple[int, Side]) -> tuple[int, ...]:
    """The indices of the tensors that a copy is from or to: the operator's in its graph, a body's in the body."""
    number, name = side
    if number == OPERATOR:
        return op.inputs if name == "inputs" else op.outputs
    return op.bodies[number].inputs if name == "inputs" else op.bodies[number].outputs
