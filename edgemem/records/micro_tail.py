"""The tail of TensorFlow Lite Micro's arena, predicted from a graph: what lives as long as the interpreter.

Every tensor has a `TfLiteEvalTensor` and every operator a node. As an operator is prepared, its options are copied out
of the file, and its kernel allocates a structure of its own; convolutions also allocate a multiplier and a shift for
every output channel, so that each further convolution costs memory by its channels. What kernels allocate is aligned to
16 bytes. The sizes of structures are those of a build (`edgemem.records.micro_builds`): with the 32-bit pointers of
microcontrollers the tail is about two thirds of that on a computer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from edgemem.records.micro_builds import structures_of
from edgemem.records.sizes import padded, tensor_bytes
from edgemem.targets import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from edgemem.model.graph import Graph, Op
    from edgemem.records.micro_builds import MicroBuild

__all__ = ["kind_bytes", "operator_bytes", "predicted_tail"]

_ALIGNMENT: Final = 16
# Where the output channels are among the dimensions of the weights.
_CHANNELS: Final[Mapping[str, int]] = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "TRANSPOSE_CONV": 0}
# How many pieces of workspace a kernel asks for, and how many more where its input is quantised.
_PIECES: Final[Mapping[str, tuple[int, int]]] = {
    "ADD_N": (1, 0),
    "MEAN": (2, 1),
    "MIRROR_PAD": (2, 0),
    "REDUCE_ALL": (2, 0),
    "REDUCE_MAX": (2, 0),
    "REDUCE_MIN": (2, 0),
    "SUM": (2, 1),
    "SVDF": (1, 1),
    "TRANSPOSE_CONV": (0, 1),
    "UNIDIRECTIONAL_SEQUENCE_LSTM": (4, 0),
}
# Operators whose output gets a copy of its dimensions.
_COPIED: Final = frozenset(
    (
        "BATCH_MATMUL",
        "DEPTH_TO_SPACE",
        "EMBEDDING_LOOKUP",
        "GATHER",
        "GATHER_ND",
        "L2_POOL_2D",
        "SPACE_TO_DEPTH",
    )
)
_INTEGERS: Final = frozenset(("int8", "uint8", "int16"))


def predicted_tail(graph: Graph, build: MicroBuild) -> int:
    """Bytes of the tail for the graph of a .tflite file, bodies included, with reference kernels.

    In a rewritten graph (`edgemem.model.rewrite`) the constants that tell a SLICE or a PAD what to do are not among the
    tensors; each is counted once, as it will be in the file.
    """
    total = build.interpreter + _of_variables(graph, build) + build.tensor * _left_out(graph)
    total += sum(_of_subgraph(each, build) for each in _subgraphs(graph))
    operators = [(each, op) for each in _subgraphs(graph) for op in each.ops]
    handles = build.pointer * sum(_pieces(each, op) for each, op in operators)
    sizes = (structures_of(op.type, build)[1] for _, op in operators)
    first = next(filter(None, sizes), 0)  # the first structure begins where the options end
    total = padded(total - handles - padded(first, _ALIGNMENT) + first, _ALIGNMENT) + handles
    for ends in (graph.inputs, graph.outputs):  # a list of pointers, and a tensor for each
        quantised = sum(graph.tensors[i].dtype in _INTEGERS for i in ends)
        total = padded(total + build.pointer * len(ends), _ALIGNMENT)
        total += build.end * len(ends) + build.quantised * quantised
    return total


def kind_bytes(kind: str, build: MicroBuild) -> int:
    """What an operator of a kind, such as `ADD`, adds to the tail at the least, in bytes, without its tensors."""
    options, structure = structures_of(kind, build)
    return build.node + options + padded(structure, _ALIGNMENT)


def operator_bytes(graph: Graph, op: Op, build: MicroBuild) -> int:
    """What an operator adds to the tail, in bytes, without its tensors.

    Args:
        graph: which the operator's tensors are in; the tensor of weights must be among them.
        op: the operator.
        build: which TensorFlow Lite Micro it is.
    """
    total = kind_bytes(op.type, build)
    axis = _CHANNELS.get(op.type)
    if axis is not None and len(op.inputs) > 1 and op.inputs[1] >= 0:
        shape = graph.tensors[op.inputs[1]].shape
        total += 2 * padded(4 * shape[axis], _ALIGNMENT) if axis < len(shape) else 0
    if op.type in _COPIED:
        total += padded(4 + 4 * len(graph.tensors[op.outputs[0]].shape), _ALIGNMENT)
    if op.type == "READ_VARIABLE" and op.outputs:
        total += padded(tensor_bytes(graph.tensors[op.outputs[0]], BUILT_IN["tflm"], "nhwc"), _ALIGNMENT)
    return total + build.pointer * _pieces(graph, op)


def _pieces(graph: Graph, op: Op) -> int:
    """How many pieces of workspace an operator's kernel asks for."""
    pieces, more = _PIECES.get(op.type, (0, 0))
    first = graph.tensors[op.inputs[0]].dtype if op.inputs and op.inputs[0] >= 0 else ""
    return pieces + (more if first in _INTEGERS else 0)


def _subgraphs(graph: Graph) -> Iterator[Graph]:
    yield graph
    for op in graph.ops:
        for body in op.bodies:
            yield from _subgraphs(body)


def _of_subgraph(graph: Graph, build: MicroBuild) -> int:
    total = build.subgraph + build.tensor * len(graph.tensors)
    total += sum(operator_bytes(graph, op, build) for op in graph.ops)
    for tensor in graph.tensors:
        if tensor.kind == "variable":
            total += padded(tensor_bytes(tensor, BUILT_IN["tflm"], "nhwc"), _ALIGNMENT)
    return total


def _of_variables(graph: Graph, build: MicroBuild) -> int:
    """The list of the variables that operators read and assign."""
    count = sum(op.type == "READ_VARIABLE" for each in _subgraphs(graph) for op in each.ops)
    return _ALIGNMENT + padded(build.resource * count, _ALIGNMENT) if count else 0


def _left_out(graph: Graph) -> int:
    """How many constants a rewritten graph does not have among its tensors."""
    needed = {"SLICE": ("begin", "size"), "PAD": ("paddings",)}
    values = {
        (op.attributes.get(name), name == "paddings")
        for op in graph.ops
        if len(op.inputs) == 1
        for name in needed.get(op.type, ())
    }
    return len(values)
