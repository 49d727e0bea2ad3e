"""What the installed LiteRT does with a model's memory, read from the interpreter itself.

LiteRT makes these decisions when it prepares a model: kernels request workspace, constants are decompressed into a
separate arena, tensors become dynamic. The file contains none of this. A delegate that takes no operator receives
LiteRT's context when the interpreter is made, and `ctypes` reads the decisions from its C structures. LiteRT does not
guarantee their layout, so their contents (types, sizes, names, and the operators' inputs) are first compared with what
LiteRT's Python interface reports for the same model.
"""

from __future__ import annotations

import ctypes
import weakref
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from edgemem.errors import ModelError, RuntimeBindError
from edgemem.formats import Resizable
from edgemem.runtime.litert.package import interpreter_class, op_resolvers
from edgemem.runtime.litert.structs import INTS, PREPARE, Context, NativeDelegate, Node, ints

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from edgemem.formats import Model
    from edgemem.model.graph import Graph, Tensor

__all__ = [
    "Allocation",
    "Delegate",
    "LiteRTProbe",
    "Probe",
    "ProbedSubgraph",
    "ProbedTensor",
    "annotate",
    "observe",
    "probe",
]

Allocation: TypeAlias = Literal[
    "none", "constant", "arena", "persistent", "dynamic", "folded", "custom", "variant", "elsewhere"
]
# In the order of TfLiteAllocationType. `folded` is computed once while the model is prepared.
_ALLOCATIONS: Final[tuple[Allocation, ...]] = (
    *("none", "constant", "arena", "persistent", "dynamic", "folded", "custom", "variant", "elsewhere"),
)
ARENA: Final = _ALLOCATIONS.index("arena")
CUSTOM: Final = _ALLOCATIONS.index("custom")
# NumPy's names of the types that LiteRT's Python interface returns, in the order of TfLiteType. The interface returns
# types narrower than a byte as bytes.
_TYPES: Final = (
    *("", "f4", "i4", "u1", "i8", "S0", "b1", "i2", "c8", "i1", "f2", "f8", "c16", "u8", "O8", "O8", "u4", "u2", "i1"),
    *("", "i1", "u1"),
)
_ONE_WIDTH: Final = frozenset({"f2", "f4", "f8", "b1", "i2", "i4", "i8", "u2", "u4", "u8", "c8", "c16"})


@dataclass(frozen=True, slots=True)
class ProbedTensor:
    """A tensor inside LiteRT; `size` in bytes, `address` 0 while it has no memory."""

    name: str
    shape: tuple[int, ...]
    size: int
    allocation: Allocation
    address: int


@dataclass(frozen=True, slots=True)
class ProbedSubgraph:
    """A subgraph inside LiteRT, after its tensors were allocated.

    Attributes:
        number: its index in the file.
        tensors: those of the file by index, then those that kernels added.
        scratch: for each operator the tensors (indices) that its kernel added as workspace.
    """

    number: int
    tensors: tuple[ProbedTensor, ...]
    scratch: tuple[tuple[int, ...], ...]

    @property
    def arena(self) -> int:
        """Bytes from the first to the last byte of the arena for one run."""
        placed = [t for t in self.tensors if t.allocation == "arena" and t.address and t.size]
        if not placed:
            return 0
        return max(t.address + t.size for t in placed) - min(t.address for t in placed)

    def total(self, allocation: Allocation) -> int:
        """Bytes of all tensors that are allocated in this way, whether they share memory or not."""
        return sum(t.size for t in self.tensors if t.allocation == allocation)


@dataclass(frozen=True, slots=True)
class Probe:
    """A model inside LiteRT with its builtin kernels: the subgraphs that LiteRT showed, the main one first."""

    subgraphs: tuple[ProbedSubgraph, ...]

    @property
    def main(self) -> ProbedSubgraph:
        """The subgraph that runs."""
        return self.subgraphs[0]


