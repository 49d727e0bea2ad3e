"""Every protocol that a file format or a runtime may offer to the library, and the only look-up of them.

Formats and probes are found by their entry points (`edgemem.converters`, `edgemem.probes`), so that the library knows
neither a file format nor a runtime.
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, runtime_checkable

from edgemem.errors import ModelError
from edgemem.formats.one_operator import OneOperator, OneOperatorWriter, OperandValue
from edgemem.formats.onnx_editing import Form, OnnxEditor, OpenForm, Parts, Piece
from edgemem.model.bindings import Bindings
from edgemem.system.entry_points import entries

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from edgemem.model.graph import Graph
    from edgemem.model.rewrite import Rewrite
    from edgemem.model.states import StatePair
    from edgemem.model.tensor_ops import TensorProgram
    from edgemem.plans import PlanSet
    from edgemem.records.problem import Problem
    from edgemem.trace.history import MemoryHistory

__all__ = [
    "Assuming",
    "Bindings",
    "Computable",
    "Foldable",
    "Form",
    "MicroPlanned",
    "Model",
    "Noted",
    "OneOperator",
    "OneOperatorWriter",
    "OnnxEditor",
    "OpenForm",
    "OperandValue",
    "Parts",
    "Piece",
    "Ranged",
    "RecordFile",
    "Resizable",
    "Rewritable",
    "RuntimeProbe",
    "Stateful",
    "TraceFile",
    "Weighted",
    "find_probe",
    "load",
    "load_histories",
    "load_model",
    "onnx_editor",
    "open_bytes",
    "weight_files",
    "write_operator",
]


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

    def save(self, path: str | Path) -> None:
        """Write the file atomically: an existing file is replaced whole or stays as it is."""


@runtime_checkable
class Weighted(Protocol):
    """A format whose models may keep weights in files beside them."""

    @classmethod
    def weight_files(cls, data: bytes) -> tuple[str, ...]:
        """Names of files, from the model's folder, that may have weights of the model with these bytes.

        All that have some are among them; others need not be there.
        """


@runtime_checkable
class Noted(Protocol):
    """A model whose file has room for notes beside its plan, by name. Plans and digests do not depend on them."""

    def note(self, name: str) -> bytes | None:
        """The note of this name, or None. Raises ModelError where the file has several."""

    def with_note(self, name: str, note: bytes) -> Model:
        """The model with a note in UTF-8, replacing an older one; its plan stays."""


@runtime_checkable
class Foldable(Protocol):
    """A model whose compressed constants can be stored plain, for runtimes that cannot decompress them."""

    def folded(self) -> Model:
        """The model with plain constants, and without the plan it had."""


@runtime_checkable
class Computable(Protocol):
    """A model whose operators an executor of our own can run."""

    def graph(self) -> Graph:
        """Its graph with every size known."""

    def program(self) -> TensorProgram:
        """Its operators as tensor operations, with the values of constants. Raises ModelError for damaged values."""

    def operator_model(self, number: int) -> bytes:
        """A file of this format with one operator of the graph, to run it elsewhere.

        Its inputs are the operator's inputs that are no constants, in order and each once; its outputs the operator's.
        Raises UnsupportedError for an operator with bodies.
        """


@runtime_checkable
class Rewritable(Protocol):
    """A model whose operators a pass may replace."""

    def rewritten(self, rewrite: Rewrite) -> Model:
        """The model with the operators of a rewrite of its graph, without the plan it had.

        Raises UnsupportedError for an operator that the format cannot write.
        """


@runtime_checkable
class Ranged(Protocol):
    """A model whose format has symbolic dimensions, which may have a range of values."""

    def graphs(self, dims: Iterable[Mapping[str, int]]) -> Iterator[Graph]:
        """Its graph with every size known, for each of these values of its symbols in turn.

        The input shapes are those of its bindings. Raises as `graph`.
        """


@runtime_checkable
class Stateful(Protocol):
    """A model whose format can tell which inputs are outputs of the run before, such as a decoder's caches."""

    bindings: Bindings

    def states(self, patterns: Mapping[str, str]) -> tuple[StatePair, ...]:
        """The states that these patterns name (`edgemem.targets.match_states`); without any, all that are found.

        Raises ModelError for a pattern that fits nothing.
        """

    def with_states(self, pairs: Sequence[StatePair]) -> Model:
        """The model with a note of its states; those that grow write into a buffer of fixed capacity afterwards.

        The outputs stay equal. Raises UnsupportedError for a state that the format cannot change so.
        """

    def noted_states(self) -> tuple[StatePair, ...]:
        """The states in the model's note; () without one. Raises ModelError for a damaged note."""

    def declared(self) -> dict[str, tuple[str, tuple[int | str | None, ...]]]:
        """Dtype and dimensions that inputs and outputs declare; symbols by name, None for what is open."""

    def outline(self) -> bytes:
        """The file without the values of its large weights, to plan it for many sizes."""


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

    def save(self, path: str | Path) -> None:
        """Write the file atomically."""


