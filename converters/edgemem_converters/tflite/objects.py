"""A .tflite file as objects of the classes that TensorFlow's tools generate from the schema, and back.

Changes that move or replace parts of a file work on these objects.
"""

from __future__ import annotations

import struct
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.errors import ModelError, UnsupportedError
from edgemem_converters.tflite.reader import IDENTIFIER
from edgemem_converters.tflite.schema import load_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from collections.abc import Set as AbstractSet
    from types import ModuleType

    from edgemem_converters.tflite.reader import FileModel

__all__ = ["MOST", "TIMES", "drop_buffers", "listed", "packed", "read_errors", "unpacked"]

# Limits of what a change may add to a file, so that a small file cannot become a large one.
MOST: Final = 1 << 24  # bytes, beyond TIMES the length of the file
TIMES: Final = 64


@contextmanager
def read_errors() -> Iterator[None]:
    """What the generated classes raise for a damaged file becomes ModelError.

    The strict reader does not read all fields, and the generated reader does not check them.
    """
    try:
        yield
    except (struct.error, AttributeError, IndexError, KeyError, OverflowError, TypeError, ValueError) as e:
        raise ModelError(f"damaged TFLite file: {e or type(e).__name__}") from None


def unpacked(data: bytes, file: FileModel, verb: str, participle: str) -> tuple[ModuleType, Any]:
    """The generated module and the file as an object of its ModelT. To be called within `read_errors`.

    Args:
        data: the file.
        file: what the strict reader gives for it.
        verb: what is to be done, for errors: "folding".
        participle: the same: "folded".

    Raises:
        MissingDependencyError: ai-edge-litert, which has the TFLite schema, is not installed.
        ModelError: the file is damaged.
        UnsupportedError: it holds data in a way that would be lost.
    """
    schema = load_schema(len(data), verb, participle)
    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(data, 0))
    if sum(place.size for place in file.buffers) > TIMES * len(data) + MOST:
        raise ModelError(f"damaged TFLite file: its buffers overlap so often that it cannot be {participle}")
    for buffer, place in zip(model.buffers, file.buffers, strict=True):
        if buffer.offset > 1 or buffer.size > 1:  # data behind the flatbuffer come into it
            buffer.data = np.frombuffer(data, np.uint8, place.size, place.start) if place.size else None
            buffer.offset = buffer.size = 0
    if any(op.largeCustomOptionsSize for s in model.subgraphs for op in s.operators or []):
        raise UnsupportedError(f"the model has operator options behind the flatbuffer, which {verb} would lose")
    return schema, model


def listed(vector: Any) -> list[int]:
    """The numbers of a vector that may be absent."""
    return [] if vector is None else [int(i) for i in vector]


def drop_buffers(model: Any, candidates: AbstractSet[int]) -> None:
    """Remove those of the candidates that nothing refers to, and renumber the rest."""
    used: Iterable[int] = (
        *(t.buffer for s in model.subgraphs for t in s.tensors or []),
        *(entry.buffer for entry in model.metadata or []),
        *listed(model.metadataBuffer),
    )
    gone = candidates - {0, *used}
    kept = [i for i in range(len(model.buffers)) if i not in gone]
    place = {old: new for new, old in enumerate(kept)}
    model.buffers = [model.buffers[i] for i in kept]
    for holder in (*(t for s in model.subgraphs for t in s.tensors or []), *(model.metadata or [])):
        holder.buffer = place[holder.buffer]
    if model.metadataBuffer is not None:
        model.metadataBuffer = [place[i] for i in listed(model.metadataBuffer)]


def packed(schema: ModuleType, model: Any) -> bytes:
    """The file that holds the objects."""
    import flatbuffers

    class Aligned(schema.BufferT):  # type: ignore[misc, name-defined]
        """A buffer with data at a multiple of 16, which the schema requires and the generated code does not do."""

        def __init__(self, buffer: Any) -> None:
            super().__init__(buffer.data, buffer.offset, buffer.size)

        def Pack(self, builder: Any) -> int:  # noqa: N802 -- the generated code calls it so
            data = None
            if self.data is not None and len(self.data):
                raw = bytes(bytearray(self.data))
                builder.StartVector(1, len(raw), 16)
                builder.head -= len(raw)
                builder.Bytes[builder.head : builder.head + len(raw)] = raw
                data = builder.EndVector()
            schema.BufferStart(builder)
            if data is not None:
                schema.BufferAddData(builder, data)
            return int(schema.BufferEnd(builder))

    model.buffers = [Aligned(b) for b in model.buffers]
    builder = flatbuffers.Builder(sum(len(b.data) for b in model.buffers if b.data is not None) + (1 << 16))
    builder.Finish(model.Pack(builder), IDENTIFIER)
    return bytes(builder.Output())
