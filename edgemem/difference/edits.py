"""What was changed in a model, as far as two sets of operators tell: the causes, not what follows from them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from edgemem.report.sizes import size_text
from edgemem.system.text import join_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.difference.alignment import Alignment
    from edgemem.report.planned_memory import MemoryOperator, MemoryTensor, PlannedMemory

__all__ = ["Edit", "find_edits", "tensor_form"]

EditKind: TypeAlias = Literal["target", "input", "added", "removed", "rewired", "resized", "weights", "order"]
_NAMED: Final = 4


@dataclass(frozen=True, slots=True)
class Edit:
    """One change.

    Attributes:
        kind: `target` (other rules of the memory), `input` (of the graph), `added`, `removed`, `rewired` (an operator
            reads other tensors), `resized` (it gives another shape or dtype from the same inputs), `weights`, `order`.
        text: what it is, for people.
        operators: labels of the operators, in `before` for what was removed, else in `after`.
    """

    kind: EditKind
    text: str
    operators: tuple[str, ...] = ()


def find_edits(before: PlannedMemory, after: PlannedMemory, alignment: Alignment) -> tuple[Edit, ...]:
    """The changes that explain the others: a tensor that is larger because its operator's input is, is none."""
    return tuple(_edits(before, after, alignment))


def tensor_form(tensor: MemoryTensor) -> str:
    """`float32 1x56x56x24`; "" where it is not known."""
    if not tensor.dtype:
        return ""
    return f"{tensor.dtype} {'x'.join(map(str, tensor.shape)) or 'scalar'}"


def _edits(before: PlannedMemory, after: PlannedMemory, alignment: Alignment) -> Iterator[Edit]:
    if before.subject != after.subject:
        yield Edit("target", f"it is planned as a {after.subject} instead of a {before.subject}")
    yield from _inputs(before, after, alignment)
    yield from _counted("added", after, [k for k in range(len(after.operators)) if k not in alignment.operators])
    kept = set(alignment.operators.values())
    yield from _counted("removed", before, [k for k in range(len(before.operators)) if k not in kept])
    widened: set[int] = set()  # tensors of after that follow from an edit of an operator
    for new, old in sorted(alignment.operators.items()):
        op = after.operators[new]
        follows = any(k in widened for k in op.reads)
        edit = _change(before, after, alignment, (old, new), follows=follows)
        if edit is not None:
            yield edit
        if edit is not None or follows:
            widened |= {k for k in op.writes if k in alignment.tensors and _changed(before, after, alignment, k)}
    if alignment.moved:
        are = "operator runs" if alignment.moved == 1 else "operators run"
        yield Edit("order", f"{alignment.moved:,} {are} at another place in the order")


def _inputs(before: PlannedMemory, after: PlannedMemory, alignment: Alignment) -> Iterator[Edit]:
    written = {k for op in after.operators for k in op.writes}
    for new, old in sorted(alignment.tensors.items()):
        forms = tensor_form(before.tensors[old]), tensor_form(after.tensors[new])
        if new not in written and all(forms) and forms[0] != forms[1]:
            yield Edit("input", f"input {after.tensors[new].name} is {forms[1]} instead of {forms[0]}")


def _counted(kind: Literal["added", "removed"], memory: PlannedMemory, places: list[int]) -> Iterator[Edit]:
    """One edit for each operator, or one for all where there are many."""
    verb = "is new" if kind == "added" else "is gone"
    named = [(op.label, f"{op.type or 'operator'} {op.label}") for op in (memory.operators[k] for k in places)]
    if len(named) <= _NAMED:
        yield from (Edit(kind, f"{text} {verb}", (label,)) for label, text in named)
        return
    types = Counter(memory.operators[k].type or "operator" for k in places)
    counts = join_names(f"{count} {name}" for name, count in types.most_common())
    verb = "are new" if kind == "added" else "are gone"
    yield Edit(kind, f"{len(places):,} operators {verb}: {counts}", tuple(label for label, _ in named))


def _change(
    before: PlannedMemory, after: PlannedMemory, alignment: Alignment, pair: tuple[int, int], *, follows: bool
) -> Edit | None:
    """What was changed in an operator; `follows`: its inputs are what another change has made them."""
    was, now = before.operators[pair[0]], after.operators[pair[1]]
    reads = [alignment.tensors.get(k, -1) for k in now.reads]
    if was.reads != tuple(reads):
        return _rewired(before, after, was, now, reads)
    changed = [k for k in now.reads if _changed(before, after, alignment, k)]
    label = (now.label,)
    if not changed:
        forms = [
            (tensor_form(before.tensors[alignment.tensors[k]]), tensor_form(after.tensors[k]))
            for k in now.writes
            if k in alignment.tensors and _changed(before, after, alignment, k)
        ]
        if forms:
            what = join_names(f"{b} instead of {a}" for a, b in forms)
            return Edit("resized", f"{_named(now)} gives {what}{_weights(was, now)}", label)
    dtypes = all(before.tensors[alignment.tensors[k]].dtype == after.tensors[k].dtype for k in now.reads)
    # Weights do not grow with an image, so that other weights behind a larger image are a change of their own.
    if was.weights != now.weights and not follows and dtypes:
        return Edit("weights", f"{_named(now)} has other weights{_weights(was, now)}", label)
    return None


def _changed(before: PlannedMemory, after: PlannedMemory, alignment: Alignment, tensor: int) -> bool:
    """Whether a tensor of after has another shape or dtype than before."""
    was, now = before.tensors[alignment.tensors[tensor]], after.tensors[tensor]
    return (was.dtype, was.shape) != (now.dtype, now.shape)


def _rewired(
    before: PlannedMemory, after: PlannedMemory, was: MemoryOperator, now: MemoryOperator, reads: list[int]
) -> Edit:
    more = [after.tensors[k].name for k, old in zip(now.reads, reads, strict=True) if old not in was.reads]
    less = [before.tensors[k].name for k in was.reads if k not in reads]
    if not more and not less:
        text = "reads the same tensors in another order"
    elif more and less:
        text = f"reads {join_names(more)} instead of {join_names(less)}"
    else:
        text = f"{'also reads' if more else 'no longer reads'} {join_names(more or less)}"
    return Edit("rewired", f"{_named(now)} {text}", (now.label,))


def _named(op: MemoryOperator) -> str:
    return f"{op.type} {op.label}" if op.type and op.type != op.label else op.label


def _weights(was: MemoryOperator, now: MemoryOperator) -> str:
    if was.weights == now.weights:
        return ""
    return f" (weights {size_text(now.weights)} instead of {size_text(was.weights)})"
