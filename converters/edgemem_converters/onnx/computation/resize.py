"""Resize and Upsample of ONNX."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import numpy as np

from edgemem.model.tensor_ops import IDENTITY, Resize, Unary
from edgemem_converters.onnx.computation.operator import InexpressibleError, counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeAlias

    from edgemem.model.tensor_ops import TensorOp
    from edgemem_converters.onnx.computation.operator import OnnxOperator, Rule

    Coordinates: TypeAlias = Literal["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "tf_half_pixel"]
    Rounding: TypeAlias = Literal["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]

__all__ = ["RESIZES"]

_COORDINATES: Final[Mapping[str, Coordinates]] = {
    "half_pixel": "half_pixel",
    "pytorch_half_pixel": "pytorch_half_pixel",
    "asymmetric": "asymmetric",
    "align_corners": "align_corners",
    "tf_half_pixel_for_nn": "tf_half_pixel",
}
_ROUNDINGS: Final[Mapping[str, Rounding]] = {
    "round_prefer_floor": "round_prefer_floor",
    "round_prefer_ceil": "round_prefer_ceil",
    "floor": "floor",
    "ceil": "ceil",
}


def _upsample(call: OnnxOperator) -> list[TensorOp]:
    given = call.floats("scales") if call.opset < 9 else _scales(call, 1)
    return _resized(call, given, "asymmetric", _old_rounding(call))


def _resize(call: OnnxOperator) -> list[TensorOp]:
    if call.opset < 11:
        return _resized(call, _scales(call, 1), "asymmetric", _old_rounding(call))
    where = call.text("coordinate_transformation_mode", "half_pixel")
    rounding = call.text("nearest_mode", "round_prefer_floor")
    if call.integer("antialias", 0):
        raise InexpressibleError("against aliasing")
    if call.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise InexpressibleError("that keeps the ratio of the sides")
    given = None if call.has(3) else _scales(call, 2)
    if where == "half_pixel_symmetric" and _is_exact(call, given):
        where = "half_pixel"
    if where not in _COORDINATES:
        raise InexpressibleError(f"with coordinates of {where!r}")
    if rounding not in _ROUNDINGS:
        raise InexpressibleError(f"with rounding {rounding!r}")
    return _resized(call, given, _COORDINATES[where], _ROUNDINGS[rounding])


def _old_rounding(call: OnnxOperator) -> Rounding:
    """Before operator set 11: down where the image grows, up where it shrinks, as ONNX Runtime has it."""
    smaller = {made < given for given, made in zip(call.shape()[2:], call.made()[2:], strict=False) if made != given}
    if len(smaller) > 1 and call.text("mode", "nearest") == "nearest":
        raise InexpressibleError("that grows along one side and shrinks along the other")
    return "ceil" if smaller == {True} else "floor"


def _scales(call: OnnxOperator, position: int) -> tuple[float, ...] | None:
    """The factors of all axes; None for an empty or absent input."""
    made = call.weights(position, "scales")
    if made is None or not made.size:
        return None
    rank, factors = len(call.shape()), [float(v) for v in made.reshape(-1).tolist()]
    axes = call.integers("axes") if call.opset >= 18 else None
    places = list(range(rank)) if axes is None else [counted(axis, rank) for axis in axes]
    if len(places) != len(factors):
        raise InexpressibleError("with scales of another number than its axes")
    full = [1.0] * rank
    for place, factor in zip(places, factors, strict=True):
        full[place] = factor
    return tuple(full)


def _is_exact(call: OnnxOperator, scales: Sequence[float] | None) -> bool:
    """Whether the sizes are in the ratio of the factors."""
    return scales is None or all(a * s == b for a, b, s in zip(call.shape(), call.made(), scales, strict=False))


def _resized(
    call: OnnxOperator, scales: Sequence[float] | None, coordinates: Coordinates, rounding: Rounding
) -> list[TensorOp]:
    mode, shape, made = call.text("mode", "nearest"), call.shape(), call.made()
    if len(shape) != len(made) or (scales is not None and len(scales) != len(shape)):
        raise InexpressibleError("with an output or scales of another rank than its input")
    if shape == made and scales is None:
        return [Unary(function=IDENTITY, input=call.input(), output=call.single())]
    if mode not in ("nearest", "linear", "bilinear"):
        raise InexpressibleError(f"with mode {mode!r}")
    if len(shape) != 4 or shape[:2] != made[:2]:
        raise InexpressibleError("of other axes than height and width")
    if scales is None:
        scales = [float(np.float32(b) / np.float32(a)) for a, b in zip(shape, made, strict=True)]
    if not all(np.isfinite(s) and s > 0 for s in scales) or tuple(scales[:2]) != (1.0, 1.0):
        raise InexpressibleError("with scales that are no factors of height and width")
    return [
        Resize(
            mode="nearest" if mode == "nearest" else "linear",
            input=call.input(),
            output=call.single(),
            coordinates=coordinates,
            rounding=rounding,
            scale=(1 / scales[2], 1 / scales[3]),
        )
    ]


RESIZES: Final[Mapping[str, Rule]] = {"Resize": _resize, "Upsample": _upsample}
