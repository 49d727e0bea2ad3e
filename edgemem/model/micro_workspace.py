"""The workspace that TensorFlow Lite Micro's kernels ask for as they are prepared, which no file tells.

The reference kernels are as read in tflite-micro 90b983c2b3f1; CMSIS-NN and ESP-NN replace some of them. Each piece
lives while its operator runs. A few kernels write behind what they ask for. TensorFlow Lite Micro's planner places what
they ask for (`workspace_of`), and a plan has to keep what they write (`written_by`).
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import TYPE_CHECKING, Final

from edgemem.errors import UnsupportedError
from edgemem.model.cmsis_workspace import cmsis_behind, cmsis_overrun, cmsis_workspace
from edgemem.model.esp_workspace import esp_behind, esp_workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from edgemem.model.graph import Graph, Op, Tensor

__all__ = ["with_workspace", "workspace_of", "written_by"]

_DEVICE_POINTER: Final = 4
_INT: Final = 4
# The ranks of the inputs that a kernel cannot be prepared without; 0: any.
_OPERANDS: Final[Mapping[str, tuple[int, ...]]] = {
    **dict.fromkeys(("BATCH_MATMUL", "MEAN", "MIRROR_PAD", "REDUCE_ALL", "REDUCE_MAX", "REDUCE_MIN", "SUM"), (0, 0)),
    **dict.fromkeys(("CONV_2D", "DEPTHWISE_CONV_2D"), (4, 4)),
    "AVERAGE_POOL_2D": (4,),
    "FULLY_CONNECTED": (0, 2),
    "SOFTMAX": (0,),
    "SVDF": (2, 2),
    "TRANSPOSE_CONV": (0, 4, 4),
}
_ELEMENT: Final[Mapping[str, int]] = {"float32": 4, "int16": 2}


def workspace_of(graph: Graph, op: Op, pointer: int = _DEVICE_POINTER, kernels: str = "none") -> tuple[int, ...]:
    """Bytes of each piece of workspace of an operator of a .tflite file, in the order in which its kernel asks.

    Args:
        graph: which the operator's tensors are in, weights included.
        op: the operator.
        pointer: bytes of a pointer of the device.
        kernels: the kernel profile; `none` counts as the reference kernels.
    """
    if not _has_operands(graph, op):
        return ()
    if kernels.startswith("cmsis-nn"):
        found = cmsis_workspace(graph, op, kernels)
        if found is not None:
            return found
    more = esp_workspace(graph, op, kernels) if kernels.startswith("esp-nn") else ()
    rule = _RULES.get(op.type)
    if rule is None:
        return more
    read = [graph.tensors[i] if i >= 0 else None for i in op.inputs]
    made = [graph.tensors[i] if i >= 0 else None for i in op.outputs]
    return (*rule(read, made, pointer), *more)


def _has_operands(graph: Graph, op: Op) -> bool:
    """Whether an operator has a result and the inputs that its kernel needs; no kernel is prepared without them."""
    ranks = _OPERANDS.get(op.type, ())
    if not op.outputs or op.outputs[0] < 0 or len(op.inputs) < len(ranks):
        return False
    given = zip(op.inputs, ranks, strict=False)
    return all(index >= 0 and (not rank or len(graph.tensors[index].shape) == rank) for index, rank in given)


def written_by(graph: Graph, op: Op, pointer: int = _DEVICE_POINTER, kernels: str = "none") -> tuple[int, ...]:
    """Bytes that an operator's kernel may write from the start of each piece of workspace. See `workspace_of`."""
    asked = workspace_of(graph, op, pointer, kernels)
    if not asked:
        return asked
    behind = 0
    if kernels.startswith("cmsis-nn"):
        behind = cmsis_behind(graph, op)
    elif kernels.startswith("esp-nn"):
        behind = esp_behind(graph, op)
    return (asked[0] + behind, *asked[1:])


def with_workspace(graph: Graph, pointer: int = _DEVICE_POINTER, kernels: str = "none") -> Graph:
    """The graph with what each operator writes as workspace in `Op.scratch`, those of bodies included.

    Raises UnsupportedError for an operator whose kernel writes behind its result.
    """
    if kernels.startswith("cmsis-nn"):
        for op in graph.ops:
            overrun = cmsis_overrun(graph, op)
            if overrun:
                raise UnsupportedError(
                    f"the kernel of {kernels} for {op.name or op.type} writes {overrun:,} bytes behind its result, "
                    "which has fewer rows than the kernel makes of its input; use the reference kernel for "
                    "TRANSPOSE_CONV, and plan without a kernel profile"
                )
    return replace(
        graph,
        ops=tuple(
            replace(
                op,
                scratch=written_by(graph, op, pointer, kernels),
                bodies=tuple(with_workspace(body, pointer, kernels) for body in op.bodies),
            )
            for op in graph.ops
        ),
    )


