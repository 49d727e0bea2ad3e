"""Which tensors of an operator in LiteRT may lie inside others: slices, splits and pieces of concatenations.

The rules are those of `edgemem.model.slots`. LiteRT shows no options of operators: the axis of a concatenation follows
from its shapes, and begins and axes are read from constant inputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgemem.model.graph import Attribute, TensorKind
    from edgemem.model.slots import Slot
    from edgemem.runtime.litert.probe_data import ProbedTensor

__all__ = ["SLOTTED", "slots_of"]

SLOTTED: Final = frozenset({"CONCATENATION", "SLICE", "SPLIT", "SPLIT_V"})
_AXES: Final = {"SPLIT": 0, "SPLIT_V": 2}  # the input that holds the axis


def slots_of(
    native: Any, tensors: Sequence[ProbedTensor], kind: str, inputs: Sequence[int], outputs: Sequence[int]
) -> tuple[Slot, ...]:
    """The slots of an operator; () for one that is not out of SLOTTED.

    Args:
        native: the native interpreter, with allocated tensors.
        tensors: of its main subgraph.
        kind: the operator's type.
        inputs: indices of tensors.
        outputs: indices of tensors.
    """
    used = list(dict.fromkeys((*inputs, *outputs)))
    if kind not in SLOTTED or not outputs or min(used) < 0 or set(inputs) & set(outputs):
        return ()
    # Loaded here: few models have such operators.
    from edgemem.model.graph import Graph, Op, Tensor
    from edgemem.model.slots import Slot, find_slots

    shown = tuple(Tensor(str(index), *_shown(native, tensors, index)) for index in used)
    mine = [[used.index(index) for index in indices] for indices in (inputs, outputs)]
    attributes = _attributes(native, tensors, kind, inputs, outputs)
    op = Op(kind, kind, tuple(mine[0]), tuple(mine[1]), attributes=attributes)
    slots = find_slots(Graph(kind, shown, (op,), tuple(dict.fromkeys(mine[0])), ()), op)
    return tuple(Slot(used[slot.piece], used[slot.whole], slot.delta) for slot in slots)


def _shown(native: Any, tensors: Sequence[ProbedTensor], index: int) -> tuple[str, tuple[int, ...], TensorKind]:
    """A tensor's element type, shape and kind."""
    tensor = tensors[index]
    dtype = np.dtype(_called(native.TensorType, index)).name
    return dtype, tensor.shape, "activation" if tensor.allocation == "arena" else "constant"


def _attributes(
    native: Any, tensors: Sequence[ProbedTensor], kind: str, inputs: Sequence[int], outputs: Sequence[int]
) -> Mapping[str, Attribute]:
    """What decides which bytes it copies, as far as it can be seen."""
    result = tensors[outputs[0]].shape
    if kind == "CONCATENATION":
        # One of uint8 may scale what it copies.
        is_plain = np.dtype(_called(native.TensorType, outputs[0])) != np.uint8
        axis = _joined([tensors[i].shape for i in inputs], result) if is_plain else None
        return {} if axis is None else {"axis": axis}
    place = 1 if kind == "SLICE" else _AXES[kind]
    if len(inputs) <= place or tensors[inputs[place]].allocation != "constant":
        return {}
    numbers = tuple(int(n) for n in np.ravel(_called(native.GetTensor, inputs[place])))
    if kind == "SLICE":
        return {"begin": numbers, "size": result}
    return {"axis": numbers[0] % len(result)} if len(numbers) == 1 and result else {}


def _joined(pieces: Sequence[tuple[int, ...]], whole: tuple[int, ...]) -> int | None:
    """The only dimension along which the pieces can have been put together; None if there is none, or several."""
    if any(len(piece) != len(whole) for piece in pieces):
        return None
    axes = [k for k in range(len(whole)) if any(piece[k] != whole[k] for piece in pieces)]
    return axes[0] if len(axes) == 1 and sum(piece[axes[0]] for piece in pieces) == whole[axes[0]] else None


def _called(method: Any, index: int) -> Any:
    """What a method says of a tensor of the main subgraph; older interpreters know no subgraphs."""
    try:
        return method(index, 0)
    except TypeError:
        return method(index)
