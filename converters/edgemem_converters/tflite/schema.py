"""The classes that TensorFlow's own tools generate from the schema, with a limit on what they read.

They unpack a whole file into objects without checking it. In a hostile file, parts overlap: thousands of tables refer
to one long vector, which each of them would copy. So the tables of this copy of the classes count what they read, and
stop at a few times the length of the file.
"""

from __future__ import annotations

from functools import cache
from importlib.abc import InspectLoader
from importlib.util import find_spec
from types import CodeType, ModuleType, SimpleNamespace
from typing import Any, Final

from flatbuffers import encode, number_types, packer, util
from flatbuffers.table import Table

from edgemem.errors import MissingDependencyError, ModelError

__all__ = ["load_schema"]

_NAME: Final = "ai_edge_litert.schema_py_generated"
_TIMES: Final = 4  # valid files are read about once
_TABLE: Final = 8  # bytes that a table counts for, whatever is in it


def load_schema(length: int, verb: str, participle: str) -> ModuleType:
    """A copy of the generated module for reading one file of `length` bytes, which is `folding` it: it is `folded`.

    Its readers raise ModelError once they have read more than a few times that many bytes. Raises
    MissingDependencyError if ai-edge-litert, which has the module, is not installed.
    """
    code = _code()
    if code is None:
        raise MissingDependencyError("ai-edge-litert", purpose=f"{verb} a .tflite file")
    module = ModuleType(_NAME)
    exec(code, module.__dict__)  # noqa: S102 -- what an import does, without compiling the file each time
    table = SimpleNamespace(Table=_counting(_TIMES * length + (1 << 12), participle))
    module.__dict__["flatbuffers"] = SimpleNamespace(
        table=table, encode=encode, number_types=number_types, packer=packer, util=util
    )
    return module


@cache
def _code() -> CodeType | None:
    """The generated module, compiled once; None if it is not installed. Without its bytecode that takes a second."""
    try:
        spec = find_spec(_NAME)
    except ImportError:
        return None
    return spec.loader.get_code(_NAME) if spec is not None and isinstance(spec.loader, InspectLoader) else None


def _counting(most: int, participle: str) -> Any:
    """A class of tables that together read `most` bytes at most."""
    left = most

    def spend(count: int) -> None:
        nonlocal left
        left -= count
        if left < 0:
            raise ModelError(
                f"damaged TFLite file: its parts overlap so often that it cannot be {participle}; it lists more than "
                f"{most:,} bytes"
            )

    class Counting(Table):  # type: ignore[misc]
        __slots__ = ()

        def __init__(self, buffer: Any, position: int) -> None:
            spend(_TABLE)
            super().__init__(buffer, position)

        def Indirect(self, off: int) -> Any:  # noqa: N802 -- the generated code calls these by these names
            spend(4)
            return super().Indirect(off)

        def String(self, off: int) -> Any:  # noqa: N802
            text = super().String(off)
            spend(len(text))
            return text

        def GetVectorAsNumpy(self, flags: Any, off: int) -> Any:  # noqa: N802
            spend(self.VectorLen(off) * flags.bytewidth)
            return super().GetVectorAsNumpy(flags, off)

    return Counting
