"""Files of one operator, which probes of runtimes are made of: plain data that a converter writes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["OneOperator", "OneOperatorWriter", "OperandValue"]


@dataclass(frozen=True, slots=True)
class OperandValue:
    """A tensor of the operator.

    Attributes:
        shape: its dimensions.
        dtype: float32, int8 or int32.
        data: the bytes of a constant; None for what is given or computed.
        scales: of a quantised tensor; several are one a channel. () if it is not quantised.
        zero_point: of a quantised tensor.
        axis: the dimension that has the scales.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    data: bytes | None = None
    scales: tuple[float, ...] = ()
    zero_point: int = 0
    axis: int = 0


@dataclass(frozen=True, slots=True)
class OneOperator:
    """A model of one operator; the inputs without data are the model's.

    Attributes:
        type: as the format has it.
        inputs: in order; one may be there twice. Equal objects are one tensor.
        output: the model's output.
        options: the operator's options by the schema's names.
    """

    type: str
    inputs: tuple[OperandValue, ...]
    output: OperandValue
    options: Mapping[str, int | float | bool] = field(default_factory=dict, hash=False)


@runtime_checkable
class OneOperatorWriter(Protocol):
    """A format that writes models of one operator."""

    @classmethod
    def write_operator(cls, operator: OneOperator, places: tuple[int, ...]) -> bytes:
        """The file, with offsets for TensorFlow Lite Micro: of the inputs without data and the output, in this order.

        Raises MissingDependencyError without the package that has the format's schema, and UnsupportedError for an
        operator that the format has no options for.
        """
