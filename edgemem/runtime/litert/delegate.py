"""A delegate that takes no operator, but reads LiteRT's internal structures and writes to its tensors.

LiteRT gives every delegate its context when an interpreter is made. What the context shows of a model (types, shapes,
sizes, names, the operators' inputs and outputs) is compared with what LiteRT's Python interface reports, before
anything is written. `structs_check` proves, once an installation, that the structures themselves are laid out as
`structs` says; without it, a wrong layout could crash the comparison.
"""

from __future__ import annotations

import ctypes
import weakref
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from edgemem.errors import RuntimeBindError
from edgemem.runtime.litert.probe_data import ALLOCATIONS, Probe, ProbedSubgraph, ProbedTensor
from edgemem.runtime.litert.structs import INTS, PREPARE, NativeContext, NativeDelegate, NativeNode, ints

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["Delegate", "UnknownLayoutError", "observe_unproved"]

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


def observe_unproved(make: Callable[[list[Any]], Any]) -> tuple[Any, Delegate]:
    """An interpreter, and a delegate that reads its structures; with another layout these may crash the process.

    Args:
        make: makes an interpreter with the delegates it is given, and adds no other delegate.

    Raises UnknownLayoutError: LiteRT's structures are not laid out as edgemem knows them. Errors of `make` pass.
    """
    delegate = Delegate()
    try:
        interpreter = make([delegate])
    except (RuntimeError, ValueError):
        if delegate.wrong:
            delegate.check()
        raise
    if not delegate.wrong:
        delegate.compare(interpreter)
    delegate.check()
    return interpreter, delegate


_ARENA: Final = ALLOCATIONS.index("arena")
_MOST_TENSORS: Final = 1 << 24
# Without it LiteRT plans the arena before other delegates take operators out, and keeps the larger size.
_ALLOW_DYNAMIC_TENSORS: Final = 1


_Ends: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]  # inputs and outputs of an operator


@dataclass(frozen=True, slots=True)
class _Expected:
    """A tensor as LiteRT's Python interface shows it; `size` in bytes, None where the type does not determine it."""

    type: str
    shape: tuple[int, ...]
    size: int | None
    name: str


def _count(interpreter: Any) -> int:
    """How many subgraphs are shown; tflite-runtime shows the main one alone."""
    return int(interpreter.num_subgraphs()) if hasattr(interpreter, "num_subgraphs") else 1


def _tensors_shown(interpreter: Any, number: int) -> Iterator[tuple[int, _Expected]]:
    """The tensors of a subgraph by index; one at a time, because all of them take a MiB for a thousand tensors."""
    if hasattr(interpreter, "num_subgraphs"):
        listed = _details(interpreter, number)
    else:
        listed = iter(interpreter.get_tensor_details())
    for details in listed:
        dtype = np.dtype(details["dtype"])
        kind = f"{dtype.kind}{dtype.itemsize}"
        shape = tuple(details["shape"].tolist())
        dense = kind in _DENSE and not details["sparsity_parameters"]
        size = prod(shape) * dtype.itemsize if dense else None
        yield details["index"], _Expected(kind, shape, size, details["name"])


def _details(interpreter: Any, subgraph: int) -> Iterator[Any]:
    """As `get_tensor_details`, which makes a list."""
    for index in range(interpreter._interpreter.NumTensors(subgraph)):  # noqa: SLF001
        with suppress(ValueError):
            yield interpreter._get_tensor_details(index, subgraph)  # noqa: SLF001


def _operators_shown(interpreter: Any) -> Iterator[_Ends]:
    """The inputs and outputs of the main subgraph's operators."""
    for number in range(interpreter._interpreter.NumNodes()):  # noqa: SLF001
        op = interpreter._get_op_details(number)  # noqa: SLF001
        yield _numbers(op["inputs"]), _numbers(op["outputs"])


def _numbers(values: Any) -> tuple[int, ...]:
    return tuple(int(value) for value in values)


