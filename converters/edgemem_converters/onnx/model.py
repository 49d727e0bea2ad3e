"""ONNX: reading models into graphs, and writing plans into `metadata_props["edgemem.plan"]`.

A file is changed as bytes: only the plan's entry, or the order of the nodes, changes; all other bytes stay.
Weights in external files are never loaded. Where they are copied to another folder, the model names the copies.
"""

from __future__ import annotations

import base64
import binascii
import os
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from google.protobuf.message import DecodeError, EncodeError  # type: ignore[import-untyped]
from onnx import ModelProto

from edgemem.errors import ModelError, PlanFileError, UnsupportedError
from edgemem.formats import Bindings
from edgemem.formats.plan_summary import SUMMARY_KEY, plan_summary
from edgemem.model.ranges import open_shape, samples_of
from edgemem.model.states import decode_pairs, encode_pairs
from edgemem.system.files import atomic_write, known_as
from edgemem.system.regular_files import open_regular
from edgemem_converters.onnx.cache import carried_over, write_in_place
from edgemem_converters.onnx.computation.tensor_program import Computation
from edgemem_converters.onnx.external_data import bring_along, locations, names_beside, names_in, with_locations
from edgemem_converters.onnx.file_edits import outlined, prioritised, priority_order, reordered, with_forms
from edgemem_converters.onnx.functions import has_functions
from edgemem_converters.onnx.graph import graph_of
from edgemem_converters.onnx.limits import MAX_FILE_BYTES
from edgemem_converters.onnx.rewrite import write_rewrite
from edgemem_converters.onnx.scopes import scope_of
from edgemem_converters.onnx.shapes import infer
from edgemem_converters.onnx.shared_heads import share_heads, trial_sizes
from edgemem_converters.onnx.states import declared_dims, find_pairs
from edgemem_converters.onnx.weights import dtype_of
from edgemem_converters.onnx.wire import check_depth, metadata, permute_nodes, with_metadata, without_metadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from edgemem.formats import OpenForm
    from edgemem.model.graph import Graph
    from edgemem.model.rewrite import Rewrite
    from edgemem.model.states import StatePair
    from edgemem.model.tensor_ops import TensorProgram
    from edgemem.plans import PlanSet
    from edgemem_converters.onnx.scopes import ScopeNode

__all__ = ["PLAN_KEY", "STATES_KEY", "OnnxConverter"]

PLAN_KEY = "edgemem.plan"
STATES_KEY = "edgemem.states"  # the note of which inputs are outputs of the run before
_WEIGHTS_KEY = "edgemem.weights"  # the note that names packed weights
_BAKED_KEY = "edgemem.baked"  # the note of a file whose nodes run in their order
_PARSED = 2  # bytes of memory that a parsed file may take for each of its own


