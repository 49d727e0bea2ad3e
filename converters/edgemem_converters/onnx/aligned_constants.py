"""Moves constants in a file of external data to aligned places.

ONNX Runtime saves a packed constant right behind the plain one, wherever that ends. Its kernels read whole vectors of a
constant that they map there, and some of them crash (SIGSEGV) where these do not begin at a multiple of their size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from edgemem.errors import ModelError
from edgemem_converters.onnx.external_data import tensors

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

    from onnx import ModelProto

__all__ = ["align_constants"]

_ALIGNMENT: Final = 64  # bytes: the largest vectors
_PAGE: Final = 1 << 12  # where large constants begin, so that they have pages of their own
_LARGE: Final = 1 << 20
_BLOCK: Final = 1 << 20
_PREPACKED: Final = "prepacked_"


def align_constants(model: ModelProto, source: Path, target: Path) -> None:
    """Copy the constants of a model from one file to another, and change where the model says they lie.

    An entry `prepacked_N` is `KEY|OFFSET;LENGTH;FLAG|...`, a part for each buffer that a kernel packed.

    Raises ModelError for entries of another form.
    """
    places: dict[tuple[int, int], int] = {}
    with source.open("rb") as old, target.open("wb") as new:

        def moved(offset: int, length: int) -> int:
            if (offset, length) not in places:
                places[offset, length] = _copy(old, new, offset, length)
            return places[offset, length]

        try:
            for tensor in tensors(model):
                entries = {entry.key: entry for entry in tensor.external_data}
                if "offset" in entries:
                    place = moved(int(entries["offset"].value), int(entries["length"].value))
                    entries["offset"].value = str(place)
                for key, entry in entries.items():
                    if key.startswith(_PREPACKED):
                        name, *buffers = entry.value.split("|")
                        parts = [buffer.split(";") for buffer in buffers if buffer]
                        made = [f"{moved(int(at), int(size))};{size};{flag}" for at, size, flag in parts]
                        entry.value = "|".join([name, *made])
        except (KeyError, ValueError) as e:
            raise ModelError(f"ONNX Runtime saved its constants in an unknown form: {e}") from None


def _copy(old: BinaryIO, new: BinaryIO, offset: int, length: int) -> int:
    step = _PAGE if length >= _LARGE else _ALIGNMENT
    place = -(-new.tell() // step) * step
    new.write(bytes(place - new.tell()))
    old.seek(offset)
    left = length
    while left:
        block = old.read(min(_BLOCK, left))
        if not block:
            raise ValueError("the file is too short")
        new.write(block)
        left -= len(block)
    return place
