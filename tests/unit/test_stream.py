"""Streamed graphs: their structure, names and refusals. What they compute is tested in runtimes."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import pytest

from edgemem.errors import ModelError, TilingError
from edgemem.model.graph import Graph, Op, Tensor
from edgemem.model.rewrite import NEW
from edgemem.passes.streaming.stages import choose_stages
from edgemem.passes.streaming.stream import StripeStage, stream
from edgemem.targets import BUILT_IN

_WINDOW = {"stride": (1, 1), "dilation": (1, 1), "kernel": (3, 3)}


def chain(rows: int = 16, *, batch: int = 1) -> Graph:
    """Two convolutions of 3x3 with paddings, a RELU between them, and a second reader of the first result."""
    shape = (batch, rows, 8, 4)
    names = ("x", "net/first;net/bias", "relu", "second", "sum")
    tensors = (*(Tensor(n, "float32", shape) for n in names), Tensor("w", "float32", (4, 3, 3, 4), "constant"))
    attributes = {**_WINDOW, "pads": (1, 1, 1, 1)}
    ops = (
        Op("conv_0", "CONV_2D", (0, 5), (1,), attributes=attributes),
        Op("relu_1", "RELU", (1,), (2,)),
        Op("conv_2", "CONV_2D", (2, 5), (3,), attributes=attributes),
        Op("add_3", "ADD", (1, 3), (4,)),
    )
    return Graph("main", tensors, ops, (0,), (4,), "nhwc")


def test_a_streamed_chain() -> None:
    graph = chain()
    rewrite = stream(graph, [StripeStage(0, 3, 4)])
    new = rewrite.graph
    assert [t.name for t in new.tensors[:3]] == ["x", "sum", "w"]  # the rest is not used any more
    assert new.inputs == (0,)
    assert new.outputs == (1,)
    assert new.ops[-1].type == "CONCATENATION"
    for op, source in zip(new.ops, rewrite.sources, strict=True):
        assert (source == NEW) == (op.type in ("SLICE", "CONCATENATION", "PAD"))
        assert source == NEW or graph.ops[source].type == op.type
        assert op.attributes.get("pads", (0, 0, 0, 0)) == (0, 0, 0, 0)
    for tensor, like in zip(new.tensors, rewrite.likes, strict=True):
        assert tensor.dtype == graph.tensors[like].dtype
    names = [t.name for t in new.tensors]
    assert "net/first[0:3]" in names
    assert len(set(names)) == len(names)
    assert stream(graph, [StripeStage(0, 3, 4)]) == rewrite


def test_every_row_is_made_once() -> None:
    graph = chain()
    rewrite = stream(graph, [StripeStage(0, 3, 5)])
    for index, op in enumerate(graph.ops):
        stripes = [o for o, source in zip(rewrite.graph.ops, rewrite.sources, strict=True) if source == index]
        rows = sum(rewrite.graph.tensors[o.outputs[0]].shape[1] for o in stripes)
        assert rows == graph.tensors[op.outputs[0]].shape[1]


def test_slices_of_the_input_come_first_where_they_can_lie_inside_it() -> None:
    graph = chain()
    first = [op.type for op in stream(graph, [StripeStage(0, 3, 4)]).graph.ops[:4]]
    assert first == ["SLICE"] * 4
    copied = [op.type for op in stream(graph, [StripeStage(0, 3, 4)], slot_alignment=0).graph.ops[:4]]
    assert copied.count("SLICE") < 4
    uneven = stream(graph, [StripeStage(0, 3, 4)], slot_alignment=8 * 4 * 4 * 64)
    assert [op.type for op in uneven.graph.ops[:2]] == ["SLICE", "PAD"]  # the first offset is 0


def test_concatenations_have_ten_inputs_at_most() -> None:
    rewrite = stream(chain(64), [StripeStage(0, 3, 64)])
    assert max(len(op.inputs) for op in rewrite.graph.ops) == 10
    sizes = [prod(t.shape) for t in rewrite.graph.tensors]
    for op in rewrite.graph.ops:
        if op.type == "CONCATENATION":
            assert sum(sizes[i] for i in op.inputs) == sizes[op.outputs[0]]


def test_stages_leave_the_rest_alone() -> None:
    graph = chain()
    rewrite = stream(graph, [StripeStage(1, 2, 4)])
    assert (rewrite.graph.ops[0].name, rewrite.sources[0]) == ("conv_0", 0)
    assert rewrite.graph.ops[-1].type == "ADD"
    assert stream(graph, []).graph == graph
    both = stream(graph, [StripeStage(2, 3, 2), StripeStage(0, 1, 4)])
    assert both == stream(graph, [StripeStage(0, 1, 4), StripeStage(2, 3, 2)])


@pytest.mark.parametrize(
    "stages",
    [
        [StripeStage(0, 4, 2)],
        [StripeStage(2, 1, 2)],
        [StripeStage(0, 3, 0)],
        [StripeStage(-1, 1, 2)],
        [StripeStage(0, 2, 2), StripeStage(2, 3, 2)],
    ],
)
def test_stages_that_are_none_are_refused(stages: list[StripeStage]) -> None:
    with pytest.raises(ModelError):
        stream(chain(), stages)


def test_stripes_without_end_are_refused() -> None:
    assert stream(chain(16), [StripeStage(0, 3, 17)])
    with pytest.raises(ModelError, match="no more than 65536"):
        stream(chain(16), [StripeStage(0, 3, 999_999_999)])


@pytest.mark.parametrize("rows", [0, 1 << 30])
def test_no_rows_and_rows_without_end_are_refused(rows: int) -> None:
    """A file may say any height; a choice of stages leaves such operators alone."""
    graph = chain(rows)
    with pytest.raises(TilingError, match=f"reads {rows} rows"):
        stream(graph, [StripeStage(0, 3, 2)])
    assert not choose_stages(graph, replace(BUILT_IN["tflm"], kernels="tflm-reference", slots=True)).stages


def test_a_batch_is_refused() -> None:
    with pytest.raises(TilingError, match="batch"):
        stream(chain(batch=2), [StripeStage(0, 3, 2)])


def tensors(*shapes: tuple[int, ...]) -> tuple[Tensor, ...]:
    return tuple(Tensor(f"t{i}", "float32", shape) for i, shape in enumerate(shapes))


def refusal(graph: Graph) -> str:
    with pytest.raises(TilingError) as refused:
        stream(graph, [StripeStage(0, len(graph.ops) - 1, 2)])
    assert refused.value.op in {op.name for op in graph.ops}
    return refused.value.why


def test_refusals_name_the_operator_and_the_reason() -> None:
    image, pooled = (1, 8, 8, 4), (1, 1, 1, 4)
    window = {"kernel": (8, 8), "stride": (1, 1), "dilation": (1, 1), "pads": (0, 0, 0, 0)}
    ops = (Op("pool", "AVERAGE_POOL_2D", (0,), (1,), attributes=window), Op("scale", "MUL", (0, 1), (2,)))
    squeezed = Graph("main", tensors(image, pooled, image), ops, (0,), (2,), "nhwc")
    assert "needs all of 't1', which the stage makes" in refusal(squeezed)

    padded = {**_WINDOW, "pads": (1, 1, 1, 1)}
    pool = (Op("pool", "AVERAGE_POOL_2D", (0,), (1,), attributes=padded),)
    assert "does not count in the average" in refusal(Graph("main", tensors(image, image), pool, (0,), (1,), "nhwc"))

    constant = replace(tensors(image, image)[1], kind="constant")
    rows = Graph("main", (*tensors(image), constant, Tensor("y", "float32", image)), (Op("add", "ADD", (0, 1), (2,)),),
                 (0,), (2,), "nhwc")  # fmt: skip
    assert "has a value for each row" in refusal(rows)

    variable = replace(constant, kind="variable")
    assert "is no activation" in refusal(replace(rows, tensors=(rows.tensors[0], variable, rows.tensors[2])))

    relu = Graph("main", tensors(image, image), (Op("relu", "RELU", (0,), (1,), ordered=True),), (0,), (1,), "nhwc")
    assert "keep its place" in refusal(relu)
    joined = {"axis": 1}
    tall = (Op("join", "CONCATENATION", (0, 0), (1,), attributes=joined),)
    assert "along the dimension" in refusal(Graph("main", tensors(image, (1, 16, 8, 4)), tall, (0,), (1,), "nhwc"))


def test_what_scales_all_rows_may_come_from_outside() -> None:
    image, scale = (1, 8, 8, 4), (1, 1, 1, 4)
    ops = (Op("scale", "MUL", (0, 1), (2,)), Op("relu", "RELU", (2,), (3,)))
    graph = Graph("main", tensors(image, scale, image, image), ops, (0, 1), (3,), "nhwc")
    new = stream(graph, [StripeStage(0, 1, 4)]).graph
    assert sum(1 in op.inputs for op in new.ops) == 4


def test_largest_value_pools_are_padded_with_the_least_number() -> None:
    image = (1, 8, 8, 4)
    op = Op("pool", "MAX_POOL_2D", (0,), (1,), attributes={**_WINDOW, "pads": (1, 1, 1, 1)})
    new = stream(Graph("main", tensors(image, image), (op,), (0,), (1,), "nhwc"), [StripeStage(0, 0, 2)]).graph
    paddings = [o for o in new.ops if o.type == "PADV2"]
    assert [o.attributes["value"] for o in paddings] == ["lowest", "lowest"]
    assert [o.attributes["paddings"] for o in paddings] == [(0, 0, 1, 0, 1, 1, 0, 0), (0, 0, 0, 1, 1, 1, 0, 0)]


def test_operators_that_compute_constants_run_before_the_stripes() -> None:
    image = (1, 8, 8, 4)
    half, full = Tensor("half", "float16", (4,), "constant"), Tensor("full", "float32", (4,), "constant")
    ops = (
        Op("relu", "RELU", (0,), (1,)),
        Op("widen", "DEQUANTIZE", (3,), (4,)),
        Op("add", "ADD", (1, 4), (2,)),
    )
    graph = Graph("main", (*tensors(image, image, image), half, full), ops, (0,), (2,), "nhwc")
    rewrite = stream(graph, [StripeStage(0, 2, 4)])
    assert [op.type for op in rewrite.graph.ops].count("DEQUANTIZE") == 1
    assert rewrite.sources[0] == 1


def test_precedence_follows_its_operators() -> None:
    image = (1, 8, 8, 4)
    ops = tuple(Op(f"relu_{k}", "RELU", (k,), (k + 1,)) for k in range(4))
    graph = Graph("main", tensors(*[image] * 5), ops, (0,), (4,), "nhwc", ((2, 3),))
    new = stream(graph, [StripeStage(0, 1, 4)]).graph
    assert new.precedence == ((len(new.ops) - 2, len(new.ops) - 1),)
    with pytest.raises(TilingError, match="keep its place"):
        stream(graph, [StripeStage(2, 2, 2)])


def test_windows_of_another_format_keep_their_paddings() -> None:
    image = (1, 4, 8, 8)
    attributes = {**_WINDOW, "pads": (1, 1, 1, 1)}
    ops = (Op("a", "Conv", (0,), (1,), attributes=attributes), Op("b", "Conv", (1,), (2,), attributes=attributes))
    new = stream(Graph("main", tensors(image, image, image), ops, (0,), (2,), "nchw"), [StripeStage(0, 1, 2)]).graph
    assert "Pad" not in {op.type for op in new.ops}
    pads = [op.attributes["pads"] for op in new.ops if op.type == "Conv"]
    assert (pads[0], pads[-1]) == ((1, 1, 0, 1), (0, 1, 1, 1))