@runtime_checkable
class Compiled(Protocol):
    """A model that may be compiled for a processor, with the places of its tensors in its operators."""

    def compiled_graph(self) -> Graph | None:
        """Its graph if it is, which is for proofs alone; otherwise None."""


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


@runtime_checkable
class TraceFile(Protocol):
    """A file in which an allocator noted what programs asked it for. Formats offer it in the group `edgemem.traces`."""

    suffixes: ClassVar[tuple[str, ...]]

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read a file. Raises ModelError if it is not one of this format."""

    def histories(self) -> tuple[MemoryHistory, ...]:
        """What each device was asked for, by number."""


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


def load_histories(path: str | Path) -> tuple[MemoryHistory, ...]:
    """What each device was asked for, from a file of an allocator. Raises ModelError if nothing here can read it."""
    path = Path(path)
    known: list[str] = []
    for entry in entries("edgemem.traces"):
        converter: type[TraceFile] = entry.load()
        if path.suffix.lower() in converter.suffixes:
            return converter.open(path).histories()
        known += converter.suffixes
    raise ModelError(f"{path.name}: nothing here reads traces in {path.suffix or 'files without suffix'}; use {known}")


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


def weight_files(path: Path) -> tuple[str, ...]:
    """Names of files beside a model that may have weights of it (`Weighted`). Raises OSError if it cannot be read."""
    for entry in entries("edgemem.converters"):
        converter = entry.load()
        if path.suffix.lower() in converter.suffixes and isinstance(converter, Weighted):
            return converter.weight_files(path.read_bytes())
    return ()


def write_operator(operator: OneOperator, places: tuple[int, ...], suffix: str) -> bytes:
    """A model of one operator, in the format of a file name's ending (`OneOperatorWriter.write_operator`)."""
    converter = _converter(suffix, f"a model of {operator.type} ({suffix})")
    if not isinstance(converter, OneOperatorWriter):
        raise ModelError(f"models of one operator are not written as {suffix}; use .tflite")
    return converter.write_operator(operator, places)


def onnx_editor() -> OnnxEditor:
    """The editor of ONNX files. Raises ModelError if there is none."""
    for entry in entries("edgemem.editors", "onnx"):
        editor: OnnxEditor = entry.load()()
        return editor
    raise ModelError("there is no converter for ONNX; reinstall edgemem-planner")


def find_probe(name: str) -> RuntimeProbe:
    """The probe of a runtime. Raises ModelError if no runtime of that name is registered."""
    for entry in entries("edgemem.probes", name):
        probe: RuntimeProbe = entry.load()()
        return probe
    raise ModelError(f"no runtime {name!r} is registered; reinstall edgemem-planner")


def _converter(suffix: str, what: str) -> Any:
    known: list[str] = []
    for entry in entries("edgemem.converters"):
        converter = entry.load()
        if suffix.lower() in converter.suffixes:
            return converter
        known += converter.suffixes
    raise ModelError(f"{what}: no converter for {suffix or 'a name without suffix'}; there are {sorted(known)}")
