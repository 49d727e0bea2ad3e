"""The tail of TensorFlow Lite Micro's arena, predicted from a graph: what lives as long as the interpreter.

Every tensor has a `TfLiteEvalTensor` and every operator a node. As an operator is prepared, its options are copied out
of the file, and its kernel allocates a structure of its own; convolutions also allocate a multiplier and a shift for
every output channel, so that each further convolution costs memory by its channels. What kernels allocate is aligned to
16 bytes. Each piece lies below the last one, from the end of the arena, so that padding depends on the order. The sizes
of structures are those of a build (`edgemem.records.micro_builds`): with the 32-bit pointers of microcontrollers the
tail is smaller than on a computer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from edgemem.model.micro_workspace import workspace_of
from edgemem.model.resource_variables import variable_of, variables_of
from edgemem.records.micro_builds import options_alignment, structures_of
from edgemem.records.micro_custom import custom_sizes
from edgemem.records.sizes import padded, tensor_bytes
from edgemem.targets import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from edgemem.model.graph import Graph, Op, Tensor
    from edgemem.records.micro_builds import MicroBuild
    from edgemem.targets import Target

__all__ = [
    "TailStages",
    "channels_of",
    "has_tail",
    "kind_bytes",
    "operator_bytes",
    "predicted_tail",
    "scales_of",
    "subgraphs_of",
    "tail_stages",
    "workspace_pieces",
    "zero_points",
]

_MICRO: Final = "tflm"
_ALIGNMENT: Final = 16
# Where the output channels are among the dimensions of the weights.
_CHANNELS: Final[Mapping[str, int]] = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "TRANSPOSE_CONV": 0}
_QUANTISED_CHANNELS: Final = frozenset(("CONV_2D", "DEPTHWISE_CONV_2D"))  # those of CMSIS-NN keep none for float32
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
# Kernels that have a structure for quantised inputs alone.
_QUANTISED: Final = frozenset(("ADD_N", "LOG_SOFTMAX"))
_PRODUCT: Final = 28  # bytes of the multipliers of a quantised product
_TABLE: Final = 2 * 513  # bytes of a table of a softmax of int16
_INTEGERS: Final = frozenset(("int4", "int8", "uint8", "int16"))
_INT: Final = 4
_LSTM: Final = "UNIDIRECTIONAL_SEQUENCE_LSTM"
_SUMS: Final[Mapping[str, int]] = {"int8": 4, "int16": 8}  # bytes of a sum, by the element type of inputs


def has_tail(default_target: str, target: Target) -> bool:
    """Whether a runtime has a tail: TensorFlow Lite Micro, or that of a device that a user's own target describes.

    Args:
        default_target: of the model's format.
        target: whose rules count memory.
    """
    is_micro = target.name == _MICRO or target.name not in BUILT_IN
    return default_target == _MICRO and is_micro and target.is_dense


def predicted_tail(graph: Graph, build: MicroBuild) -> int:
    """Bytes of the tail for the graph of a .tflite file, bodies included. See `tail_stages`."""
    return tail_stages(graph, build).total


def tail_stages(graph: Graph, build: MicroBuild, used: int = 0) -> TailStages:
    """The tail for the graph of a .tflite file, bodies included, with the kernels of the build.

    `used` is the tail of interpreters that were prepared before in the same arena, with the same `MicroAllocator`.
    In a rewritten graph (`edgemem.model.rewrite`) the constants that tell a SLICE or a PAD what to do are not among the
    tensors; each is counted once, as it will be in the file.
    """
    graphs = subgraphs_of(graph)
    operators = [(each, op) for each in graphs for op in each.ops]
    tail = _Pieces(used or build.interpreter - build.options)
    variables = variables_of(operators)
    if variables:
        tail.take(build.variables, _ALIGNMENT)
        tail.take(build.resource * variables, _ALIGNMENT)
    tail.take(build.options, build.pointer)
    tail.take(build.subgraph * len(graphs), build.pointer)
    for each in graphs:
        tail.take(build.tensor * (len(each.tensors) + (_left_out(graph) if each is graph else 0)), build.pointer)
    for each in graphs:
        tail.take(build.node * len(each.ops), build.pointer)
    for _, op in operators:
        tail.take(structures_of(op.type, build)[0], options_alignment(op.type, build))
    for each, op in operators:
        for size in _kernel_sizes(each, op, build):
            tail.take(size, _ALIGNMENT)
    for size in _variable_sizes(operators):
        tail.take(size, _ALIGNMENT)
    tail.take(build.pointer * workspace_pieces(operators, build), build.pointer)
    for each in graphs:
        for tensor in each.tensors:
            if tensor.kind == "variable":
                tail.take(tensor_bytes(tensor, BUILT_IN["tflm"], "nhwc"), _ALIGNMENT)
    planned = tail.used
    for ends in (graph.inputs, graph.outputs):  # a list of pointers, and a tensor for each
        tail.take(build.pointer * len(ends), _ALIGNMENT)
        for tensor in (graph.tensors[i] for i in ends):
            tail.take(build.end, build.pointer)
            scales = scales_of(tensor)
            if scales:
                tail.take(build.quantised - zero_points(1), build.pointer)
                tail.take(zero_points(scales), _INT)
    return TailStages(tail.used, planned)


@dataclass(frozen=True, slots=True)
class TailStages:
    """Bytes of the tail at two times.

    Attributes:
        total: when the model is prepared.
        planned: while the memory planner runs, before there is anything for inputs and outputs.
    """

    total: int
    planned: int


@dataclass(slots=True)
class _Pieces:
    """The end of an arena, of which pieces are taken downwards."""

    used: int = 0

    def take(self, size: int, alignment: int) -> None:
        if size:
            self.used = padded(self.used + size, alignment)


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
    options = structures_of(op.type, build)[0]
    pieces = build.pointer * workspace_pieces([(graph, op)], build)
    return build.node + options + pieces + sum(padded(size, _ALIGNMENT) for size in _kernel_sizes(graph, op, build))


def workspace_pieces(operators: Iterable[tuple[Graph, Op]], build: MicroBuild) -> int:
    """How many pieces of workspace operators, each with its graph, ask for."""
    return sum(len(workspace_of(graph, op, build.pointer, build.kernels)) for graph, op in operators)


def _kernel_sizes(graph: Graph, op: Op, build: MicroBuild) -> Iterator[int]:
    """What an operator's kernel allocates for good."""
    custom = custom_sizes(graph, op, build.pointer)
    if custom is not None:
        yield from custom
        return
    first = graph.tensors[op.inputs[0]].dtype if op.inputs and op.inputs[0] >= 0 else ""
    if op.type not in _QUANTISED or first in _INTEGERS:
        yield structures_of(op.type, build)[1]
    channels, is_cmsis = channels_of(graph, op), build.kernels.startswith("cmsis-nn")
    has_none = is_cmsis and first == "float32" and op.type in _QUANTISED_CHANNELS
    if (channels > 1 or op.type in _CHANNELS) and not has_none:
        yield from (4 * channels,) * 2
    if op.type == "BATCH_MATMUL":
        yield from _transposed_sizes(graph, op, build)
        if first in _INTEGERS:
            yield _PRODUCT
    if op.type == "SOFTMAX" and first == "int16":
        yield from (_TABLE,) * 2
    if not op.outputs or op.outputs[0] < 0:
        return
    if op.type == _LSTM and is_cmsis and first in _SUMS:  # of each row of weights
        yield from (_SUMS[first] * graph.tensors[op.outputs[0]].shape[-1],) * 8
    if op.type in _COPIED:
        yield 4 + 4 * len(graph.tensors[op.outputs[0]].shape)