def probe(model: bytes, input_shapes: Mapping[int, Sequence[int]] | None = None) -> Probe:
    """Let LiteRT prepare a model with its builtin kernels, and read where it puts everything.

    A model with tensors of dynamic size is run once on zeros, because LiteRT places what follows them only then.

    Args:
        model: a .tflite file.
        input_shapes: tensor index of an input -> its shape, where the file's is not wanted.

    Raises:
        MissingDependencyError: neither ai-edge-litert nor tflite-runtime is installed.
        RuntimeBindError: LiteRT cannot run the model, or its structures are not laid out as edgemem knows them.
    """
    make = interpreter_class()
    kernels = op_resolvers().BUILTIN_WITHOUT_DEFAULT_DELEGATES
    delegate = None
    try:
        interpreter, delegate = observe(
            lambda delegates: make(
                model_content=model, experimental_delegates=delegates, experimental_op_resolver_type=kernels
            )
        )
        for index, shape in (input_shapes or {}).items():
            interpreter.resize_tensor_input(index, list(shape))
        interpreter.allocate_tensors()
        if any(t.allocation == "dynamic" for t in delegate.read().main.tensors):
            # The inputs in a fresh arena hold arbitrary bytes, and kernels that look up values need valid ones.
            for details in interpreter.get_input_details():
                interpreter.tensor(details["index"])()[...] = 0
            interpreter.invoke()
    except (RuntimeError, ValueError) as e:
        raise RuntimeBindError(f"LiteRT cannot run the model: {str(e).strip() or 'no reason given'}") from None
    return delegate.read()


def observe(make: Callable[[list[Any]], Any], *, outside: Collection[int] = ()) -> tuple[Any, Delegate]:
    """An interpreter, and a delegate that reads its internal structures.

    Args:
        make: makes an interpreter with the delegates it is given. It is called twice: the C structures of the second
            interpreter must agree with the Python interface of the first.
        outside: tensors of the main subgraph that LiteRT does not place; the caller gives them memory.

    Raises:
        RuntimeBindError: LiteRT's structures are not laid out as edgemem knows them. Errors of `make` pass.
    """
    delegate = Delegate(_expected(make([])), outside=outside)
    try:
        interpreter = make([delegate])
    except (RuntimeError, ValueError):
        if delegate.wrong:
            delegate.check()
        raise
    delegate.check()
    return interpreter, delegate


class LiteRTProbe:
    """What the installed LiteRT says about models (`edgemem.formats.RuntimeProbe`)."""

    def annotated(self, graph: Graph, model: Model) -> Graph:
        """`annotate` for the graph of a model file, in the sizes that it is bound to. Raises as `probe`."""
        if ".tflite" not in model.suffixes or not isinstance(model, Resizable):
            raise ModelError("LiteRT runs .tflite files; choose another target than litert for this model")
        return annotate(graph, probe(model.content(), model.inputs()))

    def shapes(
        self, content: bytes, inputs: Mapping[int, Sequence[int]]
    ) -> tuple[tuple[tuple[int, ...] | None, ...], ...]:
        """The shapes of all tensors when inputs are resized. Raises as `probe`."""
        return tuple(
            tuple(None if t.allocation == "dynamic" else t.shape for t in subgraph.tensors)
            for subgraph in probe(content, inputs).subgraphs
        )


def annotate(graph: Graph, probed: Probe) -> Graph:
    """The graph as LiteRT runs it: kernels' workspace is on the operators, and what is not in the arena is marked.

    Tensors that LiteRT computes once, or keeps between runs, become constants; those it allocates as it runs become
    opaque. Raises ModelError if the graph is not of the probed model.
    """
    main = probed.main
    if len(main.scratch) != len(graph.ops) or len(main.tensors) < len(graph.tensors):
        raise ModelError("the graph and the probed model differ")
    tensors = tuple(map(_as_run, graph.tensors, main.tensors))
    ops = tuple(
        replace(op, scratch=tuple(main.tensors[i].size for i in added if main.tensors[i].allocation == "arena"))
        for op, added in zip(graph.ops, main.scratch, strict=True)
    )
    return replace(graph, tensors=tensors, ops=ops)


