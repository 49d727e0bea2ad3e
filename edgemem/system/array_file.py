"""Reading an array from a .npy file that anybody may have made: no code in it runs, and nothing waits for it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.lib import format as npy

from edgemem.system.regular_files import open_regular

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["read_array"]

_HEADERS: Final = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
_ARCHIVE: Final = b"PK"  # begins an .npz file


def read_array(path: Path) -> NDArray[Any]:
    """The array in a .npy file.

    Raises OSError for what is no regular file, and ValueError for one that holds no array, or fewer bytes than the
    array has.
    """
    with open_regular(path) as (file, size):
        if file.read(len(_ARCHIVE)) == _ARCHIVE:
            raise ValueError("it is an archive, such as .npz; give a .npy file, which has one array")
        file.seek(0)
        try:
            version = npy.read_magic(file)
            shape, is_fortran, dtype = _HEADERS[version](file)
        except KeyError:
            raise ValueError(f"version {version[0]}.{version[1]} of .npy is not read") from None
        except Exception as e:  # noqa: BLE001 - numpy lets those of Python's own parser through
            raise ValueError(f"it is no .npy file ({type(e).__name__}: {' '.join(str(e).split())[:200]})") from None
        if dtype.hasobject:
            raise ValueError("it holds objects of Python, which are not read")
        count = math.prod(shape)
        if min(shape, default=0) < 0 or not dtype.itemsize or count * dtype.itemsize > size - file.tell():
            raise ValueError(f"it is no .npy file: it has no room for an array of {'x'.join(map(str, shape))}")
        values = np.fromfile(file, dtype, count)
        return values.reshape(shape, order="F" if is_fortran else "C")
