"""The changes to ONNX files that executors need (`edgemem.formats.OnnxEditor`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import ModelProto

from edgemem.errors import ModelError
from edgemem_converters.onnx import file_edits as edit
from edgemem_converters.onnx.aligned_constants import align_constants
from edgemem_converters.onnx.computation_digest import computation_digest
from edgemem_converters.onnx.drawn_names import settle_names
from edgemem_converters.onnx.external_data import locations
from edgemem_converters.onnx.parts import ModelParts, elem_type
from edgemem_converters.onnx.wire import metadata, with_metadata, without_metadata

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from edgemem.formats import OpenForm
    from edgemem.planfile.protobuf import Content

__all__ = ["Editor"]


class Editor:
    """Reads and changes ONNX files as bytes. It has no state."""

    def parts(self, data: bytes, folder: Path) -> ModelParts:
        """The model taken apart; weights in other files lie in `folder`. Raises ModelError if it is damaged."""
        return ModelParts(data, folder)

    def metadata(self, data: Content, key: str) -> bytes | None:
        """The value of an entry of the file's metadata, or None. Raises ModelError for bytes that are no ONNX model."""
        return metadata(data, key)

    def with_metadata(self, data: bytes, key: str, value: bytes) -> bytes:
        """The file with this entry at its end and no older entry of that key; every other byte stays."""
        return with_metadata(data, key, value)

    def without_metadata(self, data: bytes, key: str) -> bytes:
        """The file without entries of that key; every other byte stays."""
        return without_metadata(data, key)

    def reordered(self, data: bytes, order: Sequence[int]) -> bytes:
        """The file with its nodes in this order, Constant nodes first, every node under a name of its own."""
        return edit.reordered(data, order)

    def prioritised(self, data: bytes) -> bytes:
        """What `reordered` gave, in the order in which ONNX Runtime's PRIORITY_BASED execution takes its nodes."""
        return edit.prioritised(data)

    def completed(self, data: bytes, inputs: Sequence[str], folder: Path) -> bytes:
        """A file that ONNX Runtime saved, with its weights inside and only these graph inputs."""
        return edit.completed(data, inputs, folder)

    def with_forms(self, data: bytes, forms: Mapping[str, OpenForm]) -> bytes:
        """The file with dtype and shape of these values declared."""
        return edit.with_forms(data, forms)

    def align_constants(self, data: bytes, source: Path, target: Path) -> bytes:
        """A file that ONNX Runtime saved, with its constants at aligned places, copied from one file to another."""
        try:
            model = ModelProto.FromString(data)
        except DecodeError as e:
            raise ModelError(f"the graph is damaged: {e}") from None
        align_constants(model, source, target)
        settle_names(model.graph)
        return bytes(model.SerializeToString(deterministic=True))

    def weight_files(self, data: bytes) -> tuple[str, ...]:
        """The names of all files that constants lie in besides the model's, those of bodies and attributes included."""
        try:
            return locations(ModelProto.FromString(data))
        except DecodeError as e:
            raise ModelError(f"the model is damaged: {e}") from None

    def computation_digest(self, data: bytes) -> str:
        """A digest that is the same for graphs that differ in the names of results and the order of nodes alone."""
        try:
            return computation_digest(ModelProto.FromString(data))
        except (DecodeError, RecursionError) as e:
            raise ModelError(f"the graph is damaged: {e}") from None

    def elem_type(self, dtype: str) -> int:
        """ONNX's number for a dtype. Raises ValueError for one that it does not know."""
        return elem_type(dtype)
