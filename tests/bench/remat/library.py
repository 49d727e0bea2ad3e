"""The simulator of rematerialisation (kernels/tests/remat_simulator.h), compiled when it is first asked for."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pytest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Column = NDArray[np.int64]

__all__ = ["cheapest_window", "simulate_remat"]

_KERNELS: Final = Path(__file__).resolve().parents[3] / "kernels"
_COUNTERS: Final = 13
_ERROR_BYTES: Final = 256
_INT64S: Final = ctypes.POINTER(ctypes.c_int64)


@cache
def _library() -> Any:
    """The compiled library. It is kept in the folder of temporary files under the digest of its sources."""
    sources = [*sorted((_KERNELS / "remat").glob("*.cpp"))]
    sources += [_KERNELS / "tests" / f"remat_{name}.cpp" for name in ("library", "simulator", "log_check")]
    headers = [*(_KERNELS / "remat").glob("*.h"), *(_KERNELS / "tests").glob("remat_*.h")]
    digest = sha256(b"".join(file.read_bytes() for file in [*sources, *sorted(headers)])).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"edgemem-remat-simulator-{os.getuid()}-{digest}.so"
    if not path.exists() or path.stat().st_uid != os.getuid():
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            made = Path(folder) / path.name
            compiler = os.environ.get("CXX", "c++")
            if shutil.which(compiler) is None:
                pytest.skip("needs gcc and g++")
            command = [compiler, "-std=c++20", "-O2", "-fPIC", "-shared", f"-I{_KERNELS}", *map(str, sources)]
            subprocess.run([*command, "-o", str(made)], check=True)
            made.replace(path)
    library = ctypes.CDLL(str(path))
    library.simulate_remat.argtypes = [
        *(ctypes.POINTER(_INT64S), _INT64S, ctypes.c_int64, ctypes.c_int64, _INT64S, ctypes.c_double, ctypes.c_int),
        *(_INT64S, ctypes.POINTER(ctypes.c_double), ctypes.POINTER(_INT64S), _INT64S, ctypes.c_char_p),
    ]
    library.free_history.argtypes = [_INT64S]
    library.free_history.restype = None
    library.cheapest_window.argtypes = [
        *(_INT64S, ctypes.POINTER(ctypes.c_double), _INT64S, ctypes.c_int64, ctypes.c_int64, ctypes.c_int, _INT64S)
    ]
    library.cheapest_window.restype = None
    return library


def simulate_remat(*given: Any, with_history: bool = False) -> tuple[Column, float, Column]:
    """Run an operator log under a budget.

    Args:
        given: the nine columns of an `OperatorLog`, then the bytes of the budget, the alignment, the seven rules of a
            policy and the limit.
        with_history: whether to list what happened.

    Returns:
        Thirteen counters (how it ended: 0 done, 1 out of memory, 2 thrashing; the event that could not be finished, the
        bytes that found no room, recomputed cost and calls, requests, shortages, searches, evaluations, nanoseconds of
        searches, evictions, evicted bytes, peak), the mean fragmentation, and flat rows of step, subject, address.

    Raises ValueError for a log that contradicts itself, and for settings that are out of range.
    """
    *columns, budget, alignment, rules, limit = given
    columns = [np.ascontiguousarray(column, np.int64) for column in columns]
    rules = np.ascontiguousarray(rules, np.int64)
    pointers = (_INT64S * len(columns))(*(_pointer(column) for column in columns))
    lengths = np.array([len(column) for column in columns], np.int64)
    counters = np.zeros(_COUNTERS, np.int64)
    fragmentation, history, length = ctypes.c_double(), _INT64S(), ctypes.c_int64()
    error = ctypes.create_string_buffer(_ERROR_BYTES)
    library = _library()
    failed = library.simulate_remat(
        *(pointers, _pointer(lengths), budget, alignment, _pointer(rules), limit, with_history, _pointer(counters)),
        *(ctypes.byref(fragmentation), ctypes.byref(history), ctypes.byref(length), error),
    )
    if failed:
        raise ValueError(error.value.decode())
    rows = np.zeros(0, np.int64)
    if history:
        rows = np.ctypeslib.as_array(history, (length.value,)).copy()
        library.free_history(history)
    return counters, fragmentation.value, rows


def cheapest_window(
    size: Column, heuristic: NDArray[np.float64], is_free: Column, request: int, per_byte: bool = False
) -> tuple[int, int]:
    """The first and the last block of the cheapest window for a request (kernels/remat/window.h), or (-1, -1).

    A heuristic below 0: the block cannot be evicted. `is_free` holds 0 and 1.
    """
    window = np.zeros(2, np.int64)
    heuristics = heuristic.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
    _library().cheapest_window(
        _pointer(size), heuristics, _pointer(is_free), len(size), request, per_byte, _pointer(window)
    )
    return int(window[0]), int(window[1])


def _pointer(column: Column) -> Any:
    return column.ctypes.data_as(_INT64S)
