"""What a kernel knows of its tensors, its function and itself, as constants of its text."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, Final, Literal

from edgemem.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from edgemem.model.texture_layout import Stored
    from edgemem.runtime.webgpu.dispatch import Dispatch

__all__ = ["Reach", "own_numbers", "size_constants", "with_infinities"]

_MOST_PARAMETERS: Final = 4  # of a function
_OWN: Final = re.compile(r"^struct Own \{([^}]*)\}", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Reach:
    """How a dispatch reaches a tensor.

    Attributes:
        kind: `buffer`: a range of a storage buffer that is written too; `texture`; `constant`: a read-only buffer of
            float32.
        stored: its dimensions.
        place: equal for two tensors in the same range of a buffer, or in the same texture.
        linear: a texture whose texels are numbered in rows of `row`.
        layer_rows: rows of a layer, where the texture is an array and the tensor some of its layers; else 0.
    """

    kind: Literal["buffer", "texture", "constant"]
    stored: Stored
    place: Hashable
    linear: bool = False
    row: int = 0
    layer_rows: int = 0


def own_numbers(text: str, dispatch: Dispatch) -> dict[str, int | float]:
    """The members of `struct Own` with their values."""
    found = _OWN.search(text)
    kinds = re.findall(r"(\w+):\s*(i32|f32)\b", re.sub(r"//.*", "", found[1])) if found else []
    if len(kinds) != len(dispatch.own):
        raise UnsupportedError(
            f"kernel {dispatch.kernel} has {len(kinds)} parameters of its own, not {len(dispatch.own)}"
        )
    return {
        name: int(value) if kind == "i32" else float(value)
        for (name, kind), value in zip(kinds, dispatch.own, strict=True)
    }


def size_constants(dispatch: Dispatch, inputs: Sequence[Reach], output: Reach, own: Mapping[str, int | float]) -> str:
    """The constant `p`: what the kernel knows of its tensors, its function and itself."""
    fields = ("batch", "height", "width", "channels", "slices", "channels_first", "linear", "row")
    tensors = [f"input_{k}" for k in range(len(inputs))] + ["output"]
    members = [*(f"{name}: Tensor" for name in tensors), "function: vec4<f32>", *(["own: Own"] if own else [])]
    values = []
    for reach in (*inputs, output):
        s = reach.stored
        numbers = (*s.dims, s.slices, s.channels_first, reach.linear, reach.row)
        values.append(f"Tensor({', '.join(_literal(int(n)) for n in numbers)})")
    values.append(_function_literal(dispatch))
    if own:
        values.append(f"Own({', '.join(map(_literal, own.values()))})")
    return (
        f"struct Tensor {{ {', '.join(f'{f}: i32' for f in fields)} }}\n"
        f"struct Parameters {{ {', '.join(members)} }}\n"
        f"const p = Parameters({', '.join(values)});\n"
    )


def _function_literal(dispatch: Dispatch) -> str:
    numbers = dispatch.function.parameters if dispatch.function else ()
    return f"vec4<f32>({', '.join(_literal(float(n)) for n in (*numbers, 0.0, 0.0, 0.0, 0.0)[:_MOST_PARAMETERS])})"


def _literal(number: float) -> str:
    """An i32 or an f32 as WGSL writes it, to the bit; 0 for an infinite one, which WGSL has no constant for."""
    if isinstance(number, int):
        if not -(2**31) < number < 2**31:
            raise UnsupportedError("a number of it is too large for a kernel's parameters")
        return str(number)
    try:
        (single,) = struct.unpack("<f", struct.pack("<f", number))
    except OverflowError:
        raise UnsupportedError("a number of it is too large for a kernel's parameters") from None
    return f"{single!r}f" if isfinite(single) else "0f"


def with_infinities(text: str, dispatch: Dispatch, own: Mapping[str, int | float]) -> str:
    """The text with infinite numbers, and what is none, made of their bits when the kernel runs."""
    made = text
    for name, value in own.items():
        if not isfinite(value):
            made = re.sub(rf"\bp\.own\.{name}\b", _bits(value), made)
    numbers = dispatch.function.parameters if dispatch.function else ()
    if not all(map(isfinite, numbers)):
        values = [_literal(float(n)) if isfinite(n) else _bits(n) for n in (*numbers, 0.0, 0.0, 0.0, 0.0)]
        made = made.replace("p.function)", f"vec4<f32>({', '.join(values[:_MOST_PARAMETERS])}))")
    return made if made == text else f"var<private> no_bits: u32;\n{made}"


def _bits(number: float) -> str:
    (bits,) = struct.unpack("<I", struct.pack("<f", number))
    return f"bitcast<f32>({bits}u | no_bits)"