class Delegate:
    """A delegate that takes no operator and keeps the contexts it is shown, one a subgraph."""

    def __init__(self) -> None:
        self._seen: list[tuple[int, Any, list[int]]] = []  # number, context, addresses of nodes in the file's order
        self.registrations: list[int] = []  # of the main subgraph's operators, addresses
        self.own = 0  # tensors of the main subgraph before kernels add any
        self.wrong = ""
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

    def compare(self, interpreter: Any) -> None:
        """Compare what LiteRT has shown with an interpreter's own interface; `check` raises if it is not the same."""
        seen, self._seen = self._seen, []
        for _, context, nodes in seen:
            first = self._seen[-1][0] + 1 if self._seen else 0
            self.wrong = "subgraphs"
            for number in range(first, _count(interpreter) if first else 1):
                self.wrong = _first_difference(context, _tensors_shown(interpreter, number))
                if not self.wrong:
                    self._seen.append((number, context, nodes))
                    break
            if not self.wrong and not first:
                self.wrong = _different_operator(nodes, _operators_shown(interpreter))
            if self.wrong:
                return

    def operators(self) -> Iterator[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
        """The inputs, outputs and workspace of the main subgraph's operators, as long as no delegate takes any."""
        self.check()
        nodes = map(NativeNode.from_address, self._seen[0][2])
        return ((*_ends(node), ints(node.temporaries)) for node in nodes)

    def read(self) -> Probe:
        """All tensors and workspaces as they stand now."""
        self.check()
        return Probe(tuple(self._subgraph(*seen) for seen in self._seen))

    @property
    def tensors(self) -> Any:
        """The main subgraph's tensors, which can be written to; valid until LiteRT adds tensors."""
        self.check()
        return self._seen[0][1].tensors

    @property
    def tensors_pointer(self) -> ctypes.c_void_p:
        """Where LiteRT keeps the address of `tensors`, which changes when it adds tensors."""
        self.check()
        return ctypes.c_void_p.from_address(ctypes.addressof(self._seen[0][1]) + NativeContext.tensors.offset)

    def unshaped(self) -> list[int]:
        """The main subgraph's tensors whose size is not that of their shape: LiteRT finds the shape as it runs."""
        tensors = self.tensors
        found = []
        for index in range(self.own):
            tensor = tensors[index]
            name = _TYPES[tensor.type] if 0 <= tensor.type < len(_TYPES) else ""
            in_arena = tensor.allocation_type == _ARENA and tensor.type not in _NARROW and name in _DENSE
            if in_arena and tensor.bytes != prod(ints(tensor.dims)) * int(name[1:]):
                found.append(index)
        return found

    def _subgraph(self, number: int, context: Any, nodes: Sequence[int]) -> ProbedSubgraph:
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
        return ProbedSubgraph(number, tensors, tuple(ints(NativeNode.from_address(node).temporaries) for node in nodes))

    def _prepare(self, address: int) -> int:
        # An exception cannot cross C; `check` raises it later.
        try:
            context = ctypes.cast(address, ctypes.POINTER(NativeContext)).contents
            self.wrong = self.wrong or self._keep(len(self._seen), address, context)
        except Exception as e:  # noqa: BLE001
            self.wrong = f"{type(e).__name__}: {e}"
        return 1 if self.wrong else 0

    def _keep(self, number: int, address: int, context: Any) -> str:
        """Keep a subgraph's context, or say what is not as expected."""
        if context.tensors_size >= _MOST_TENSORS:
            return "tensors"
        plan = INTS()
        if context.get_execution_plan(address, ctypes.byref(plan)):
            return "operators"
        order = ints(plan)
        # Operators of the main subgraph run in the order of the file.
        if not number and order != tuple(range(len(order))):
            return "operators"
        nodes = []
        for index in order:
            node, registration = ctypes.POINTER(NativeNode)(), ctypes.c_void_p()
            status = context.get_node_and_registration(address, index, ctypes.byref(node), ctypes.byref(registration))
            if status:
                return f"operator {index}"
            nodes.append(ctypes.addressof(node.contents))
            if not number:
                self.registrations.append(registration.value or 0)
        if not number:
            self.own = context.tensors_size
        self._seen.append((number, context, nodes))
        return ""


def _different_operator(nodes: Sequence[int], shown: Iterator[_Ends]) -> str:
    count = 0
    for count, ends in enumerate(shown, 1):
        if count > len(nodes):
            break
        if _ends(NativeNode.from_address(nodes[count - 1])) != ends:
            return f"operator {count - 1}"
    return "" if count == len(nodes) else "operators"


def _ends(node: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return ints(node.inputs), ints(node.outputs)


def _first_difference(context: Any, expected: Iterator[tuple[int, _Expected]]) -> str:
    """What of a subgraph's tensors is not as expected; "" if nothing."""
    for index, entry in expected:
        if not index < context.tensors_size < _MOST_TENSORS:
            return "tensors"
        tensor = context.tensors[index]
        wrong = next((name for name, is_right in _CHECKS if not is_right(tensor, entry)), "")
        if wrong:
            return wrong
    return ""


def _has_type(tensor: Any, expected: _Expected) -> bool:
    return tensor.type in range(len(_TYPES)) and _TYPES[tensor.type] in ("bfloat16", expected.type)


def _has_size(tensor: Any, expected: _Expected) -> bool:
    return expected.size in (None, tensor.bytes) or tensor.type in _NARROW


_CHECKS: Final[tuple[tuple[str, Callable[[Any, _Expected], bool]], ...]] = (
    ("types", _has_type),
    ("shapes", lambda tensor, expected: ints(tensor.dims) == expected.shape),
    ("sizes", _has_size),
    ("names", lambda tensor, expected: (tensor.name or b"").decode(errors="replace") == expected.name),
)
