"""Every protocol that a file format or a runtime may offer to the library, and the only look-up of them.

Formats and probes are found by their entry points (`edgemem.converters`, `edgemem.probes`), so that the library knows
neither a file format nor a runtime.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeAlias, runtime_checkable

from edgemem.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from importlib.metadata import EntryPoint
    from mmap import mmap

    from numpy.typing import NDArray

    from edgemem.model.graph import Graph
    from edgemem.plans import PlanSet
    from edgemem.records.problem import Problem

__all__ = [
    "Assuming",
    "Bindings",
    "Foldable",
    "Form",
    "MicroPlanned",
    "Model",
    "OldRecordings",
    "OnnxEditor",
    "Parts",
    "Piece",
    "RecordFile",
    "Resizable",
    "RuntimeProbe",
    "find_probe",
    "load",
    "load_model",
    "onnx_editor",
    "open_bytes",
]


# A dtype (a key of `DTYPE_BITS`) and a shape.
Form: TypeAlias = "tuple[str, tuple[int, ...]]"


@dataclass(frozen=True, slots=True)
class Bindings:
    """What the user says about unknown sizes: symbols by name, whole shapes by graph input."""

    dims: Mapping[str, int] = field(default_factory=dict)
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@runtime_checkable
class Model(Protocol):
    """A model file that can carry a plan. Immutable: the `with_` methods give a new one.

    Attributes:
        suffixes: file name endings of the format.
        default_target: the target a plan is made for when none is named.
        bindings: as given to `open`.
    """

    suffixes: ClassVar[tuple[str, ...]]
    default_target: ClassVar[str]
    bindings: Bindings

    @classmethod
    def open(cls, path: Path, bindings: Bindings) -> Self:
        """Read a file. Raises ModelError if it is not one of this format."""

    def graph(self) -> Graph:
        """Its graph with every size known. Raises UnknownShapeError naming what is missing."""

    def content(self) -> bytes:
        """The file as it would be saved, without separate weight files."""

    def with_order(self, order: tuple[int, ...]) -> Self:
        """The model running its operators in another topological order."""

    def with_plan(self, plan: bytes, planset: PlanSet) -> Self:
        """The model carrying an encoded plan (and what runtimes of this format read of it), replacing an older one."""

    def plan(self) -> bytes | None:
        """The encoded plan it carries, or None."""

    def save(self, path: Path) -> None:
        """Write the file atomically: an existing file is replaced whole or stays as it is."""


@runtime_checkable
class Foldable(Protocol):
    """A model whose compressed constants can be stored plain, for runtimes that cannot decompress them."""

    def folded(self) -> Model:
        """The model with plain constants, and without the plan it had."""


@runtime_checkable
class OldRecordings(Protocol):
    """A model whose format once had another place for plans of recordings. `with_plan` leaves out what is there."""

    def old_recordings(self) -> bytes | None:
        """Plans of recordings as edgemem 0.1 wrote them (`edgemem.planfile.legacy`), or None."""


@runtime_checkable
class MicroPlanned(Protocol):
    """A model whose format has a place for offsets that TensorFlow Lite Micro obeys."""

    def graph(self) -> Graph:
        """Its graph with every size known."""

    def content(self) -> bytes:
        """The file as it would be saved."""

    def offline_metadata(self) -> bytes | None:
        """The offsets as they stand in the file, or None."""

    def offline(self) -> dict[str, int]:
        """The offsets in bytes by tensor; a tensor that the file leaves to the runtime is absent."""

    def weights(self) -> int:
        """Bytes of all constants in the file, as they are stored."""

    def plan(self) -> bytes | None:
        """The encoded plan it carries, or None."""

    def with_offsets(self, planset: PlanSet) -> Self:
        """The model with the offsets of a plan and without the plan itself.

        Raises InvalidPlanError if TensorFlow Lite Micro does not run the plan.
        """

    def without_plan(self) -> Self:
        """The model without a plan and without offsets."""

    def save(self, path: Path) -> None:
        """Write the file atomically."""


@runtime_checkable
class Resizable(Protocol):
    """A model whose bound input shapes are given to its runtime by tensor index."""

    def inputs(self) -> dict[int, tuple[int, ...]]:
        """The inputs whose shape is not the file's: tensor index -> shape."""


@runtime_checkable
class Assuming(Protocol):
    """A model whose file may leave the sizes of inputs open and yet have figures in their place."""

    def assumed_inputs(self) -> dict[str, tuple[int, ...]]:
        """The shapes that stand in the file for inputs that nobody gave a shape, by name.

        Raises UnknownShapeError, naming the flags, for figures that are no sizes.
        """


