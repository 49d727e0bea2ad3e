"""The constants of an ONNX model: initializers and Constant nodes, with their values if they can be sizes."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from edgemem.errors import ModelError
from edgemem_converters.onnx.limits import MAX_EXTERNAL_VALUE_BYTES, Budget
from edgemem_converters.onnx.weights import checked_dims, external_size, with_values

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray
    from onnx import NodeProto, SparseTensorProto

__all__ = ["SMALL", "Constant", "ConstantReader", "may_be_size"]

SMALL = 4096  # elements: what can be a shape or a list of axes; larger constants' values are never looked at

_FOLDABLE_TYPES = frozenset(
    (
        *(TensorProto.BOOL, TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE),
        *(TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64),
        *(TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64),
    )
)
# A Constant node's attribute -> the element type, and the field the value is in.
_VALUE_ATTRIBUTES = {
    "value_float": (TensorProto.FLOAT, "f"),
    "value_floats": (TensorProto.FLOAT, "floats"),
    "value_int": (TensorProto.INT64, "i"),
    "value_ints": (TensorProto.INT64, "ints"),
    "value_string": (TensorProto.STRING, "s"),
    "value_strings": (TensorProto.STRING, "strings"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Constant:
    """An initializer or the output of a Constant node: its element type, dimensions, and values if they are few."""

    elem_type: int
    dims: tuple[int, ...]
    values: NDArray[np.generic] | None = None


def may_be_size(constant: Constant) -> bool:
    """Whether a constant is a small one of integers, from which sizes may follow."""
    return prod(constant.dims) <= SMALL and constant.elem_type in (TensorProto.INT32, TensorProto.INT64)


class ConstantReader:
    """Reads the constants of one model, whose weight files lie in `folder`. Every method raises ModelError for damage.

    A small constant in a file that is not there has no values.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._external = Budget(
            "MAX_EXTERNAL_VALUE_BYTES",
            MAX_EXTERNAL_VALUE_BYTES,
            "the model's small constants in other files have too many bytes",
        )

    def from_tensor(self, tensor: TensorProto) -> Constant:
        """An initializer, or the tensor in a Constant node."""
        dims = checked_dims(tensor.dims, f"constant {tensor.name!r}")
        if prod(dims) > SMALL or tensor.data_type not in _FOLDABLE_TYPES:
            return Constant(tensor.data_type, dims)
        if tensor.data_location == TensorProto.EXTERNAL:
            self._external.spend(external_size(tensor))
        try:
            values = numpy_helper.to_array(with_values(tensor, self._folder))
        except FileNotFoundError:
            return Constant(tensor.data_type, dims)
        except (ValueError, TypeError, OSError, RuntimeError, onnx.checker.ValidationError) as e:
            raise ModelError(f"constant {tensor.name!r} is damaged: {e}") from None
        return Constant(tensor.data_type, dims, values)

    def from_sparse(self, tensor: SparseTensorProto, what: str) -> Constant:
        """A sparse tensor, which has no values here."""
        return Constant(tensor.values.data_type, checked_dims(tensor.dims, what))

    def from_node(self, node: NodeProto) -> Constant:
        """The output of a Constant node."""
        for a in node.attribute:
            if a.name == "value" and a.HasField("t"):
                return self.from_tensor(a.t)
            if a.name == "sparse_value":
                return self.from_sparse(a.sparse_tensor, f"{node.output[0]!r}")
            if a.name in _VALUE_ATTRIBUTES:
                elem_type, where = _VALUE_ATTRIBUTES[a.name]
                values = getattr(a, where)
                dims = (len(values),) if a.name.endswith("s") else ()
                if elem_type == TensorProto.STRING or prod(dims) > SMALL:
                    return Constant(elem_type, dims)
                dtype = np.float32 if elem_type == TensorProto.FLOAT else np.int64
                return Constant(elem_type, dims, np.array(values, dtype=dtype))
        raise ModelError(f"Constant {node.output[0]!r} has no value")
