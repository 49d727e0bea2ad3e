"""Pickles of plain data: None, booleans, numbers, texts, lists, tuples, dictionaries.

A pickle that names anything else is refused before that is imported, so that nothing in it runs.
A pickle may still take any memory and time. Who reads one from a stranger does so in a process with limits
(`edgemem_converters.snapshot.process`). Values may be shared, or contain themselves.
"""

from __future__ import annotations

import io
import pickle
from typing import Any, Never

from edgemem.errors import ModelError
from edgemem.system.text import short_repr

__all__ = ["read_plain"]


class _PlainUnpickler(pickle.Unpickler):
    """Builds what needs no name."""

    def find_class(self, module: str, name: str) -> Never:
        raise ModelError(
            f"it names {short_repr(f'{module}.{name}')}, which may run code, and a snapshot holds plain data; do not "
            "load it"
        )

    def persistent_load(self, pid: object) -> Never:
        raise ModelError(f"it refers to {short_repr(str(pid))} outside of it, and a snapshot holds plain data")


def read_plain(data: bytes) -> Any:
    """The value in a pickle. Raises ModelError if it names anything, or is damaged; MemoryError if it is too large."""
    try:
        return _PlainUnpickler(io.BytesIO(data)).load()
    except (ModelError, MemoryError):
        raise
    except Exception as e:  # noqa: BLE001 - a damaged pickle makes the reader raise any of them
        raise ModelError(f"it is no pickle, or a damaged one: {short_repr(str(e) or type(e).__name__)}") from None
