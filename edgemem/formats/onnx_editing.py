"""What executors of ONNX files need done to a file: the protocols of `edgemem_converters.onnx.editor`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.model.graph import Graph

__all__ = ["Form", "OnnxEditor", "OpenForm", "Parts", "Piece"]

# A dtype (a key of `DTYPE_BITS`) and a shape; an open one has symbols by name, and None for what is not said.
Form: TypeAlias = "tuple[str, tuple[int, ...]]"
OpenForm: TypeAlias = "tuple[str, tuple[int | str | None, ...]]"


class Piece(Protocol):
    """One operator of an ONNX model as a model of its own.

    Attributes:
        name: unique in the model. type: as in `Op.type`.
        inputs: what it reads that is no constant, each once.
        outputs: what it writes.
        constant_but_first: whether all that it reads besides its first input is constant.
        model: the file's bytes.
        shared: constants that are not in the bytes; the runtime is given them (`Parts.constant`).
    """

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def inputs(self) -> tuple[str, ...]: ...
    @property
    def outputs(self) -> tuple[str, ...]: ...
    @property
    def constant_but_first(self) -> bool: ...
    @property
    def model(self) -> bytes: ...
    @property
    def shared(self) -> tuple[str, ...]: ...


class Parts(Protocol):
    """An ONNX model taken apart. Nodes are counted without Constant nodes, as `graph().ops` are.

    Attributes:
        names: of the nodes, each unique.
    """

    names: tuple[str, ...]

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of what has to be fed."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the graph's outputs."""

    @property
    def node_outputs(self) -> tuple[tuple[str, ...], ...]:
        """What each node writes; "" for an absent output."""

    def refusals(self) -> tuple[str, ...]:
        """Why the model cannot be run in pieces; () if it can as far as the file shows."""

    def input_forms(self) -> dict[str, tuple[str, tuple[int | str | None, ...]]]:
        """Dtype and declared shape of every input; symbols by name, None for what is not said."""

    def named(self) -> bytes:
        """The model with every node called by its name in `names`."""

    def check_order(self, order: tuple[int, ...]) -> None:
        """Raise ModelError unless it is a topological order of the nodes."""

    def graph(self, forms: Mapping[str, Form]) -> Graph:
        """The graph with control-flow nodes whole. `forms` says what every input and result is."""

    def constant(self, name: str) -> NDArray[Any]:
        """The values of an initializer."""

    def piece(self, number: int, forms: Mapping[str, Form]) -> Piece:
        """A node as a model. `forms` says what it reads and writes."""


class OnnxEditor(Protocol):
    """What executors of ONNX files need done to a file. Offered by the entry point `onnx` of `edgemem.editors`.

    Files are bytes, or mapped where nothing is changed. Every method raises ModelError for bytes that are no ONNX
    model.
    """

    def parts(self, data: bytes, folder: Path) -> Parts:
        """The model taken apart; weights in other files lie in `folder`."""

    def metadata(self, data: bytes, key: str) -> bytes | None:
        """The value of an entry of the file's metadata, or None."""

    def with_metadata(self, data: bytes, key: str, value: bytes) -> bytes:
        """The file with this entry at its end and no older entry of that key; every other byte stays."""

    def without_metadata(self, data: bytes, key: str) -> bytes:
        """The file without entries of that key; every other byte stays."""

    def reordered(self, data: bytes, order: Sequence[int]) -> bytes:
        """The file with its nodes in this order, Constant nodes first, every node under a name of its own."""

    def prioritised(self, data: bytes) -> bytes:
        """What `reordered` gave, in the order in which ONNX Runtime's PRIORITY_BASED execution takes its nodes."""

    def completed(self, data: bytes, inputs: Sequence[str], folder: Path) -> bytes:
        """A file that ONNX Runtime saved, with its weights inside and only these graph inputs."""

    def with_forms(self, data: bytes, forms: Mapping[str, OpenForm]) -> bytes:
        """The file with dtype and shape of these values written down; inputs and outputs among them take no others."""

    def align_constants(self, data: bytes, source: Path, target: Path) -> bytes:
        """The file with its constants at aligned places, copied from one file of external data to another.

        The name of the external data stays.
        """

    def weight_files(self, data: bytes) -> tuple[str, ...]:
        """The names of all files that constants lie in besides the model's, those of bodies and attributes included."""

    def computation_digest(self, data: bytes) -> str:
        """A digest that is the same for graphs that differ in the names of results and the order of nodes alone.

        Constants in other files count by where they lie there.
        """

    def elem_type(self, dtype: str) -> int:
        """ONNX's number for a dtype. Raises ValueError for one that it does not know."""
