"""What the installed LiteRT really does with a model's memory, asked of the interpreter itself.

LiteRT decides when it prepares a model: kernels ask for workspace, constants are decompressed into an arena of their
own, tensors become dynamic. None of it is in the file. A delegate that takes no operator is shown LiteRT's own
context when the interpreter is made, and everything stands there, in C structures that `ctypes` reads. Their layout is
not promised, so before anything is believed it is compared with the file: types, sizes, variables, names, and the
operators' inputs.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from edgemem.errors import MissingDependencyError, ModelError, RuntimeBindError
from edgemem.graph import DTYPE_BITS, byte_size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgemem.converter import Model
    from edgemem.graph import Graph, Tensor

__all__ = ["Allocation", "Probe", "ProbedSubgraph", "ProbedTensor", "annotate", "annotated", "probe"]

Allocation: TypeAlias = Literal[
    "none", "constant", "arena", "persistent", "dynamic", "folded", "custom", "variant", "elsewhere"
]
# In the order of TfLiteAllocationType. `folded` is computed once while the model is prepared.
_ALLOCATIONS: Final[tuple[Allocation, ...]] = (
    *("none", "constant", "arena", "persistent", "dynamic", "folded", "custom", "variant", "elsewhere"),
)
# In the order of TfLiteType, which is not the schema's.
_TYPES: Final = (
    *("", "float32", "int32", "uint8", "int64", "string", "bool", "int16", "complex64", "int8", "float16", "float64"),
    *("complex128", "uint64", "resource", "variant", "uint32", "uint16", "int4", "bfloat16", "int2", "uint4"),
)


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
    """A model inside LiteRT with its builtin kernels: the subgraphs it showed, the main one first."""

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
        MissingDependencyError: ai-edge-litert is not installed.
        RuntimeBindError: LiteRT cannot run the model, or its structures are not laid out as edgemem knows them.
    """
    try:
        from ai_edge_litert import schema_py_generated as schema
        from ai_edge_litert.interpreter import Interpreter, OpResolverType
    except ImportError:
        raise MissingDependencyError("ai-edge-litert", extra="tflite", purpose="asking LiteRT for its memory") from None
    delegate = _Delegate(_expected(schema, model))
    try:
        interpreter = Interpreter(
            model_content=model,
            experimental_delegates=[delegate],
            experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        )
        delegate.check()
        for index, shape in (input_shapes or {}).items():
            interpreter.resize_tensor_input(index, list(shape))
        interpreter.allocate_tensors()
        if any(t.allocation == "dynamic" for t in delegate.read().main.tensors):
            # Its inputs hold whatever the fresh arena did; kernels that look values up want valid ones.
            for details in interpreter.get_input_details():
                interpreter.tensor(details["index"])()[...] = 0
            interpreter.invoke()
    except (RuntimeError, ValueError) as e:
        delegate.check()
        raise RuntimeBindError(f"LiteRT cannot run the model: {str(e).strip() or 'no reason given'}") from None
    return delegate.read()


def annotated(graph: Graph, model: Model) -> Graph:
    """`annotate` for the graph of a model file, in the sizes that it is bound to. Raises as `probe`."""
    inputs = getattr(model, "inputs", None)
    if ".tflite" not in model.suffixes or inputs is None:
        raise ModelError("LiteRT runs .tflite files; choose another target than litert for this model")
    return annotate(graph, probe(model.content(), inputs()))


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


# --- LiteRT's C structures -----------------------------------------------------------------------------------------


_INTS = ctypes.POINTER(ctypes.c_int)


