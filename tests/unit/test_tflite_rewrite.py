"""Rewritten .tflite files: what is new is written once, what nothing uses is gone, and everything else stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

import flatbuffers
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter

from edgemem import api
from edgemem.errors import ModelError, UnsupportedError
from edgemem.formats import Bindings, Rewritable
from edgemem.model.graph import Graph, Op, Tensor
from edgemem.model.rewrite import NEW, Rewrite
from edgemem.passes.streaming.stream import StripeStage, stream
from edgemem_converters.tflite import TfliteConverter
from edgemem_converters.tflite.control import CONTROL, encode_control
from edgemem_converters.tflite.reader import read
from tests.row_models import RowNet
from tests.tflite_models import ADD_OPTIONS, M, O, S, T, build

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def network(*, int8: bool = True) -> bytes:
    """Two padded convolutions, an unpadded one, and an output in the middle."""
    net = RowNet(int8, np.random.default_rng(0))
    x = net.input(24, 8, 4)
    y = net.conv(x, 8, (3, 3), (1, 1), (1, 1), same=True, depthwise=False)
    z = net.conv(y, 1, (3, 3), (2, 2), (1, 1), same=True, depthwise=True)
    return net.content([y, net.conv(z, 4, (1, 1), (1, 1), (1, 1), same=True, depthwise=False)])


def rewritten(data: bytes, *stages: StripeStage) -> bytes:
    model = TfliteConverter.from_bytes(data)
    assert isinstance(model, Rewritable)
    return model.rewritten(stream(model.graph(), stages)).content()


def unpacked(data: bytes) -> Any:
    return schema.ModelT.InitFromObj(schema.Model.GetRootAs(data, 0))


def types_of(model: Any, operators: Sequence[Any]) -> list[str]:
    names = {v: k for k, v in vars(schema.BuiltinOperator).items() if isinstance(v, int)}
    return [names[model.operatorCodes[op.opcodeIndex].builtinCode] for op in operators]


@pytest.mark.parametrize("int8", [False, True])
def test_operators_and_tensors_of_a_streamed_file(int8: bool) -> None:
    data = network(int8=int8)
    graph = TfliteConverter.from_bytes(data).graph()
    rewrite = stream(graph, [StripeStage(0, 2, 4)])
    new = unpacked(rewritten(data, StripeStage(0, 2, 4)))
    main = new.subgraphs[0]
    assert types_of(new, main.operators) == [op.type for op in rewrite.graph.ops]
    assert [list(t.shape) for t in main.tensors[: len(rewrite.graph.tensors)]] == [
        list(t.shape) for t in rewrite.graph.tensors
    ]
    old = unpacked(data).subgraphs[0]
    for tensor, like in zip(main.tensors, rewrite.likes, strict=False):
        assert tensor.type == old.tensors[like].type
        before, after = old.tensors[like].quantization, tensor.quantization
        assert (before is None) == (after is None)
        if before is not None:
            assert list(after.scale) == list(before.scale)
            assert list(after.zeroPoint) == list(before.zeroPoint)
    for op, kind in zip(main.operators, types_of(new, main.operators), strict=True):
        if kind in ("CONV_2D", "DEPTHWISE_CONV_2D"):
            assert op.builtinOptions.padding == schema.Padding.VALID
        if kind == "CONCATENATION":
            assert op.builtinOptions.axis == 1
        if int8 and kind in ("SLICE", "PAD", "CONCATENATION"):
            assert new.operatorCodes[op.opcodeIndex].version == 2


def test_the_file_read_again_has_the_attributes_of_the_rewrite() -> None:
    data = network()
    rewrite = stream(TfliteConverter.from_bytes(data).graph(), [StripeStage(0, 2, 4)])
    again = TfliteConverter.from_bytes(rewritten(data, StripeStage(0, 2, 4))).graph()
    assert [op.attributes for op in again.ops] == [op.attributes for op in rewrite.graph.ops]
    names = [t.name for t in again.tensors]
    assert names[: len(rewrite.graph.tensors)] == [t.name for t in rewrite.graph.tensors]
    assert len(set(names)) == len(names)


def test_equal_constants_are_stored_once_and_nothing_is_unused() -> None:
    file = read(rewritten(network(), StripeStage(0, 2, 12)))
    main = file.subgraphs[0]
    used = {i for op in main.operators for i in (*op.inputs, *op.outputs)} | {*main.inputs, *main.outputs}
    assert used == set(range(len(main.tensors)))
    contents = []
    for tensor in main.tensors:
        buffer = file.buffers[tensor.buffer]
        if buffer.size and tensor.type == schema.TensorType.INT32:
            contents.append((tensor.shape, file.data[buffer.start : buffer.start + buffer.size]))
    assert len(contents) > 10
    assert len(set(contents)) == len(contents)
    assert {t.buffer for t in main.tensors} | {0} == set(range(len(file.buffers)))


def test_files_are_the_same_every_time_and_small() -> None:
    data = network()
    graph = TfliteConverter.from_bytes(data).graph()
    once = rewritten(data, StripeStage(0, 2, 12))
    assert rewritten(data, StripeStage(0, 2, 12)) == once
    added = len(TfliteConverter.from_bytes(once).graph().ops) - len(graph.ops)
    assert len(once) - len(data) < 170 * added


def with_parts(data: bytes) -> bytes:
    """A file with signatures, metadata and a second subgraph."""
    model = unpacked(data)
    model.buffers += [schema.BufferT(np.frombuffer(b"note", np.uint8)), schema.BufferT(np.frombuffer(b"old", np.uint8))]
    model.metadata = [schema.MetadataT(b"note", len(model.buffers) - 2)]
    model.metadata.append(schema.MetadataT(b"OfflineMemoryAllocation", len(model.buffers) - 1))
    main = model.subgraphs[0]
    ends = (
        [schema.TensorMapT(f"in{i}", int(i)) for i in main.inputs],
        [schema.TensorMapT(f"out{i}", int(i)) for i in main.outputs],
    )
    model.signatureDefs = [schema.SignatureDefT(*ends, "serve", 0)]
    other = schema.SubGraphT([schema.TensorT(np.array([1], np.int32), name="alone")], [0], [0], [], "other")
    model.subgraphs.append(other)
    import flatbuffers

    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def test_signatures_metadata_and_other_subgraphs_stay() -> None:
    new = unpacked(rewritten(with_parts(network()), StripeStage(1, 2, 4)))
    assert [entry.name for entry in new.metadata] == [b"note"]
    assert bytes(new.buffers[new.metadata[0].buffer].data) == b"note"
    assert [s.name for s in new.subgraphs] == [b"main", b"other"]
    main, signature = new.subgraphs[0], new.signatureDefs[0]
    assert [m.tensorIndex for m in signature.inputs] == list(main.inputs)
    assert [m.tensorIndex for m in signature.outputs] == list(main.outputs)
    assert all(bytes(b.data) != b"old" for b in new.buffers if b.data is not None)


def test_the_plan_of_the_old_graph_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "planned.tflite"
    path.write_bytes(network())
    model = TfliteConverter.open(path, Bindings())
    api.save(model, api.plan(model), path)
    planned = TfliteConverter.open(path, Bindings())
    assert planned.plan() is not None
    assert planned.offline()
    new = planned.rewritten(stream(planned.graph(), [StripeStage(0, 1, 3)]))
    assert new.plan() is None
    assert new.offline() == {}
    assert b"OfflineMemoryAllocation" not in new.content()


def test_control_dependencies_number_the_operators_anew() -> None:
    tensors = [T(name, shape=(1, 4, 4, 4)) for name in "xyzr"]
    file = build(
        M(
            [
                S(
                    tensors,
                    [O("RELU", (0,), (1,)), O("RELU", (1,), (2,)), O("ADD", (2, 2), (3,), ADD_OPTIONS)],
                    (0,),
                    (3,),
                )
            ],
            metadata={CONTROL: encode_control([((1, 2),)])},
        )
    )
    converter = TfliteConverter.from_bytes(file)
    rewrite = stream(converter.graph(), [StripeStage(0, 0, 2)])
    again = converter.rewritten(rewrite)
    count = len(rewrite.graph.ops)
    assert again.graph().precedence == ((count - 2, count - 1),)


def test_what_a_file_cannot_say_is_refused() -> None:
    data = build(M([S([T("x", shape=(1, 4)), T("y", shape=(1, 4))], [O("RELU", (0,), (1,))], (0,), (1,))]))
    model = TfliteConverter.from_bytes(data)
    x, y = Tensor("x", "float32", (1, 4)), Tensor("y", "float32", (1, 4))
    for op_type, why in (("GELU", "adds GELU"), ("SLICE", "no begin"), ("CONCATENATION", "no axis")):
        graph = Graph("main", (x, y), (Op("new", op_type, (0,), (1,)),), (0,), (1,), "nhwc")
        with pytest.raises(UnsupportedError, match=why):
            model.rewritten(Rewrite(graph, (NEW,), (0, 1)))
    with pytest.raises(ModelError, match="not of the graph"):
        model.rewritten(Rewrite(model.graph(), (0,), (0, 7)))
    resized = TfliteConverter.from_bytes(data, Bindings(input_shapes={"x": (2, 4)}))
    with pytest.raises(UnsupportedError, match="own sizes"):
        resized.rewritten(Rewrite(model.graph(), (0,), (0, 1)))


def test_an_open_batch_is_closed() -> None:
    """Slices take the rows of one image: of a batch of two, the second would be dropped in silence."""
    model = unpacked(network())
    for tensor in model.subgraphs[0].tensors:
        if len(tensor.shape) == 4 and model.buffers[tensor.buffer].data is None:
            tensor.shapeSignature = np.array([-1, *tensor.shape[1:]], "<i4")
    builder = flatbuffers.Builder(0)
    builder.Finish(model.Pack(builder), b"TFL3")
    new = rewritten(bytes(builder.Output()), StripeStage(0, 2, 4))
    assert all(tensor.shapeSignature is None for tensor in unpacked(new).subgraphs[0].tensors)
    interpreter = Interpreter(model_content=new)
    with pytest.raises(RuntimeError, match="only allows mutating unknown dimensions"):
        interpreter.resize_tensor_input(interpreter.get_input_details()[0]["index"], [2, 24, 8, 4], strict=True)


def with_scales(axis: int) -> bytes:
    """The network, whose activations have a scale for each item of an axis."""
    model = unpacked(network())
    for tensor in model.subgraphs[0].tensors:
        if len(tensor.shape) == 4 and model.buffers[tensor.buffer].data is None:
            tensor.quantization.scale = np.full(tensor.shape[axis], 0.05, np.float32)
            tensor.quantization.zeroPoint = np.zeros(tensor.shape[axis], np.int64)
            tensor.quantization.quantizedDimension = axis
    builder = flatbuffers.Builder(0)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def test_a_part_of_rows_with_scales_of_their_own_is_refused() -> None:
    """The part would keep all scales, which are those of other rows."""
    with pytest.raises(UnsupportedError, match="scales along axis 1"):
        rewritten(with_scales(axis=1), StripeStage(0, 2, 4))
    channels = unpacked(rewritten(with_scales(axis=3), StripeStage(0, 2, 4))).subgraphs[0].tensors
    scaled = [t for t in channels if t.quantization and t.quantization.quantizedDimension == 3]
    assert len(scaled) > 8
    assert all(len(t.quantization.scale) == t.shape[3] for t in scaled)