def _as_run(tensor: Tensor, probed: ProbedTensor) -> Tensor:
    if tensor.kind == "opaque" or probed.allocation == "none":
        return tensor
    if probed.allocation in ("constant", "persistent", "folded"):
        return replace(tensor, kind="constant", note="LiteRT keeps it outside the arena")
    if probed.allocation != "arena":
        return replace(tensor, kind="opaque", note=f"LiteRT allocates it as it runs ({probed.allocation})")
    if not probed.size:
        return tensor
    # LiteRT decompresses sparse weights into the arena, at every run.
    return replace(tensor, kind="activation" if tensor.kind == "constant" else tensor.kind, shape=probed.shape)


# --- seeing inside ----------------------------------------------------------------------------------------------------


_MOST_TENSORS: Final = 1 << 24
# Without it LiteRT plans the arena before other delegates take operators out, and keeps the larger size.
_ALLOW_DYNAMIC_TENSORS: Final = 1


@dataclass(frozen=True, slots=True)
class _Expected:
    """A tensor as LiteRT's Python interface shows it; `size` in bytes, None where the type does not determine it."""

    type: str
    size: int | None
    name: str


@dataclass(frozen=True, slots=True)
class _ExpectedSubgraph:
    """Tensors by index, and the inputs of each operator (None for subgraphs that the interface does not show)."""

    tensors: Mapping[int, _Expected]
    inputs: tuple[tuple[int, ...], ...] | None


def _expected(interpreter: Any) -> list[_ExpectedSubgraph]:
    subgraphs = []
    all_shown = hasattr(interpreter, "num_subgraphs")  # tflite-runtime shows the main one alone
    for number in range(interpreter.num_subgraphs() if all_shown else 1):
        tensors = {}
        for details in interpreter.get_tensor_details(*([number] if all_shown else [])):
            dtype = np.dtype(details["dtype"])
            kind = f"{dtype.kind}{dtype.itemsize}"
            dense = kind in _ONE_WIDTH and not details["sparsity_parameters"]
            size = prod(details["shape"].tolist()) * dtype.itemsize if dense else None
            tensors[details["index"]] = _Expected(kind, size, details["name"])
        main = [tuple(op["inputs"].tolist()) for op in interpreter._get_ops_details()] if not number else None  # noqa: SLF001
        subgraphs.append(_ExpectedSubgraph(tensors, None if main is None else tuple(main)))
    return subgraphs


