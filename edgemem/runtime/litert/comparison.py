"""Compares a run inside a plan, operator by operator, with a run in which no tensors share memory.

The static proof shows that a plan is right for the graph; this comparison shows that LiteRT's kernels do what the graph
says. The function pointer of each operator is replaced by a wrapper: it compares the operator's inputs with those of
the other run before the call and its outputs after the call, and then overwrites the memory of what dies there.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from edgemem.errors import ModelError, RuntimeBindError
from edgemem.model.steps import scratch_name
from edgemem.runtime.litert.binding import POISON
from edgemem.runtime.litert.interpreter import Interpreter
from edgemem.runtime.litert.layout import graph_of, open_tflite
from edgemem.runtime.litert.package import interpreter_class, op_resolvers
from edgemem.runtime.litert.structs import INVOKE, Registration

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from edgemem.model.graph import Graph
    from edgemem.runtime.litert.arena_layout import ArenaLayout
    from edgemem.runtime.litert.delegate import Delegate
    from edgemem.runtime.litert.memory import InterpreterMemory
    from edgemem.runtime.litert.request import Inputs, WantedPlan

__all__ = ["OperatorDivergence", "RunReport", "compare_run", "random_inputs"]


@dataclass(frozen=True, slots=True)
class OperatorDivergence:
    """The first operator whose output differs from that of the run without sharing.

    Attributes:
        op: its index in the file, and `label`, its name.
        tensor: its output that differs.
        lost: the input of it that was overwritten, or "".
        by: the tensor that was written over it, and `by_op`, the operator that wrote it; "" if that is not known.
    """

    op: int
    label: str
    tensor: str
    lost: str = ""
    by: str = ""
    by_op: str = ""

    def __str__(self) -> str:
        text = f"{self.label} computes another {self.tensor!r}"
        if self.lost:
            text += f": {self.by!r} of {self.by_op} lies on {self.lost!r}" if self.by else f": {self.lost!r} is lost"
        return text


@dataclass(frozen=True, slots=True)
class RunReport:
    """The result of comparing a run inside the plan.

    Attributes:
        operators: how many were compared.
        memory: the report of the interpreter that ran inside the plan.
        outputs_equal: all outputs of the model are the same, bit for bit.
        divergence: the first operator that differs, or None.
    """

    operators: int
    memory: InterpreterMemory
    outputs_equal: bool
    divergence: OperatorDivergence | None

    @property
    def equal(self) -> bool:
        """Nothing differs."""
        return self.outputs_equal and self.divergence is None


def compare_run(
    model: bytes,
    *,
    values: Sequence[NDArray[Any]] | None = None,
    plan: WantedPlan = None,
    resize: Mapping[int, Sequence[int]] | None = None,
    inputs: Inputs | None = None,
) -> RunReport:
    """Run a .tflite model inside its plan with builtin kernels, poisoned, and compare every operator.

    Args:
        model: the file.
        values: for each input; random ones by default.
        plan: to run in, as for `Interpreter`.
        resize: tensor index of an input -> the shape to give it.
        inputs: as for `Interpreter`.

    Raises:
        RuntimeBindError: the model cannot run in the plan, or LiteRT's structures are not as expected.
        InvalidPlanError: the plan is wrong by the static proof, or was made for another LiteRT.
    """
    kernels = op_resolvers().BUILTIN_WITHOUT_DEFAULT_DELEGATES
    try:
        bound = Interpreter(
            model_content=model, experimental_op_resolver_type=kernels, inputs=inputs, plan=plan, poison=True
        )
        for index, shape in (resize or {}).items():
            bound.resize_tensor_input(index, list(shape))
        bound.allocate_tensors()
    except (RuntimeError, ValueError) as e:
        raise RuntimeBindError(f"LiteRT cannot run the model: {_reason(e)}") from None
    details = bound.get_input_details()
    values = random_inputs(details) if values is None else values
    if len(values) != len(details):
        raise ModelError(f"{len(values)} values for {len(details)} inputs")
    delegate, layout = bound.delegate, bound.layout
    assert delegate is not None
    assert layout is not None
    graph = graph_of(open_tflite(model), delegate.read())
    reference = _reference(model, graph, values, resize or {})
    watch = _Watch(graph, delegate, layout, bound.arena.memory, reference)
    with bound.arena.lock:
        try:
            for entry, value in zip(details, values, strict=True):
                bound.set_tensor(entry["index"], value)
            watch.attach()
            bound.invoke()
        except (RuntimeError, ValueError) as e:
            raise watch.failed or RuntimeBindError(f"LiteRT cannot run the model: {_reason(e)}") from None
        finally:
            watch.detach()
    if watch.failed is not None:
        raise watch.failed
    # A model may name one tensor twice among its outputs.
    same = all(watch.intact(i) and _is_same(bound, i, reference) for i in dict.fromkeys(graph.outputs))
    return RunReport(len(graph.ops), bound.memory, same, watch.divergence)


def _is_same(bound: Interpreter, index: int, reference: Mapping[int, bytes]) -> bool:
    """Whether a caller reads the same output as in the run without sharing, wherever it is."""
    return index not in reference or bound.get_tensor(index).tobytes() == reference[index]


def _reason(error: Exception) -> str:
    """What LiteRT says, in one line."""
    return " ".join(str(error).split()) or "no reason given"


def random_inputs(details: Sequence[dict[str, Any]], seed: int = 0) -> list[NDArray[Any]]:
    """A value for each input: numbers in [0, 1), all of a byte, or 0 and 1, which most kernels take for an index."""
    rng = np.random.default_rng(seed)
    values = []
    for entry in details:
        dtype, shape = np.dtype(entry["dtype"]), tuple(entry["shape"])
        if dtype.kind == "f":
            values.append(rng.random(shape).astype(dtype))
        elif dtype.itemsize == 1 and dtype.kind in "iu":
            info = np.iinfo(dtype)
            values.append(rng.integers(info.min, info.max, shape, dtype, endpoint=True))
        else:
            values.append(rng.integers(0, 2, shape).astype(dtype))
    return values


def _reference(
    model: bytes, graph: Graph, values: Sequence[NDArray[Any]], resize: Mapping[int, Sequence[int]]
) -> dict[int, bytes]:
    """What every tensor holds when none shares memory, by index."""
    alone = interpreter_class()(
        model_content=model,
        experimental_op_resolver_type=op_resolvers().BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        experimental_preserve_all_tensors=True,
    )
    for index, shape in resize.items():
        alone.resize_tensor_input(index, list(shape))
    try:
        alone.allocate_tensors()
        for entry, value in zip(alone.get_input_details(), values, strict=True):
            alone.set_tensor(entry["index"], value)
        alone.invoke()
    except (RuntimeError, ValueError) as e:
        raise RuntimeBindError(f"LiteRT cannot run the model with all tensors preserved: {_reason(e)}") from None
    used = {i for op in graph.ops for i in (*op.inputs, *op.outputs)} | {*graph.inputs, *graph.outputs}
    activations = (i for i in sorted(used) if i >= 0 and graph.tensors[i].kind == "activation")
    return {i: alone.get_tensor(i).tobytes() for i in activations}


def _without(span: tuple[int, int], others: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """What of a range is in none of the others: slices of a tensor that lie in its memory may live on."""
    at, end = span
    for low, high in sorted(others):
        if at < min(low, end):
            yield at, min(low, end)
        at = max(at, high)
    if at < end:
        yield at, end


@dataclass(slots=True, eq=False)
class _Watch:
    """Wraps the operators' calls of a bound interpreter and records the first difference."""

    graph: Graph
    delegate: Delegate
    layout: ArenaLayout
    memory: NDArray[np.uint8]
    reference: dict[int, bytes]
    divergence: OperatorDivergence | None = None
    failed: RuntimeBindError | None = None
    _spans: dict[int, tuple[int, int]] = field(default_factory=dict)
    _names: dict[int, str] = field(default_factory=dict)
    _scratch: list[tuple[int, ...]] = field(default_factory=list)
    _dying: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    _written: list[tuple[int, int]] = field(default_factory=list)  # (op, tensor), in the order of writing
    _attached: list[tuple[Any, int, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._spans = {i: (offset, offset + size) for i, offset, size in self.layout.places}
        main = self.delegate.read().main
        self._scratch = [tuple(i for i in s if i in self._spans) for s in main.scratch]
        self._names = {i: t.name for i, t in enumerate(self.graph.tensors)}
        for op, scratch in zip(self.graph.ops, self._scratch, strict=True):
            self._names |= {i: scratch_name(op.name or op.type, k) for k, i in enumerate(scratch)}
        planset = self.layout.planset
        if planset is not None and planset.best_offsets is not None:
            last = len(self.graph.ops) - 1
            problem, lows = planset.problem, planset.best_offsets.offsets
            for record, offset in zip(problem.records, lows.tolist(), strict=True):
                if record.last_op < last and record.kind in ("tensor", "scratch", "input"):
                    assert isinstance(record.size, int)
                    stay = (problem.first_op <= record.last_op) & (problem.last_op > record.last_op)
                    kept = zip(lows[stay].tolist(), (lows + problem.size)[stay].tolist(), strict=True)
                    gone = _without((offset, offset + record.size), kept if problem.within is not None else ())
                    self._dying.setdefault(record.last_op, []).extend(gone)

    def intact(self, index: int) -> bool:
        """Whether a tensor holds the same bytes as in the run without sharing."""
        if index not in self._spans or index not in self.reference:
            return True
        low, high = self._spans[index]
        return self.memory[low:high].tobytes() == self.reference[index]

    def attach(self) -> None:
        """Wrap every operator. Raises RuntimeBindError if LiteRT's registrations are not as expected."""
        if len(self.delegate.registrations) != len(self.graph.ops):
            raise RuntimeBindError("LiteRT showed other operators than the file has")
        found = [Registration.from_address(at) for at in self.delegate.registrations]
        codes: dict[str, set[int]] = {}
        for op, registration in zip(self.graph.ops, found, strict=True):
            codes.setdefault(op.type, set()).add(registration.builtin_code)
        if any(len(c) != 1 for c in codes.values()) or len({min(c) for c in codes.values()}) != len(codes):
            raise RuntimeBindError("LiteRT's operator registrations are laid out in another way than edgemem knows")
        for k, registration in enumerate(found):
            original = INVOKE(registration.invoke)
            wrapped = INVOKE(self._wrapped(k, original))
            self._attached.append((registration, registration.invoke, wrapped))
            registration.invoke = ctypes.cast(wrapped, ctypes.c_void_p).value

    def detach(self) -> None:
        """Put the operators' own calls back."""
        for registration, original, _ in self._attached:
            registration.invoke = original
        self._attached.clear()

    def _wrapped(self, k: int, original: Any) -> Any:
        def call(context: int, node: int) -> int:
            try:
                lost = self._lost(k)
                status: int = original(context, node)
                self._after(k, lost)
            except Exception as e:  # noqa: BLE001 -- it cannot cross C
                self.failed = RuntimeBindError(f"comparing {self.graph.ops[k].name} failed: {e}")
                return 1
            return status

        return call

    def _lost(self, k: int) -> int:
        """The first input that differs from the run without sharing, or -1."""
        if self.divergence is not None:
            return -1
        return next((i for i in self.graph.ops[k].inputs if i >= 0 and not self.intact(i)), -1)

    def _after(self, k: int, lost: int) -> None:
        op = self.graph.ops[k]
        outputs = [i for i in op.outputs if i in self._spans]
        if self.divergence is None:
            wrong = [i for i in outputs if not self.intact(i)]
            if wrong or lost >= 0:
                self.divergence = self._blame(k, wrong[0] if wrong else outputs[0] if outputs else -1, lost)
        self._written += [(k, i) for i in (*self._scratch[k], *outputs)]
        for low, high in self._dying.get(k, ()):
            self.memory[low:high] = POISON

    def _blame(self, k: int, wrong: int, lost: int) -> OperatorDivergence:
        op = self.graph.ops[k]
        about = (k, op.name or op.type, self._names.get(wrong, ""))
        if lost >= 0:
            for j, i in reversed(self._written):
                if lost in self.graph.ops[j].outputs and i == lost:
                    break
                if self._overlap(i, lost):
                    return OperatorDivergence(*about, self._names[lost], self._names[i], self.graph.ops[j].name)
            return OperatorDivergence(*about, self._names[lost])
        for i in (*self._scratch[k], *op.outputs):
            for other in op.inputs:
                if other in self._spans and i in self._spans and i != other and self._overlap(i, other):
                    return OperatorDivergence(*about, self._names[other], self._names[i], op.name)
        return OperatorDivergence(*about)

    def _overlap(self, one: int, other: int) -> bool:
        (low, high), (start, end) = self._spans[one], self._spans[other]
        return low < end and start < high