def _variable_sizes(operators: Iterable[tuple[Graph, Op]]) -> Iterator[int]:
    """Resource variables, each where it is assigned first by an operator whose handle VAR_HANDLE makes."""
    found = set()
    for graph, op in operators:
        variable = variable_of(graph, op) if op.type == "ASSIGN_VARIABLE" else ""
        if variable and variable not in found and len(op.inputs) > 1:
            found.add(variable)
            yield tensor_bytes(graph.tensors[op.inputs[1]], BUILT_IN["tflm"], "nhwc")


def _transposed_sizes(graph: Graph, op: Op, build: MicroBuild) -> Iterator[int]:
    """Operands of a product that are kept transposed, each with its tensor and dimensions."""
    for index, is_kept in zip(op.inputs, (op.attributes.get("adj_x"), not op.attributes.get("adj_y")), strict=False):
        if is_kept and index >= 0:
            tensor = graph.tensors[index]
            yield from (build.tensor, 4 + 4 * len(tensor.shape), tensor_bytes(tensor, BUILT_IN["tflm"], "nhwc"))


def scales_of(tensor: Tensor) -> int:
    """How many scales a tensor has to TensorFlow Lite Micro; where that is not known, as its element type suggests."""
    return tensor.scales if tensor.scales >= 0 else int(tensor.dtype in _INTEGERS)


def zero_points(scales: int) -> int:
    """Bytes of the list of a tensor's zero points, one for each scale."""
    return _INT * (1 + scales)


def channels_of(graph: Graph, op: Op) -> int:
    """For how many output channels an operator's weights have a scale of their own; 1 for other operators."""
    scales = op.attributes.get("scales", 1)
    axis = _CHANNELS.get(op.type)
    if axis is None or len(op.inputs) < 2 or op.inputs[1] < 0:
        return scales if isinstance(scales, int) else 1
    shape = graph.tensors[op.inputs[1]].shape
    return shape[axis] if axis < len(shape) else 1


def subgraphs_of(graph: Graph) -> list[Graph]:
    """The graphs of a .tflite file, bodies and those that no operator runs, each once, in the order of the file."""
    found: dict[int, Graph] = {}

    def visit(each: Graph) -> None:
        number = each.number if each.number >= 0 else len(found)
        if number not in found:
            found[number] = each
            for op in each.ops:
                for body in op.bodies:
                    visit(body)

    visit(graph)
    for other in graph.others:
        visit(other)
    return [each for _, each in sorted(found.items())]


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