class Delegate:
    """A delegate that takes no operator and keeps the contexts it is shown, one a subgraph."""

    def __init__(self, expected: Sequence[_ExpectedSubgraph], *, outside: Collection[int] = ()) -> None:
        self._expected = expected
        self._outside = frozenset(outside)
        self._seen: list[tuple[int, Any, list[Any]]] = []  # number, context, nodes in the order of the file
        self.registrations: list[int] = []  # of the main subgraph's operators, addresses
        self.wrong = ""
        self._tensors_pointer: ctypes.c_void_p | None = None
        this = weakref.ref(self)  # a callback with a reference to the delegate would keep it alive

        def prepare(address: int, _delegate: int) -> int:
            delegate = this()
            return delegate._prepare(address) if delegate else 1  # noqa: SLF001

        self._callback = PREPARE(prepare)
        self._native = NativeDelegate(prepare=self._callback, flags=_ALLOW_DYNAMIC_TENSORS)

    def _get_native_delegate_pointer(self) -> int:
        """Called by the interpreter, by this name."""
        return ctypes.addressof(self._native)

    def check(self) -> None:
        """Raise RuntimeBindError unless LiteRT showed what was expected."""
        if self.wrong or not self._seen:
            raise RuntimeBindError(
                f"the installed LiteRT is laid out in another way than edgemem knows ({self.wrong or 'no context'}); "
                "edgemem knows ai-edge-litert 2.3"
            )

    def read(self, *, workspace: bool = True) -> Probe:
        """All tensors and workspaces as they stand now; no workspaces once other delegates have taken operators."""
        self.check()
        return Probe(tuple(self._subgraph(n, c, nodes if workspace else ()) for n, c, nodes in self._seen))

    @property
    def tensors(self) -> Any:
        """The main subgraph's tensors, which can be written to; valid until LiteRT adds tensors."""
        self.check()
        return self._seen[0][1].tensors

    @property
    def tensors_address(self) -> int:
        """The address of `tensors`; it changes when LiteRT adds tensors."""
        if self._tensors_pointer is None:
            self.check()
            at = ctypes.addressof(self._seen[0][1]) + Context.tensors.offset
            self._tensors_pointer = ctypes.c_void_p.from_address(at)
        return self._tensors_pointer.value or 0

    def _subgraph(self, number: int, context: Any, nodes: Sequence[Any]) -> ProbedSubgraph:
        count = context.tensors_size
        tensors = tuple(
            ProbedTensor(
                (t.name or b"").decode(errors="backslashreplace"),
                ints(t.dims),
                t.bytes,
                _ALLOCATIONS[t.allocation_type] if t.allocation_type < len(_ALLOCATIONS) else "elsewhere",
                t.data or 0,
            )
            for t in context.tensors[:count]
        )
        return ProbedSubgraph(number, tensors, tuple(ints(node.temporaries) for node in nodes))

    def _prepare(self, address: int) -> int:
        # An exception cannot cross C; `check` raises it later.
        try:
            context = ctypes.cast(address, ctypes.POINTER(Context)).contents
            self.wrong = self.wrong or self._keep(address, context)
        except Exception as e:  # noqa: BLE001
            self.wrong = f"{type(e).__name__}: {e}"
        return 1 if self.wrong else 0

    def _keep(self, address: int, context: Any) -> str:
        """Keep the context if it is what was expected, or say what is not."""
        # LiteRT shows the subgraphs in the order of the file, but may leave some out after the main one.
        first = self._seen[-1][0] + 1 if self._seen else 0
        difference = "subgraphs"
        for number in range(first, len(self._expected) if first else 1):
            difference = _difference(context, self._expected[number])
            if not difference:
                return self._keep_operators(number, address, context)
        return difference

    def _keep_operators(self, number: int, address: int, context: Any) -> str:
        plan = INTS()
        if context.get_execution_plan(address, ctypes.byref(plan)):
            return "operators"
        inputs = self._expected[number].inputs
        if inputs is not None and ints(plan) != tuple(range(len(inputs))):
            return "operators"
        nodes = []
        for index in ints(plan):
            node, registration = ctypes.POINTER(Node)(), ctypes.c_void_p()
            status = context.get_node_and_registration(address, index, ctypes.byref(node), ctypes.byref(registration))
            if status or (inputs is not None and ints(node.contents.inputs) != inputs[index]):
                return f"operator {index}"
            nodes.append(node.contents)
            if not number:
                self.registrations.append(registration.value or 0)
        self._seen.append((number, context, nodes))
        for i in self._outside if not number else ():
            context.tensors[i].allocation_type = CUSTOM
        return ""


def _difference(context: Any, expected: _ExpectedSubgraph) -> str:
    """What is not as expected. Simple fields come first, so that pointers are followed only in a right layout."""
    if not max(expected.tensors, default=-1) < context.tensors_size < _MOST_TENSORS:
        return "tensors"
    shown = [(context.tensors[i], e) for i, e in expected.tensors.items()]
    if any(t.type not in range(len(_TYPES)) or _TYPES[t.type] not in ("", e.type) for t, e in shown):
        return "types"
    if any(e.size not in (None, t.bytes) for t, e in shown):
        return "sizes"
    if any((t.name or b"").decode(errors="replace") != e.name for t, e in shown):
        return "names"
    return ""
