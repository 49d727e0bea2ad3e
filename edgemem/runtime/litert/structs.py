"""The C structures of LiteRT that edgemem reads. LiteRT does not promise their layout: `probe` checks it."""

from __future__ import annotations

import ctypes
from typing import Any

__all__ = [
    "INTS",
    "INVOKE",
    "PREPARE",
    "NativeContext",
    "NativeDelegate",
    "NativeNode",
    "NativeTensor",
    "Registration",
    "ints",
]

INTS = ctypes.POINTER(ctypes.c_int)


class NativeNode(ctypes.Structure):
    _fields_ = [("inputs", INTS), ("outputs", INTS), ("intermediates", INTS), ("temporaries", INTS)]


class NativeTensor(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("data", ctypes.c_void_p),
        ("dims", INTS),
        ("scale", ctypes.c_float),
        ("zero_point", ctypes.c_int),
        ("allocation_type", ctypes.c_int),
        ("bytes", ctypes.c_size_t),
        ("allocation", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("delegate", ctypes.c_void_p),
        ("buffer_handle", ctypes.c_int),
        ("data_is_stale", ctypes.c_bool),
        ("is_variable", ctypes.c_bool),
        ("quantization_type", ctypes.c_int),
        ("quantization", ctypes.c_void_p),
        ("sparsity", ctypes.c_void_p),
        ("dims_signature", ctypes.c_void_p),
    ]


class NativeContext(ctypes.Structure):
    _fields_ = [
        ("tensors_size", ctypes.c_size_t),
        ("get_execution_plan", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(INTS))),
        ("tensors", ctypes.POINTER(NativeTensor)),
        ("impl", ctypes.c_void_p),
        ("resize_tensor", ctypes.c_void_p),
        ("report_error", ctypes.c_void_p),
        ("add_tensors", ctypes.c_void_p),
        (
            "get_node_and_registration",
            ctypes.CFUNCTYPE(
                ctypes.c_int,
                ctypes.c_void_p,
                ctypes.c_int,
                ctypes.POINTER(ctypes.POINTER(NativeNode)),
                ctypes.POINTER(ctypes.c_void_p),
            ),
        ),
    ]


PREPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class NativeDelegate(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("prepare", PREPARE),
        ("copy_from", ctypes.c_void_p),
        ("copy_to", ctypes.c_void_p),
        ("free", ctypes.c_void_p),
        ("flags", ctypes.c_int64),
        ("opaque", ctypes.c_void_p),
    ]


INVOKE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class Registration(ctypes.Structure):
    """The first fields of a TfLiteRegistration; LiteRT has one for each node."""

    _fields_ = [
        ("init", ctypes.c_void_p),
        ("free", ctypes.c_void_p),
        ("prepare", ctypes.c_void_p),
        ("invoke", ctypes.c_void_p),
        ("profiling_string", ctypes.c_void_p),
        ("builtin_code", ctypes.c_int32),
    ]


def ints(array: Any) -> tuple[int, ...]:
    """A TfLiteIntArray: its length, then its items."""
    return tuple(array[1 : 1 + array[0]]) if array else ()