@runtime_checkable
class RecordFile(Protocol):
    """A file of usage records, without a graph."""

    suffixes: ClassVar[tuple[str, ...]]

    @classmethod
    def open(cls, path: Path, bindings: Bindings) -> Self:
        """Read a file. Raises ModelError if it is not one of this format."""

    def problem(self) -> Problem:
        """Its usage records."""


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

    def metadata(self, data: bytes | mmap, key: str) -> bytes | None:
        """The value of an entry of the file's metadata, or None."""

    def with_metadata(self, data: bytes, key: str, value: bytes) -> bytes:
        """The file with this entry at its end and no older entry of that key; every other byte stays."""

    def without_metadata(self, data: bytes, key: str) -> bytes:
        """The file without entries of that key; every other byte stays."""

    def reordered(self, data: bytes, order: Sequence[int]) -> bytes:
        """The file with its nodes in this order, Constant nodes first, every node under a name of its own."""

    def priority_order(self, data: bytes) -> tuple[int, ...]:
        """The order in which ONNX Runtime's PRIORITY_BASED execution takes the nodes of the file."""

    def completed(self, data: bytes, inputs: Sequence[str], folder: Path) -> bytes:
        """A file that ONNX Runtime saved, with its weights inside and only these graph inputs."""

    def with_forms(self, data: bytes, forms: Mapping[str, Form]) -> bytes:
        """The file with dtype and shape of these values written down; inputs and outputs among them take no others."""

    def elem_type(self, dtype: str) -> int:
        """ONNX's number for a dtype. Raises ValueError for one that it does not know."""


class RuntimeProbe(Protocol):
    """What a runtime can say about a model that no file says. Runtimes offer it in the group `edgemem.probes`."""

    def annotated(self, graph: Graph, model: Model) -> Graph:
        """The graph as the runtime runs it: workspace on its operators, tensors it keeps elsewhere marked.

        Raises ModelError if the runtime does not run models of this format, RuntimeBindError if it refuses this one.
        """

    def shapes(self, content: bytes, inputs: Mapping[int, Sequence[int]]) -> Sequence[Sequence[tuple[int, ...] | None]]:
        """The shapes of all tensors when inputs are resized, a row a subgraph; None where only a run tells.

        `inputs` are shapes by tensor index. Raises RuntimeBindError if the runtime refuses them.
        """


def load(path: str | Path, bindings: Bindings | None = None) -> Model | RecordFile:
    """Open a file with the converter for its suffix. Raises ModelError if there is none, or it cannot be read."""
    path = Path(path)
    if path.suffix == ".edgemem":
        raise ModelError(f"{path.name} is a plan without its model; name the model, or a copy that carries the plan")
    converter = _converter(path.suffix, path.name)
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise ModelError(f"no file {path}") from None
    except (OSError, ValueError) as e:  # ValueError: a null character in the name
        raise ModelError(f"cannot read {path}: {e}") from None
    if not stat.S_ISREG(mode):
        raise ModelError(f"{path} is no regular file; copy the content into one")
    opened: Model | RecordFile = converter.open(path, bindings or Bindings())
    return opened


def load_model(path: str | Path, bindings: Bindings | None = None) -> Model:
    """`load` for a file that must hold a model. Raises ModelError for usage records, too."""
    opened = load(path, bindings)
    if not isinstance(opened, Model):
        raise ModelError(f"{Path(path).name} holds usage records; this needs a model, such as .onnx or .tflite")
    return opened


def open_bytes(data: bytes, suffix: str, bindings: Bindings | None = None) -> Model:
    """A model in memory, in the format of a file name's ending. Raises ModelError if it is damaged."""
    opened: Model = _converter(suffix, f"a model in memory ({suffix})").from_bytes(data, bindings or Bindings())
    return opened


def onnx_editor() -> OnnxEditor:
    """The editor of ONNX files. Raises ModelError if there is none."""
    for entry in _entries("edgemem.editors", "onnx"):
        editor: OnnxEditor = entry.load()()
        return editor
    raise ModelError("there is no converter for ONNX; reinstall edgemem-planner")


def find_probe(name: str) -> RuntimeProbe:
    """The probe of a runtime. Raises ModelError if no runtime of that name is registered."""
    for entry in _entries("edgemem.probes", name):
        probe: RuntimeProbe = entry.load()()
        return probe
    raise ModelError(f"no runtime {name!r} is registered; reinstall edgemem-planner")


def _converter(suffix: str, what: str) -> Any:
    known: list[str] = []
    for entry in _entries("edgemem.converters"):
        converter = entry.load()
        if suffix.lower() in converter.suffixes:
            return converter
        known += converter.suffixes
    raise ModelError(f"{what}: no converter for {suffix or 'a name without suffix'}; there are {sorted(known)}")


def _entries(group: str, name: str | None = None) -> Iterable[EntryPoint]:
    """The entry points of a group, or those of one name in it."""
    from importlib.metadata import entry_points  # slow to load; a session that has its plan needs none of them

    return entry_points(group=group) if name is None else entry_points(group=group, name=name)
