"""The values of tensors, read from the model or from the files beside it: as many bytes as the tensor has, no more."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from onnx import TensorProto

from edgemem.errors import ModelError
from edgemem.model.dtypes import DTYPE_BITS, byte_size
from edgemem_converters.onnx.external_data import location
from edgemem_converters.onnx.folder_files import open_inside
from edgemem_converters.onnx.limits import MAX_ELEMENTS, MAX_FILE_BYTES, MAX_RANK, exceeds

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

__all__ = ["checked_dims", "dtype_of", "external_content", "external_size", "with_values"]

_FLOATS = {"FLOAT": "float32", "DOUBLE": "float64"}
_MOST_DIGITS = 19  # of an offset; Python refuses to read numbers of thousands


def dtype_of(elem_type: int) -> str:
    """The name of an element type of ONNX, as in `edgemem.model.dtypes`. Raises ValueError for a number without one."""
    name = str(TensorProto.DataType.Name(elem_type))
    return _FLOATS.get(name, name.lower())


def checked_dims(dims: Iterable[int], what: str) -> tuple[int, ...]:
    """The dimensions of a constant. Raises ModelError if no tensor has them."""
    made = tuple(dims)
    if len(made) > MAX_RANK:
        raise exceeds(f"{what} has {len(made)} dimensions", "MAX_RANK")
    if any(d < 0 for d in made):
        raise ModelError(f"{what} has a negative dimension: {made}")
    if prod(made) > MAX_ELEMENTS:
        raise exceeds(f"{what} has the shape {made}", "MAX_ELEMENTS")
    return made


def external_size(tensor: TensorProto) -> int:
    """The bytes that a tensor has in another file. Raises ModelError if its type has no size."""
    what = f"constant {tensor.name!r}"
    dims = checked_dims(tensor.dims, what)
    try:
        dtype = dtype_of(tensor.data_type)
    except ValueError:
        dtype = ""
    if dtype not in DTYPE_BITS:
        raise ModelError(f"{what} is damaged: it lies in another file, and elements of its type have no size")
    return byte_size(dtype, prod(dims))


def with_values(tensor: TensorProto, folder: Path) -> TensorProto:
    """The tensor itself if its values are in the model; else a copy with the values from the file in `folder`.

    Raises as `external_content`.
    """
    if tensor.data_location != TensorProto.EXTERNAL:
        return tensor
    content = external_content(tensor, folder)
    return TensorProto(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims, raw_data=content)


def external_content(tensor: TensorProto, folder: Path) -> bytes:
    """The values of a tensor that lie in a file in `folder`, as they stand there.

    Raises ModelError if the file's part for the tensor is not exactly as long as the tensor, or the file is no regular
    one in the folder; FileNotFoundError if it is not there; OSError if it cannot be read.
    """
    size = external_size(tensor)
    if size > MAX_FILE_BYTES:
        raise exceeds(f"constant {tensor.name!r} has {size:,} bytes", "MAX_FILE_BYTES")
    start = _number(tensor, "offset")
    length = _number(tensor, "length")
    if length not in (None, size):
        raise ModelError(f"constant {tensor.name!r} is damaged: it has {size} bytes, and its part of the file {length}")
    with open_inside(folder, location(tensor)) as file:
        file.seek(start or 0)
        content = file.read(size)
    if len(content) != size:
        raise ModelError(f"constant {tensor.name!r} is damaged: {location(tensor)!r} ends before it does")
    return content


def _number(tensor: TensorProto, key: str) -> int | None:
    text = next((e.value for e in tensor.external_data if e.key == key), None)
    if text is None:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS and int(text) < 2**63):
        raise ModelError(f"constant {tensor.name!r} is damaged: its {key} in the file is {text[:40]!r}")
    return int(text)
