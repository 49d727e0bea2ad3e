"""Control dependencies of a .tflite file: pairs of operators that keep their order whatever tensors they use.

They are the metadata entry `model_control_dependencies`, as TensorFlow's converter writes and LiteRT reads it: a
version, then for each subgraph its pairs (before, after) of operator numbers. All numbers are varints of 7 bits a byte,
the low ones first; operator numbers are signed and zigzag-encoded (0, -1, 1, -2, ... are 0, 1, 2, 3, ...), counts and
the version are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from edgemem.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CONTROL", "Pairs", "decode_control", "encode_control", "file_order"]

CONTROL: Final = "model_control_dependencies"
_VERSION: Final = 1
_LONGEST: Final = 5  # bytes of a varint of 32 bits

Pairs: TypeAlias = tuple[tuple[int, int], ...]


def decode_control(data: bytes, operators: Sequence[int]) -> tuple[Pairs, ...]:
    """The pairs of every subgraph, in the order of the entry.

    Args:
        data: the entry.
        operators: how many operators each subgraph has.

    Raises ModelError for another version, damaged data, and pairs that are not in the order of the file.
    """
    at = 0

    def number() -> int:
        nonlocal at
        value = 0
        for place in range(_LONGEST):
            if at >= len(data):
                break
            byte = data[at]
            at += 1
            value |= (byte & 127) << 7 * place
            if byte < 128:
                return value
        raise ModelError(f"damaged TFLite file: {CONTROL} ends within a number")

    def operator() -> int:
        value = number()
        return -(value >> 1) - 1 if value & 1 else value >> 1

    version = number()
    if version != _VERSION:
        raise ModelError(f"{CONTROL} is of version {version}, which edgemem does not know")
    if number() != len(operators):
        raise ModelError(f"damaged TFLite file: {CONTROL} is not of its {len(operators)} subgraphs")
    made = []
    for count in operators:
        pairs = tuple((operator(), operator()) for _ in range(min(number(), len(data))))
        if any(not 0 <= before < after < count for before, after in pairs):
            raise ModelError(f"damaged TFLite file: {CONTROL} has pairs that are not in the order of the operators")
        made.append(pairs)
    if at != len(data):
        raise ModelError(f"damaged TFLite file: {CONTROL} has {len(data) - at} bytes too many")
    return tuple(made)


def encode_control(pairs: Sequence[Pairs]) -> bytes:
    """The entry that `decode_control` reads; operator numbers are 0 or more."""
    out = bytearray()

    def number(value: int) -> None:
        while value >= 128:
            out.append(value & 127 | 128)
            value >>= 7
        out.append(value)

    number(_VERSION)
    number(len(pairs))
    for of_subgraph in pairs:
        number(len(of_subgraph))
        for before, after in of_subgraph:
            number(2 * before)
            number(2 * after)
    return bytes(out)


def file_order(operators: Sequence[int]) -> tuple[Pairs, ...]:
    """Pairs that fix the order of every subgraph: for files whose own pairs cannot be read."""
    return tuple(tuple((k, k + 1) for k in range(count - 1)) for count in operators)