class _Node(ctypes.Structure):
    _fields_ = [("inputs", _INTS), ("outputs", _INTS), ("intermediates", _INTS), ("temporaries", _INTS)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("data", ctypes.c_void_p),
        ("dims", _INTS),
        ("scale", ctypes.c_float),
        ("zero_point", ctypes.c_int),
        ("allocation_type", ctypes.c_int),
        ("bytes", ctypes.c_size_t),
        ("allocation", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("delegate", ctypes.c_void_p),
        ("buffer_handle", ctypes.c_int),
        ("data_is_stale", ctypes.c_bool),
        ("is_variable", ctypes.c_bool),
        ("quantization_type", ctypes.c_int),
        ("quantization", ctypes.c_void_p),
        ("sparsity", ctypes.c_void_p),
        ("dims_signature", ctypes.c_void_p),
    ]


class _Context(ctypes.Structure):
    _fields_ = [
        ("tensors_size", ctypes.c_size_t),
        ("get_execution_plan", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_INTS))),
        ("tensors", ctypes.POINTER(_Tensor)),
        ("impl", ctypes.c_void_p),
        ("resize_tensor", ctypes.c_void_p),
        ("report_error", ctypes.c_void_p),
        ("add_tensors", ctypes.c_void_p),
        (
            "get_node_and_registration",
            ctypes.CFUNCTYPE(
                ctypes.c_int,
                ctypes.c_void_p,
                ctypes.c_int,
                ctypes.POINTER(ctypes.POINTER(_Node)),
                ctypes.POINTER(ctypes.c_void_p),
            ),
        ),
    ]


_PREPARE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class _NativeDelegate(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("prepare", _PREPARE),
        ("copy_from", ctypes.c_void_p),
        ("copy_to", ctypes.c_void_p),
        ("free", ctypes.c_void_p),
        ("flags", ctypes.c_int64),
        ("opaque", ctypes.c_void_p),
    ]


# Without it LiteRT plans the arena before other delegates take operators out, and keeps the larger size.
_ALLOW_DYNAMIC_TENSORS: Final = 1


def _ints(array: Any) -> tuple[int, ...]:
    """A TfLiteIntArray: its length, then its items."""
    return tuple(array[1 : 1 + array[0]]) if array else ()


@dataclass(frozen=True, slots=True)
class _Expected:
    """What the file says of a subgraph, to compare with what LiteRT shows."""

    types: tuple[int | None, ...]  # None for types newer than edgemem
    sizes: tuple[int | None, ...]  # None where LiteRT need not have it yet
    variables: tuple[bool, ...]
    names: tuple[bytes, ...]
    inputs: tuple[tuple[int, ...], ...]  # of each operator


def _expected(schema: Any, model: bytes) -> list[_Expected]:
    try:
        root = schema.Model.GetRootAs(model, 0)
        names = {number: name.lower() for name, number in vars(schema.TensorType).items() if name[0] != "_"}
        return [_expected_of(root, root.Subgraphs(i), names) for i in range(root.SubgraphsLength())]
    except Exception as e:  # noqa: BLE001  (whatever the generated reader trips over)
        raise RuntimeBindError(f"LiteRT cannot read the model: {e}") from None


def _expected_of(root: Any, subgraph: Any, names: Mapping[int, str]) -> _Expected:
    tensors = [subgraph.Tensors(i) for i in range(subgraph.TensorsLength())]
    sizes: list[int | None] = []
    for t in tensors:
        dtype, shape = names.get(t.Type(), ""), [t.Shape(k) for k in range(t.ShapeLength())]
        buffer = root.Buffers(t.Buffer())
        constant = buffer.DataLength() or buffer.Size()
        known = dtype in DTYPE_BITS and not constant and min(shape, default=0) >= 0
        sizes.append(byte_size(dtype, prod(shape)) if known else None)
    operators = [subgraph.Operators(i) for i in range(subgraph.OperatorsLength())]
    return _Expected(
        tuple(_TYPES.index(name) if (name := names.get(t.Type(), "new")) in _TYPES else None for t in tensors),
        tuple(sizes),
        tuple(bool(t.IsVariable()) for t in tensors),
        tuple(t.Name() or b"" for t in tensors),
        tuple(tuple(op.Inputs(k) for k in range(op.InputsLength())) for op in operators),
    )


