"""From the contents of a .tflite file to a Graph, with the place in the file of every tensor name in the graph."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Final, TypeAlias

from edgemem.errors import EdgememError, ModelError, UnknownShapeError, UnsupportedError
from edgemem.model.dtypes import DTYPE_BITS
from edgemem.model.graph import Graph, Op, Tensor
from edgemem_converters.tflite.attributes import attributes_of
from edgemem_converters.tflite.names import DTYPES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from edgemem.model.graph import TensorKind
    from edgemem_converters.tflite.control import Pairs
    from edgemem_converters.tflite.reader import FileModel, FileSubgraph, FileTensor

__all__ = ["ETHOS_U", "Place", "Shapes", "build"]

Place: TypeAlias = tuple[int, int]
# Place -> shape instead of the file's; None if the shape is only known when the model runs.
Shapes: TypeAlias = "Mapping[Place, tuple[int, ...] | None]"

# They compute weights from weights; the runtimes keep the result.
_FOLDED: Final = frozenset({"DEQUANTIZE", "DENSIFY"})
# What Vela makes of the operators that an Ethos-U runs. Its third and fourth inputs are memory that nothing writes.
ETHOS_U: Final = "ethos-u"
_DATA_DEPENDENT: Final = frozenset({"WHERE", "UNIQUE"})
_ORDERED: Final = frozenset(
    {
        *("IF", "WHILE", "CALL", "CALL_ONCE", "STABLEHLO_WHILE", "STABLEHLO_CASE"),
        *("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"),
        *("HASHTABLE", "HASHTABLE_FIND", "HASHTABLE_IMPORT", "HASHTABLE_SIZE"),
    }
)
# Limits of what bodies may add to the graph, because a subgraph is a body of every operator that runs it.
_DEEPEST: Final = 32  # bodies within bodies
_MOST: Final = 100_000  # tensors and operators, beyond _TIMES those of the file
_LONGEST: Final = 1 << 26  # letters of all names, beyond _TIMES those of the file
_TIMES: Final = 4
_MOST_ITEMS: Final = 2**59 - 1  # of a tensor, so that its bytes are within int64


def build(model: FileModel, shapes: Shapes, control: Sequence[Pairs] = ()) -> tuple[Graph, dict[str, Place]]:
    """The graph of subgraph 0 with its bodies, and the place (subgraph, tensor) of every tensor's name.

    `control` has the pairs of operators of each subgraph that keep their order, if the file has any.

    A subgraph that several operators run is a body of each, under names of its own. Raises UnknownShapeError,
    UnsupportedError for a type of tensor that edgemem does not know, and ModelError for subgraphs that run themselves.
    """
    return _Builder(model, shapes, control).build()


class _Builder:
    def __init__(self, model: FileModel, shapes: Shapes, control: Sequence[Pairs]) -> None:
        self._model = model
        self._control = control
        self._shapes = shapes
        self._tensors: dict[int, tuple[Tensor, ...]] = {}
        self._left = _MOST + _TIMES * sum(len(s.tensors) + len(s.operators) for s in model.subgraphs)
        self._letters = _LONGEST + _TIMES * sum(len(t.name) for s in model.subgraphs for t in s.tensors)
        self.places: dict[str, Place] = {}

    def build(self) -> tuple[Graph, dict[str, Place]]:
        graph = self._graph(0, "", (), 0)
        places = dict(self.places)
        others = tuple(self._others())
        return (replace(graph, others=others) if others else graph), places

    def _others(self) -> Iterator[Graph]:
        """Subgraphs that no operator of the first runs, such as those of other signatures.

        One that cannot be a graph, as its sizes are open or it is damaged, is left out: nothing here runs it.
        """
        for number in range(len(self._model.subgraphs)):
            if number not in self._tensors:
                with suppress(EdgememError):
                    yield self._graph(number, f"#{number}/", (), 0)

    def _graph(self, number: int, path: str, within: tuple[int, ...], label: int) -> Graph:
        """A subgraph and its bodies; `label` is how many letters precede the names of its operators in reports."""
        file = self._model.subgraphs[number]
        if number in within:
            raise ModelError(f"subgraph {number} of the TFLite file runs itself")
        if len(within) > _DEEPEST:
            raise ModelError(f"the subgraphs of the TFLite file run each other too deep; the limit is {_DEEPEST}")
        self._spend(file, len(path), label)
        if number not in self._tensors:
            self._tensors[number] = self._checked(number)
        tensors = tuple(
            replace(t, name=name) for name, t in zip(self._names(number, path), self._tensors[number], strict=True)
        )
        ops = []
        for i, op in enumerate(file.operators):
            name = f"{op.type}_{i}"
            bodies = tuple(
                self._graph(
                    body,
                    f"{path}{name}.{k}/",
                    (*within, number),
                    label + len(name) + len(self._model.subgraphs[body].name),
                )
                for k, body in enumerate(op.bodies)
            )
            attributes = attributes_of(self._model, file, op, tensors)
            is_ordered = op.type in _ORDERED
            ops.append(Op(name, op.type, op.inputs, op.outputs, bodies, ordered=is_ordered, attributes=attributes))
        inputs, outputs = (tuple(i for i in ends if i >= 0) for ends in (file.inputs, file.outputs))
        memory = dict.fromkeys(i for op in file.operators if op.type == ETHOS_U for i in op.inputs[2:4] if i >= 0)
        inputs = (*inputs, *(i for i in memory if i not in inputs and tensors[i].kind == "activation"))
        pairs = self._control[number] if self._control else ()
        return Graph(file.name or f"subgraph_{number}", tensors, tuple(ops), inputs, outputs, "nhwc", pairs, number)

    def _spend(self, file: FileSubgraph, path: int, label: int) -> None:
        """Count what one more copy of a subgraph takes, so that a small file cannot make a large graph."""
        self._left -= len(file.tensors) + len(file.operators)
        if self._left < 0:
            raise ModelError(
                "the subgraphs of the TFLite file run each other too often: with all copies they have more than "
                f"{_MOST:,} tensors and operators beyond {_TIMES} times those in the file"
            )
        self._letters -= path * len(file.tensors) + sum(len(t.name) for t in file.tensors)
        self._letters -= label * len(file.operators) + sum(len(op.type) for op in file.operators)
        if self._letters < 0:
            raise ModelError(
                f"the names in the TFLite file are too long: with all copies of its subgraphs they have more than "
                f"{_LONGEST:,} letters beyond {_TIMES} times those in the file"
            )

    def _names(self, number: int, path: str) -> list[str]:
        """Unique names: the file's, with the path of the body as a prefix, and the index as a suffix of duplicates."""
        tensors = self._model.subgraphs[number].tensors
        often = Counter(t.name for t in tensors)
        names = []
        for i, tensor in enumerate(tensors):
            name = f"{path}{tensor.name}"
            if not tensor.name or often[tensor.name] > 1 or name in self.places:
                name = f"{name}#{i}"
            while name in self.places:
                name += "'"
            self.places[name] = (number, i)
            names.append(name)
        return names

    def _checked(self, number: int) -> tuple[Tensor, ...]:
        """The tensors of a subgraph under the file's names, with their kinds and shapes."""
        file = self._model.subgraphs[number]
        kinds = self._kinds(number, file)
        tensors, unknown = [], []
        for i, tensor in enumerate(file.tensors):
            kind, note = kinds[i]
            label = tensor.name or f"#{i}"
            dtype = DTYPES[tensor.type] if 0 <= tensor.type < len(DTYPES) else f"type {tensor.type}"
            if kind not in ("constant", "opaque") and dtype not in DTYPE_BITS:
                raise UnsupportedError(f"tensor {label!r} is of {dtype}, which edgemem does not know")
            shape = self._shapes.get((number, i)) or self._shape(tensor)
            if shape is None and kind not in ("constant", "opaque"):
                unknown.append(label)
            if kind not in ("constant", "opaque") and prod(shape or ()) > _MOST_ITEMS:
                raise ModelError(f"tensor {label!r} has the shape {list(shape or ())}, which no memory holds")
            tensors.append(Tensor(label, dtype, shape or (), kind, note, tensor.scales))
        if unknown:
            inputs = [file.tensors[i].name for i in file.inputs if i >= 0] if number == 0 else []
            raise UnknownShapeError(
                f"{len(unknown)} tensors have no fixed shape, the first is {unknown[0]!r}; "
                f"give the shapes of the inputs: {', '.join(map(repr, inputs)) or 'none'}",
                tensors=unknown,
            )
        return tuple(tensors)

    def _shape(self, tensor: FileTensor) -> tuple[int, ...] | None:
        """The file's shape; None if a dimension is unknown and the file has no value for it."""
        signature = tensor.signature
        if any(d < 0 for d in tensor.shape) or (signature and not tensor.has_shape):
            return None
        if len(signature) == len(tensor.shape) and any(
            s < 0 and not d for s, d in zip(signature, tensor.shape, strict=True)
        ):
            return None
        return tensor.shape

    def _kinds(self, number: int, file: FileSubgraph) -> list[tuple[TensorKind, str]]:
        kinds: list[tuple[TensorKind, str]] = [("activation", "")] * len(file.tensors)
        written = {i for op in file.operators for i in op.outputs} | set(file.inputs)
        for i, tensor in enumerate(file.tensors):
            dtype = DTYPES[tensor.type] if 0 <= tensor.type < len(DTYPES) else ""
            size = self._model.buffers[tensor.buffer].size if tensor.buffer < len(self._model.buffers) else 0
            if dtype == "string" and (size or tensor.external) and i not in written:
                kinds[i] = "constant", ""
            elif dtype in ("string", "resource", "variant"):
                kinds[i] = "opaque", f"a {dtype}, not a dense tensor"
            elif tensor.variable:
                kinds[i] = "variable", ""
            elif size or tensor.external or (i not in written and not prod(tensor.shape)):
                kinds[i] = "constant", ""
            elif (number, i) in self._shapes and self._shapes[number, i] is None:
                kinds[i] = "opaque", "LiteRT finds its size when it runs"
        for op in file.operators:
            inputs = [i for i in op.inputs if i >= 0]
            for i in op.outputs:
                if i < 0 or kinds[i][0] != "activation":
                    continue
                if op.type in _FOLDED and inputs and kinds[inputs[0]][0] == "constant":
                    kinds[i] = "constant", ""
                elif (number, i) in self._shapes:
                    continue
                elif op.type in _DATA_DEPENDENT or (
                    min(file.tensors[i].signature, default=0) < 0
                    and any(kinds[k] == ("opaque", _BY_DATA) for k in inputs)
                ):
                    kinds[i] = "opaque", _BY_DATA
        return kinds


_BY_DATA: Final = "its size depends on the data"