def _is_integer(tensor: Tensor | None) -> bool:
    return tensor is not None and tensor.dtype in ("int8", "int16")


def _elements(tensor: Tensor | None) -> int:
    return prod(tensor.shape) if tensor is not None else 0


def _rank(tensor: Tensor | None) -> int:
    return len(tensor.shape) if tensor is not None else 0


def _sums(read: list[Tensor | None], made: list[Tensor | None], _: int) -> tuple[int, ...]:
    """MEAN and SUM: sums of integers in 32 bits, and as every reduction, a place in the input and the axes."""
    sums = (_INT * _elements(made[0]),) if _is_integer(read[0]) else ()
    return (*sums, *_places(read, made, _))


def _places(read: list[Tensor | None], _made: list[Tensor | None], _: int) -> tuple[int, ...]:
    return (_INT * _rank(read[0]), _INT * _elements(read[1]))


def _mirrored(read: list[Tensor | None], _made: list[Tensor | None], _: int) -> tuple[int, ...]:
    return (_INT * _rank(read[0]),) * 2


def _pointers(read: list[Tensor | None], _made: list[Tensor | None], pointer: int) -> tuple[int, ...]:
    return (pointer * len(read),)


def _transposed(read: list[Tensor | None], made: list[Tensor | None], _: int) -> tuple[int, ...]:
    """TRANSPOSE_CONV: a sum for each element of the result; in 16 bits, biases of 16 bits as wide as the sums."""
    image = read[2]
    if not _is_integer(image) or image is None:
        return ()
    width = 8 if image.dtype == "int16" else 4
    bias = read[3] if len(read) > 3 else None
    widened = (width * _elements(bias),) if bias is not None and bias.dtype == "int16" else ()
    return (width * _elements(made[0]), *widened)


def _svdf(read: list[Tensor | None], made: list[Tensor | None], _: int) -> tuple[int, ...]:
    rows, features = read[0], read[1]
    if rows is None or features is None:
        return ()
    filters = _INT * rows.shape[0] * features.shape[0]
    return (filters, _INT * _elements(made[0])) if rows.dtype == "int8" else (filters,)


def _lstm(read: list[Tensor | None], _made: list[Tensor | None], _: int) -> tuple[int, ...]:
    """UNIDIRECTIONAL_SEQUENCE_LSTM: four times what is as large as the cells' state, its 20th input."""
    state = read[19] if len(read) > 19 else None
    if state is None:
        return ()
    return (_ELEMENT.get(state.dtype, 4) * _elements(state),) * 4


def _unpacked(read: list[Tensor | None], _made: list[Tensor | None], _: int) -> tuple[int, ...]:
    """Weights of four bits, a byte each."""
    weights = read[1]
    return (_elements(weights),) if weights is not None and weights.dtype == "int4" else ()


def _transform(read: list[Tensor | None], made: list[Tensor | None], _: int) -> tuple[int, ...]:
    """SignalRfft: its input padded to the length of the transform, half of which and one complex numbers it makes."""
    result = made[0]
    if not read or result is None or not result.shape:
        return ()
    return (_ELEMENT.get(result.dtype, 4) * max(result.shape[-1] - 2, 0),)


def _detected(read: list[Tensor | None], made: list[Tensor | None], _: int) -> tuple[int, ...]:
    """TFLite_Detection_PostProcess: numbers of boxes and classes, and of boxes for each detection that there may be."""
    ends = [tensor.shape for tensor in (*read[:2], *made[:1]) if tensor is not None]
    if [len(shape) for shape in ends] != [3, 3, 3]:
        return ()
    boxes, classes, most = ends[0][1], ends[1][2], ends[2][1]
    sizes = (16 * boxes, 4 * ends[1][1] * classes, 4 * boxes, 4 * boxes, *(4 * most * boxes,) * 2, 4 * boxes)
    return (boxes, *sizes, 4 * most * boxes, 4 * max(classes - 1, most) * boxes, 4 * min(boxes, most) * boxes)


_RULES: Final[Mapping[str, Callable[[list[Tensor | None], list[Tensor | None], int], tuple[int, ...]]]] = {
    "ADD_N": _pointers,
    "CONV_2D": _unpacked,
    "DEPTHWISE_CONV_2D": _unpacked,
    "FULLY_CONNECTED": _unpacked,
    "MEAN": _sums,
    "MIRROR_PAD": _mirrored,
    "REDUCE_ALL": _places,
    "REDUCE_MAX": _places,
    "REDUCE_MIN": _places,
    "SUM": _sums,
    "SignalRfft": _transform,
    "TFLite_Detection_PostProcess": _detected,
    "SVDF": _svdf,
    "TRANSPOSE_CONV": _transposed,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": _lstm,
}
