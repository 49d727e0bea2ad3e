"""A delegate that takes no operator, but reads LiteRT's internal structures and writes to its tensors.

LiteRT gives every delegate its context when an interpreter is made. What the context shows of a model (types, shapes,
sizes, names, the operators' inputs and outputs) is first compared with what LiteRT's Python interface reports.
`structs_check` proves, once a process, that the structures themselves are laid out as `structs` says; without it, a
wrong layout could crash the comparison.
"""

from __future__ import annotations

import ctypes
import weakref
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.errors import RuntimeBindError
from edgemem.runtime.litert.probed import ALLOCATIONS, Probe, ProbedSubgraph, ProbedTensor
from edgemem.runtime.litert.structs import INTS, PREPARE, Context, NativeDelegate, Node, ints

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

__all__ = ["Delegate", "UnknownLayoutError", "make_observed"]

# NumPy's names of the types that LiteRT's Python interface returns, in the order of TfLiteType. The interface returns
# types narrower than a byte as bytes; what it makes of bfloat16 is not known.
_NAMES: Final = """
    none f4 i4 u1 i8 S0 b1 i2 c8 i1 f2 f8 c16 u8 O8 O8 u4 u2 i1 bfloat16 i1 u1
"""
_TYPES: Final = tuple(_NAMES.split())
_DENSE: Final = frozenset({"f2", "f4", "f8", "b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "c8", "c16"})
_NARROW: Final = frozenset({18, 20, 21})  # the types of 4 and 2 bits, whose size the interface does not show


class UnknownLayoutError(RuntimeBindError):
    """The structures of the installed LiteRT are not laid out as edgemem knows them; `difference` says what is not."""

    def __init__(self, difference: str) -> None:
        super().__init__(
            f"the installed LiteRT is laid out in another way than edgemem knows ({difference}); edgemem knows "
            "ai-edge-litert 2.3"
        )
        self.difference = difference


def make_observed(make: Callable[[list[Any]], Any], *, outside: Collection[int] = ()) -> tuple[Any, Delegate]:
    """An interpreter, and a delegate that reads its internal structures, whose layout is taken for right.

    Args:
        make: makes an interpreter with the delegates it is given. It is called twice: the C structures of the second
            interpreter must agree with the Python interface of the first.
        outside: tensors of the main subgraph that LiteRT does not place; the caller gives them memory.

    Raises:
        UnknownLayoutError: LiteRT's structures are not laid out as edgemem knows them. Errors of `make` pass.
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


_CUSTOM: Final = ALLOCATIONS.index("custom")
_MOST_TENSORS: Final = 1 << 24
# Without it LiteRT plans the arena before other delegates take operators out, and keeps the larger size.
_ALLOW_DYNAMIC_TENSORS: Final = 1


@dataclass(frozen=True, slots=True)
class _Expected:
    """A tensor as LiteRT's Python interface shows it; `size` in bytes, None where the type does not determine it."""

    type: str
    shape: tuple[int, ...]
    size: int | None
    name: str


@dataclass(frozen=True, slots=True)
class _ExpectedSubgraph:
    """Tensors by index, and the inputs and outputs of each operator (None for subgraphs that are not shown)."""

    tensors: Mapping[int, _Expected]
    operators: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] | None


def _expected(interpreter: Any) -> list[_ExpectedSubgraph]:
    subgraphs = []
    all_shown = hasattr(interpreter, "num_subgraphs")  # tflite-runtime shows the main one alone
    for number in range(interpreter.num_subgraphs() if all_shown else 1):
        tensors = {}
        for details in interpreter.get_tensor_details(*([number] if all_shown else [])):
            dtype = np.dtype(details["dtype"])
            kind = f"{dtype.kind}{dtype.itemsize}"
            shape = tuple(details["shape"].tolist())
            dense = kind in _DENSE and not details["sparsity_parameters"]
            size = prod(shape) * dtype.itemsize if dense else None
            tensors[details["index"]] = _Expected(kind, shape, size, details["name"])
        ops = interpreter._get_ops_details() if not number else None  # noqa: SLF001
        listed = None if ops is None else tuple((_numbers(op["inputs"]), _numbers(op["outputs"])) for op in ops)
        subgraphs.append(_ExpectedSubgraph(tensors, listed))
    return subgraphs


def _numbers(values: Any) -> tuple[int, ...]:
    return tuple(int(value) for value in values)


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
        """Raise UnknownLayoutError unless LiteRT showed what was expected."""
        if self.wrong or not self._seen:
            raise UnknownLayoutError(self.wrong or "no context")

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
                ALLOCATIONS[t.allocation_type] if t.allocation_type < len(ALLOCATIONS) else "elsewhere",
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
        operators = self._expected[number].operators
        if operators is not None and ints(plan) != tuple(range(len(operators))):
            return "operators"
        nodes = []
        for index in ints(plan):
            node, registration = ctypes.POINTER(Node)(), ctypes.c_void_p()
            status = context.get_node_and_registration(address, index, ctypes.byref(node), ctypes.byref(registration))
            if status:
                return f"operator {index}"
            ends = ints(node.contents.inputs), ints(node.contents.outputs)
            if operators is not None and ends != operators[index]:
                return f"operator {index}"
            nodes.append(node.contents)
            if not number:
                self.registrations.append(registration.value or 0)
        self._seen.append((number, context, nodes))
        for i in self._outside if not number else ():
            context.tensors[i].allocation_type = _CUSTOM
        return ""


def _difference(context: Any, expected: _ExpectedSubgraph) -> str:
    """What is not as expected. Simple fields come first, so that pointers are followed only in a right layout."""
    if not max(expected.tensors, default=-1) < context.tensors_size < _MOST_TENSORS:
        return "tensors"
    shown = [(context.tensors[i], e) for i, e in expected.tensors.items()]
    if any(t.type not in range(len(_TYPES)) or _TYPES[t.type] not in ("bfloat16", e.type) for t, e in shown):
        return "types"
    if any(ints(t.dims) != e.shape for t, e in shown):
        return "shapes"
    if any(e.size not in (None, t.bytes) and t.type not in _NARROW for t, e in shown):
        return "sizes"
    if any((t.name or b"").decode(errors="replace") != e.name for t, e in shown):
        return "names"
    return ""