class OnnxConverter:
    """An ONNX model. Immutable."""

    suffixes: ClassVar[tuple[str, ...]] = (".onnx",)
    default_target: ClassVar[str] = "generic"

    def __init__(
        self, data: bytes, path: Path, bindings: Bindings, weight_files: tuple[str, ...], graph: Graph | None = None
    ) -> None:
        """The file's bytes and the names of its weight files, and its graph if that is known already."""
        self.bindings = bindings
        self._data = data
        self._path = path
        self._weight_files = weight_files
        self._graph = graph
        self._unused: ModelProto | None = None  # parsed by `open`, for the first `graph`
        self._computation: Computation | None = None  # made by the first `operator_model`

    @classmethod
    def open(cls, path: Path, bindings: Bindings) -> Self:
        """Read a model. External weights need not be there; their sizes are in the model itself.

        Raises ModelError for what is no ONNX model, is damaged, or keeps weights outside its folder.
        """
        try:
            with open_regular(path) as (file, size):
                if size > MAX_FILE_BYTES:
                    raise ModelError(f"{path} is larger than protobuf allows; save it with external data")
                data = file.read(size)
        except OSError as e:
            raise ModelError(f"cannot read {path}: {e}") from None
        return cls.from_bytes(data, bindings, path)

    @classmethod
    def from_bytes(cls, data: bytes, bindings: Bindings | None = None, path: Path = Path("model.onnx")) -> Self:
        """As `open`, for a file in memory; its weight files are in the folder of `path`."""
        with _parsing(path):
            try:
                model = ModelProto.FromString(data)
            except DecodeError:
                bytearray(_PARSED * len(data))  # protobuf does not tell damage from a lack of memory, and this does
                try:
                    check_depth(data)
                except ModelError as e:
                    raise ModelError(f"{path}: {e}") from None
                raise
            if not model.HasField("graph") or not model.opset_import:
                lacks = "graph" if model.opset_import else "operator set"
                raise ModelError(f"{path} is no ONNX model: it has no {lacks}")
            made = cls(data, path, bindings or Bindings(), locations(model))
        made._unused = model
        return made

    @classmethod
    def weight_files(cls, data: bytes) -> tuple[str, ...]:
        """As `edgemem.formats.Weighted` has it."""
        return names_in(data)

    def graph(self) -> Graph:
        """Its graph with every size known; the model's own functions are inlined in it.

        Initializers and the outputs of Constant nodes are constants, and Constant nodes are no operators. Values
        that are no dense tensors are opaque, and so are those of a branch that never runs. Raises UnknownShapeError
        naming tensors, symbols and flags for sizes that are missing, ModelError for bindings that contradict the
        model and for models that are damaged or out of order.
        """
        if self._graph is None:
            with _parsing(self._path):
                model, self._unused = self._unused or ModelProto.FromString(self._data), None
                scope, inlined = scope_of(model, self._path.parent)
                self._graph = graph_of(scope, infer(scope, inlined, self.bindings))
        return self._graph

    def graphs(self, dims: Iterable[Mapping[str, int]]) -> Iterator[Graph]:
        """Its graph for each of these values of its symbols in turn, with the input shapes of its bindings.

        The file is parsed once. Raises as `graph`.
        """
        with _parsing(self._path):
            scope, inlined = scope_of(ModelProto.FromString(self._data), self._path.parent)
            for values in dims:
                yield graph_of(scope, infer(scope, inlined, replace(self.bindings, dims=dict(values))))

    def program(self) -> TensorProgram:
        """Its operators as tensor operations, with the values of constants, also those in files beside it.

        Values of the graph that do not depend on inputs are among the constants, whatever the kind of the tensor, and
        the operators that write nothing else have no operations. Raises as `graph`, and ModelError for values that are
        damaged or missing.
        """
        with _parsing(self._path):
            return (self._computation or self._computed()).program()

    def operator_model(self, number: int) -> bytes:
        """A model of one operator of the graph, with the values of its constants, in the same operator sets.

        Its inputs have the names of the graph's tensors; values that do not depend on the model's inputs are constants
        in it. Raises UnsupportedError for an operator with bodies.
        """
        with _parsing(self._path):
            self._computation = self._computation or self._computed()
            return self._computation.operator_model(number)

    def _computed(self) -> Computation:
        return Computation(ModelProto.FromString(self._data), self._path.parent, self.bindings)

    def content(self) -> bytes:
        """The file as it would be saved, without external weights."""
        return self._data

    def with_order(self, order: tuple[int, ...]) -> Self:
        """The model with the nodes of `graph().ops[order[0]], graph().ops[order[1]], ...` one after the other.

        Constant nodes come first then, and the plan of the old order is left out. In a baked file, `Shape` and `Size`
        come as early as ONNX Runtime runs them. Raises ModelError if the order is
        not topological, and UnsupportedError if the model has functions of its own, because the operators in them
        are not nodes of the file.
        """
        if order == tuple(range(len(order))) == tuple(range(len(self._nodes()))):
            return self
        with _parsing(self._path):
            model = ModelProto.FromString(self._data)
            if has_functions(model):
                raise UnsupportedError("a model with functions of its own keeps its order; inline them with onnx first")
            count = len(model.graph.node)
        nodes = self._nodes()
        if sorted(order) != list(range(len(nodes))):
            raise ModelError(f"an order is a permutation of the {len(nodes)} operators")
        written: set[str] = set()
        later = {n for node in nodes for n in node.outputs}
        for k in order:
            for name in (*nodes[k].inputs, *nodes[k].captured):
                if name and name in later and name not in written:
                    raise ModelError(f"the order runs {nodes[k].label!r} before {name!r} is written")
            written.update(nodes[k].outputs)
        if metadata(self._data, _BAKED_KEY) is not None:
            data = reordered(_without_plan(self._data), order)
            return self._with(prioritised(data))
        places = {node.index for node in nodes}
        constants = [k for k in range(count) if k not in places]
        data = _without_plan(self._data)
        return self._with(permute_nodes(data, (*constants, *(nodes[k].index for k in order))))

    def rewritten(self, rewrite: Rewrite) -> Self:
        """The model with the operators of a rewrite of `graph()`, with the sizes of all values and without its plan.

        Where symbols have ranges, sizes that follow them stay open; the rewrite must be right for all of the sizes.
        Weights stay where they are. In a baked file the operators run in the order of the new graph. Raises
        UnsupportedError as `write_rewrite`.
        """
        with _parsing(self._path):
            model = ModelProto.FromString(self._data)
            write_rewrite(model, self.graph(), rewrite, self._path.parent, is_open=bool(self.bindings.ranges))
            data = _without_plan(model.SerializeToString(deterministic=True))
        if metadata(data, _BAKED_KEY) is not None:
            data = reordered(data, priority_order(data))
        made = self._with(data)
        return self._with(with_forms(data, _open_forms(made))) if self.bindings.ranges else made

    def with_plan(self, plan: bytes, planset: PlanSet) -> Self:
        """The model with the plan as the last entry of its metadata, behind its summary, replacing all older ones."""
        data = without_metadata(self._data, _WEIGHTS_KEY)  # of files beside the one that was read
        data = with_metadata(data, SUMMARY_KEY, plan_summary(planset))
        data = with_metadata(data, PLAN_KEY, base64.b64encode(plan))
        return type(self)(data, self._path, self.bindings, self._weight_files, self._graph)

    def note(self, name: str) -> bytes | None:
        """The note of this name in the metadata, or None."""
        return metadata(self._data, name)

    def with_note(self, name: str, note: bytes) -> Self:
        """The model with a note in its metadata, which is UTF-8, replacing an older one; its plan stays."""
        data = with_metadata(self._data, name, note)
        return type(self)(data, self._path, self.bindings, self._weight_files, self._graph)

    def states(self, patterns: Mapping[str, str]) -> tuple[StatePair, ...]:
        """The states that these patterns name, or all that are found if there are none. Raises as `find_pairs`."""
        with _parsing(self._path):
            return find_pairs(ModelProto.FromString(self._data).graph, patterns)

    def with_states(self, pairs: Sequence[StatePair]) -> Self:
        """The model with a note of its states; those that a Concat appends to become buffers of fixed capacity.

        Bound dimensions are carried over: the capacity is as long as the cache after the run. The plan of the old graph
        is left out. Raises UnsupportedError as `write_in_place`.
        """
        with _parsing(self._path):
            model = ModelProto.FromString(self._data)
            before = _forms(model)
            if any(pair.growth == "appended" for pair in pairs):
                self._share_heads(model, pairs)
            noted = write_in_place(model, pairs)
            data = self._data
            if noted != tuple(pairs):
                data = _without_plan(model.SerializeToString(deterministic=True))
        changed = [pair for pair, new in zip(pairs, noted, strict=True) if pair != new]
        bindings = carried_over(self.bindings, changed, before, _forms(model))
        data = with_metadata(data, STATES_KEY, encode_pairs(noted))
        return type(self)(data, self._path, bindings, self._weight_files)

    def _share_heads(self, model: ModelProto, pairs: Sequence[StatePair]) -> None:
        """Leave out copies of keys and values for heads that share them, if the sizes of the model can be inferred."""
        sizes = trial_sizes(model.graph, pairs, self.bindings.dims)
        with suppress(ModelError):
            graph = type(self)(self._data, self._path, Bindings(sizes), self._weight_files).graph()
            share_heads(model.graph, {tensor.name: tensor.shape for tensor in graph.tensors})

    def noted_states(self) -> tuple[StatePair, ...]:
        """The states in the model's note; () without one. Raises ModelError for a damaged note."""
        note = metadata(self._data, STATES_KEY)
        return decode_pairs(note) if note is not None else ()

    def declared(self) -> dict[str, tuple[str, tuple[int | str | None, ...]]]:
        """Dtype and dimensions that inputs and outputs declare; symbols by name, None for what is open."""
        with _parsing(self._path):
            graph = ModelProto.FromString(self._data).graph
            tensors = [v for v in (*graph.input, *graph.output) if v.type.HasField("tensor_type")]
            return {v.name: (dtype_of(v.type.tensor_type.elem_type), declared_dims(v)) for v in tensors}

    def outline(self) -> bytes:
        """The file without the values of its large weights, to plan it for many sizes."""
        with _parsing(self._path):
            return outlined(self._data)

    def plan(self) -> bytes | None:
        """The encoded plan it carries, or None. Raises PlanFileError if it is not base64."""
        return self._encoded(PLAN_KEY)

    def _encoded(self, key: str) -> bytes | None:
        text = metadata(self._data, key)
        if text is None:
            return None
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error as e:
            raise PlanFileError(f"the plan in {self._path} is damaged: {e}; plan the model again") from None

    def save(self, path: str | Path) -> None:
        """Write the file atomically. In another folder, its external weights are copied beside it.

        Copies are called as `names_beside` has it. Raises ModelError if weights are missing, or other files have their
        names.
        """
        path, data = Path(path), self._data
        final = known_as(path)
        try:
            if self._path.parent.resolve() != path.parent.resolve():
                names = names_beside(self._weight_files, final)
                bring_along(names, self._path.parent, path.parent)
                if any(old != new for old, new in names.items()):
                    with _parsing(self._path):
                        model = with_locations(ModelProto.FromString(data), names)
                        data = model.SerializeToString(deterministic=True)
            elif os.path.realpath(final) in {os.path.realpath(path.parent / n) for n in self._weight_files}:
                raise ModelError(f"{final} is the name of a file with the model's weights; choose another")
            with atomic_write(path) as file:
                file.write(data)
        except (OSError, RuntimeError) as e:  # RuntimeError: symbolic links that lead to one another
            raise ModelError(f"cannot write {path}: {e}") from None

    def _with(self, data: bytes) -> Self:
        return type(self)(data, self._path, self.bindings, self._weight_files)

    def _nodes(self) -> tuple[ScopeNode, ...]:
        with _parsing(self._path):
            return scope_of(ModelProto.FromString(self._data), self._path.parent)[0].nodes


