"""Graphs without a file format: operators in execution order, tensors with known sizes.

A converter resolves every dimension before it makes a Graph; nothing here is symbolic.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, ClassVar, Literal, Self, TypeAlias

from edgemem.errors import ModelError
from edgemem.model.dtypes import byte_size

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["RUN_ONCE", "Attribute", "Graph", "Layout", "Op", "Tensor", "TensorKind", "digest"]

Attribute: TypeAlias = "int | str | tuple[int, ...]"
TensorKind: TypeAlias = Literal["activation", "constant", "variable", "captured", "opaque"]
Layout: TypeAlias = Literal["nchw", "nhwc", ""]

# Operators that run each of their bodies at most once; all others may run them again and again.
RUN_ONCE = frozenset(("If", "IF", "CALL", "CALL_ONCE", "STABLEHLO_CASE"))


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value in the graph.

    Attributes:
        name: unique in the graph and all its bodies.
        dtype: a key of DTYPE_BITS (anything for `opaque`).
        shape: dimensions; () is a scalar.
        kind: `activation` is planned; `constant` is weights; `variable` keeps its value between runs; `captured`
            stands in a body for a tensor of the graph around it; `opaque` (sequence, optional, string, resource,
            data-dependent size) cannot be planned.
        note: why it is opaque.
        scales: how many scales its quantisation has; -1 if that is not known.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    kind: TensorKind = "activation"
    note: str = ""
    scales: int = field(default=-1, compare=False)
    _size: int = field(default=-1, init=False, repr=False, compare=False)  # computed at the first access; -1 until then

    @property
    def size(self) -> int:
        """Bytes. Raises UnsupportedError for a dtype without a fixed width."""
        if self._size < 0:
            object.__setattr__(self, "_size", byte_size(self.dtype, prod(self.shape)))
        return self._size


@dataclass(frozen=True, slots=True)
class Op:
    """One operator.

    Attributes:
        name: for people; need not be unique.
        type: `Conv`, `CONV_2D`, `com.microsoft::FusedConv`.
        inputs: tensor indices, -1 for an absent optional one; tensors that its bodies capture come last.
        outputs: tensor indices, -1 for an absent optional one.
        bodies: graphs it runs (branches, loop conditions and bodies), in order.
        scratch: bytes of workspace it needs while it runs.
        ordered: it has side effects and keeps its place among the other ordered ones.
        attributes: what decides which bytes it reads and writes, as far as the format tells; a key that is absent is
            unknown. `kernel`, `stride`, `dilation`: (height, width). `pads`: (top, left, bottom, right). `group`.
            `paddings`: before and after each dimension. `begin`, `size`: of a slice, by dimension. `axis`: 0 or more.
            `align_corners`, `half_pixel_centers`: 0 or 1. `mode`: of a resize, `nearest` or `linear`. `value`: `lowest`
            where a padding is of the least number. `scales`: of quantised weights, where a dense layer has several.
    """

    name: str
    type: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    bodies: tuple[Graph, ...] = ()
    scratch: tuple[int, ...] = ()
    ordered: bool = False
    attributes: Mapping[str, Attribute] = field(default_factory=dict, hash=False)

    def pair(self, name: str, default: int) -> tuple[int, ...]:
        """The first two numbers of an attribute, which are of rows and columns; `default` where it is unknown."""
        found = self.attributes.get(name)
        return found[:2] if isinstance(found, tuple) else (default, default)


@dataclass(frozen=True, slots=True)
class Graph:
    """Operators in execution order, over tensors by index.

    Attributes:
        name: for people.
        tensors: all values, constants included.
        ops: the operators.
        inputs: tensor indices.
        outputs: tensor indices.
        layout: how shapes are to be read where the format says so.
        precedence: pairs (before, after) of operator indices: in every order of the operators the first runs before
            the second, whatever they read and write.
        number: which graph of the file it is, where several operators may run one: bodies with one number are in the
            same memory. -1: it is in memory of its own.
        others: graphs of the file that no operator runs. TensorFlow Lite Micro has memory for them all the same.
        default_target: the target a plan is made for when none is named.
    """

    default_target: ClassVar[str] = "generic"

    name: str
    tensors: tuple[Tensor, ...]
    ops: tuple[Op, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    layout: Layout = ""
    precedence: tuple[tuple[int, int], ...] = ()
    number: int = -1
    others: tuple[Graph, ...] = ()
    _digest: str = field(default="", init=False, repr=False, compare=False)  # computed at the first call of `digest`

    def __post_init__(self) -> None:
        """Raise ModelError unless every index is a tensor, and each is written by one operator before it is read.

        The same goes for pairs of operators that are not there, or in another order.
        """
        count = len(self.tensors)
        known = set(self.inputs) | {i for i, t in enumerate(self.tensors) if t.kind not in ("activation", "opaque")}
        written = set(self.inputs)
        for op in self.ops:
            for index in (*op.inputs, *op.outputs):
                if not -1 <= index < count:
                    raise ModelError(f"operator {op.name!r} names tensor {index}, but there are {count}")
            for index in dict.fromkeys(op.outputs):
                if index in written and self.tensors[index].kind == "activation":
                    raise ModelError(
                        f"operator {op.name!r} writes {self.tensors[index].name!r}, which has a value before"
                    )
            written.update(i for i in op.outputs if i >= 0)
            for index in op.inputs:
                if index >= 0 and index not in known:
                    raise ModelError(
                        f"operator {op.name!r} reads {self.tensors[index].name!r} before anything writes it"
                    )
            known.update(op.outputs)
        for index in self.outputs:
            if index not in known:
                raise ModelError(f"graph output {index} is never written")
        for first, then in self.precedence:
            if not (0 <= first < len(self.ops) and 0 <= then < len(self.ops)):
                raise ModelError(f"operators {first} and {then} are to keep their order, but there are {len(self.ops)}")
            if first >= then:
                names = f"{self.ops[first].name!r} must run before operator {self.ops[then].name!r}"
                raise ModelError(f"operator {names}, and does not: keep the order that the model's file gives the two")

    def reordered(self, order: tuple[int, ...]) -> Self:
        """The same graph running `ops[order[0]], ops[order[1]], ...`; ModelError if the order is not topological."""
        if sorted(order) != list(range(len(self.ops))):
            raise ModelError(f"an order is a permutation of the {len(self.ops)} operators")
        ordered = [i for i in order if self.ops[i].ordered]
        if ordered != sorted(ordered):
            raise ModelError("operators with side effects must keep their order")
        place = {k: at for at, k in enumerate(order)}
        precedence = tuple(sorted((place[first], place[then]) for first, then in self.precedence))
        return replace(self, ops=tuple(self.ops[i] for i in order), precedence=precedence)


def digest(graph: Graph) -> str:
    """SHA-256 (hex) of what a plan depends on: operators in order, tensor names, dtypes, shapes and kinds.

    Weights do not count: a retrained model keeps its plan. Neither do `precedence`, which says what other orders there
    are, and `number`: plans that it makes different are told apart by their places. Nor do `others`.
    """
    if not graph._digest:  # noqa: SLF001 - the cache of this function
        object.__setattr__(graph, "_digest", _hashed(graph))
    return graph._digest  # noqa: SLF001


def _hashed(graph: Graph) -> str:
    import hashlib  # only plans of graphs need it: it takes 4 MiB, and a session makes plans of recordings

    sha = hashlib.sha256()

    def feed(*values: object) -> None:
        for value in values:
            data = repr(value).encode()
            sha.update(len(data).to_bytes(8, "little"))
            sha.update(data)

    def walk(g: Graph) -> None:
        feed("graph", len(g.tensors), len(g.ops), g.inputs, g.outputs)
        for t in g.tensors:
            feed(t.name, t.dtype, t.shape, t.kind)
        for op in g.ops:
            feed(op.type, op.inputs, op.outputs, len(op.bodies))
            for body in op.bodies:
                walk(body)

    walk(graph)
    return sha.hexdigest()