class _Delegate:
    """A delegate that takes no operator and keeps the contexts it is shown, one a subgraph."""

    def __init__(self, expected: Sequence[_Expected]) -> None:
        self._expected = expected
        self._seen: list[tuple[int, Any, list[Any]]] = []  # number, context, nodes in the order of the file
        self._wrong = ""
        self._callback = _PREPARE(self._prepare)
        self._native = _NativeDelegate(prepare=self._callback, flags=_ALLOW_DYNAMIC_TENSORS)

    def _get_native_delegate_pointer(self) -> int:
        """Called by the interpreter, by this name."""
        return ctypes.addressof(self._native)

    def check(self) -> None:
        """Raise RuntimeBindError unless LiteRT showed what the file says."""
        if self._wrong or not self._seen:
            raise RuntimeBindError(
                f"the installed LiteRT is laid out in another way than edgemem knows ({self._wrong or 'no context'}); "
                "edgemem knows ai-edge-litert 2.1 to 2.3"
            )

    def read(self) -> Probe:
        """All tensors and workspaces as they stand now."""
        self.check()
        return Probe(tuple(self._subgraph(*seen) for seen in self._seen))

    def _subgraph(self, number: int, context: Any, nodes: Sequence[Any]) -> ProbedSubgraph:
        count = context.tensors_size
        tensors = tuple(
            ProbedTensor(
                (t.name or b"").decode(errors="backslashreplace"),
                _ints(t.dims),
                t.bytes,
                _ALLOCATIONS[t.allocation_type] if t.allocation_type < len(_ALLOCATIONS) else "elsewhere",
                t.data or 0,
            )
            for t in context.tensors[:count]
        )
        return ProbedSubgraph(number, tensors, tuple(_ints(node.temporaries) for node in nodes))

    def _prepare(self, address: int, _delegate: int) -> int:
        # An exception cannot cross C; what went wrong is told by `check`.
        try:
            context = ctypes.cast(address, ctypes.POINTER(_Context)).contents
            self._wrong = self._wrong or self._keep(address, context)
        except Exception as e:  # noqa: BLE001
            self._wrong = f"{type(e).__name__}: {e}"
        return 1 if self._wrong else 0

    def _keep(self, address: int, context: Any) -> str:
        """Compare, simple fields first: a pointer is followed once what stands around it is right."""
        # LiteRT shows the subgraphs in the order of the file, but leaves some out.
        number = self._seen[-1][0] + 1 if self._seen else 0
        while number < len(self._expected) and len(self._expected[number].types) != context.tensors_size:
            number += 1
        if number == len(self._expected) or (not self._seen and number):
            return f"{context.tensors_size} tensors"
        expected = self._expected[number]
        tensors = context.tensors[: len(expected.types)]
        if any(kind not in (None, t.type) for t, kind in zip(tensors, expected.types, strict=True)):
            return "types"
        if any(size not in (None, t.bytes) for t, size in zip(tensors, expected.sizes, strict=True)):
            return "sizes"
        if tuple(t.is_variable for t in tensors) != expected.variables:
            return "variables"
        if tuple(t.name or b"" for t in tensors) != expected.names:
            return "names"
        plan = _INTS()
        if context.get_execution_plan(address, ctypes.byref(plan)) or _ints(plan) != tuple(range(len(expected.inputs))):
            return "operators"
        nodes = []
        for index, inputs in enumerate(expected.inputs):
            node, registration = ctypes.POINTER(_Node)(), ctypes.c_void_p()
            status = context.get_node_and_registration(address, index, ctypes.byref(node), ctypes.byref(registration))
            if status or _ints(node.contents.inputs) != inputs:
                return f"operator {index}"
            nodes.append(node.contents)
        self._seen.append((number, context, nodes))
        return ""
