"""Changes to an ONNX file as bytes: the order of its nodes, its weights brought in, the sizes of its values."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from google.protobuf.message import EncodeError  # type: ignore[import-untyped]
from onnx import ModelProto, TensorProto

from edgemem.errors import ModelError
from edgemem.model.topological_order import ranked_order
from edgemem_converters.onnx.drawn_names import settle_names
from edgemem_converters.onnx.external_data import tensors
from edgemem_converters.onnx.functions import drop_values
from edgemem_converters.onnx.limits import MAX_FILE_BYTES
from edgemem_converters.onnx.parts import ModelParts, value_info
from edgemem_converters.onnx.scopes import scope_of
from edgemem_converters.onnx.weights import external_size, with_values
from edgemem_converters.onnx.wire import permute_nodes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgemem.formats import OpenForm

__all__ = ["completed", "outlined", "prioritised", "priority_order", "reordered", "with_forms"]

# ONNX Runtime runs these as soon as their input is there.
_HOISTED = ("Shape", "Size")


def priority_order(data: bytes) -> tuple[int, ...]:
    """The order in which ONNX Runtime's PRIORITY_BASED execution takes the nodes of a file.

    Kahn's algorithm; of the nodes that are ready, `Shape` and `Size` come first, then the one that stands first in
    the file. For a graph without those two it is the file's own order.
    """
    model = ModelProto.FromString(data)
    nodes = scope_of(model, Path())[0].nodes
    writer = {name: k for k, node in enumerate(nodes) for name in node.outputs if name}
    waits = [{writer[n] for n in (*node.inputs, *node.captured) if n in writer} for node in nodes]
    return ranked_order(waits, [int(node.proto.op_type not in _HOISTED) for node in nodes])


def reordered(data: bytes, order: Sequence[int]) -> bytes:
    """The file with its nodes (Constant nodes first) in this order, every node under a name of its own."""
    parts = ModelParts(data, Path())
    named = data if parts.is_named else parts.named()  # copies of the weights take long
    positions = parts.positions(order)
    return named if positions == tuple(range(len(positions))) else permute_nodes(named, positions)


def prioritised(data: bytes) -> bytes:
    """The file, which `reordered` gave, with its nodes in the order of `priority_order`."""
    order = priority_order(data)
    return data if order == tuple(range(len(order))) else reordered(data, order)


def completed(data: bytes, inputs: Sequence[str], folder: Path) -> bytes:
    """A file that ONNX Runtime saved, with all weights inside, and its inserted nodes named after what they write.

    Graph inputs that are not in `inputs` are removed: they belonged to initializers that were optimised away.
    Weights in files in `folder` are copied into the file. Raises ModelError if they cannot be read, or are too large
    for one file.
    """
    model = ModelProto.FromString(data)
    kept = [i for i in model.graph.input if i.name in inputs]
    external = [t for t in tensors(model) if t.data_location == TensorProto.EXTERNAL]
    is_named_anew = settle_names(model.graph)
    if len(kept) == len(model.graph.input) and not external and not is_named_anew:
        return data
    del model.graph.input[:]
    model.graph.input.extend(kept)
    if sum(map(external_size, external)) > MAX_FILE_BYTES:
        raise ModelError("the model's weights cannot be brought into one file: protobuf allows no file so large")
    try:
        for tensor in external:
            tensor.CopyFrom(with_values(tensor, folder))
        return bytes(model.SerializeToString(deterministic=True))
    except (OSError, ValueError, EncodeError) as e:
        raise ModelError(f"the model's weights cannot be brought into one file: {e}") from None


def outlined(data: bytes) -> bytes:
    """The file without the values of its large weights: right for planning, and of no use to a runtime."""
    model = ModelProto.FromString(data)
    drop_values(model)
    return bytes(model.SerializeToString(deterministic=True))


def with_forms(data: bytes, forms: Mapping[str, OpenForm]) -> bytes:
    """The model with dtype and shape of these values declared; inputs and outputs among them get these types alone."""
    model = ModelProto.FromString(data)
    graph = model.graph
    kept = [v for v in graph.value_info if v.name not in forms]
    ends = {v.name: v for v in (*graph.input, *graph.output)}
    for name in ends.keys() & forms.keys():
        ends[name].CopyFrom(value_info(name, forms[name]))
    del graph.value_info[:]
    made = [*kept, *(value_info(n, f) for n, f in forms.items() if n not in ends)]
    graph.value_info.extend(sorted(made, key=lambda v: v.name))  # ONNX Runtime's order changes with every process
    return bytes(model.SerializeToString(deterministic=True))