def _without_plan(data: bytes) -> bytes:
    """Without what was made for the graph as it was: its plan, and the note of its packed weights."""
    for key in (PLAN_KEY, SUMMARY_KEY, _WEIGHTS_KEY):
        data = without_metadata(data, key)
    return data


def _forms(model: ModelProto) -> dict[str, tuple[int | str | None, ...]]:
    """The declared dimensions of inputs and outputs."""
    return {v.name: declared_dims(v) for v in (*model.graph.input, *model.graph.output)}


@contextmanager
def _parsing(path: Path) -> Iterator[None]:
    """Turns what protobuf raises for damaged bytes, on parsing or on use, into a ModelError."""
    try:
        yield
    except (DecodeError, EncodeError, UnicodeDecodeError, RecursionError) as e:
        raise ModelError(f"{path} is damaged or no ONNX model: {e}") from None


def _open_forms(model: OnnxConverter) -> dict[str, OpenForm]:
    """Dtype and shape of what the operators write, with symbols where sizes follow ranges."""
    bindings = model.bindings
    points = samples_of(bindings.dims, bindings.ranges)
    graphs = list(model.graphs(points))
    ends = {graphs[0].tensors[i].name for i in (*graphs[0].inputs, *graphs[0].outputs)}
    shapes = [{t.name: t.shape for t in graph.tensors} for graph in graphs]
    return {
        t.name: (t.dtype, open_shape([each[t.name] for each in shapes], points, bindings.ranges))
        for t in graphs[0].tensors
        if t.kind == "activation" and t.name not in ends
    }
