"""Bytes at an address, on any device, as an OrtValue: through DLPack, the one way in which ONNX Runtime takes them.

The layouts are those of dlpack.h, version 0. ONNX Runtime frees a structure that it took with the function named in it.
"""

from __future__ import annotations

import ctypes
from typing import Any, Final, NamedTuple

from edgemem.errors import RuntimeBindError
from edgemem.runtime.onnxruntime.baked_file import onnxruntime

__all__ = ["CODES", "bytes_at"]

# Device types of DLPack, by ONNX Runtime's names.
CODES: Final = {"cpu": 1, "cuda": 2}
_UNSIGNED: Final = 1
_NAME: Final = b"dltensor"


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("dim", ctypes.c_int64),  # what `shape` points to; not of dlpack.h
    )


class _Python(NamedTuple):
    """Functions of Python's C API, typed."""

    allocate: Any
    free: int
    capsule: Any


def _python() -> _Python:
    api = ctypes.pythonapi
    allocate = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_size_t)(("PyMem_RawMalloc", api))
    capsule = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
        ("PyCapsule_New", api)
    )
    free = ctypes.cast(api.PyMem_RawFree, ctypes.c_void_p).value
    assert free is not None
    return _Python(allocate, free, capsule)


def bytes_at(address: int, size: int, device: str, number: int) -> Any:
    """An OrtValue of `size` unsigned bytes at an address of a device. The memory must outlive it.

    Raises RuntimeBindError for an ONNX Runtime without DLPack.
    """
    value = onnxruntime().OrtValue
    if not hasattr(value, "from_dlpack"):
        raise RuntimeBindError("this ONNX Runtime takes no memory of a device by address; install a newer one")
    python = _python()
    place = python.allocate(ctypes.sizeof(_Tensor))
    if not place:
        raise MemoryError
    shape = place + _Tensor.dim.offset
    made = _Tensor(address, CODES[device], number, 1, _UNSIGNED, 8, 1, shape, None, 0, None, python.free, size)
    ctypes.memmove(place, ctypes.byref(made), ctypes.sizeof(made))
    return value.from_dlpack(python.capsule(place, _NAME, None))
