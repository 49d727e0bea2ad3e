"""The choice of streaming stages: its costs against graphs, its chains against all chains, and its limits."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from edgemem.errors import ModelError, TilingError, UnsupportedError
from edgemem.model.graph import Graph, Op, Tensor
from edgemem.passes.streaming.edges import StageGraph
from edgemem.passes.streaming.region import StripeStage
from edgemem.passes.streaming.stages import StripeLimits, choose_stages, find_front, measure_stages
from edgemem.passes.streaming.stream import stream
from edgemem.passes.streaming.stream_pass import StreamOperators
from edgemem.records.lifetime import lifetimes
from edgemem.records.micro_builds import build_of
from edgemem.records.micro_tail import predicted_tail
from edgemem.strategy.bounds import lower_bounds
from edgemem.targets import BUILT_IN

TARGET = BUILT_IN["tflm"].changed(kernels="tflm-reference", slots=True)


def network(layers: str, height: int = 24, channels: int = 4, dtype: str = "int8") -> Graph:
    """A chain of layers.

    `1` is a 1 x 1 convolution to four times the channels, `0` one back; `d` a 3 x 3 depthwise convolution with padding,
    `s` the same with stride 2; `+` adds the value before the last `1`.
    """
    tensors = [Tensor("x", dtype, (1, height, height, channels))]
    ops: list[Op] = []
    value = entry = 0

    def add(kind: str, shape: tuple[int, ...], inputs: tuple[int, ...], **attributes: tuple[int, ...]) -> int:
        tensors.append(Tensor(f"t{len(tensors)}", dtype, shape))
        ops.append(Op(f"{kind}_{len(ops)}", kind, inputs, (len(tensors) - 1,), attributes=attributes))
        return len(tensors) - 1

    def weights(*shape: int) -> int:
        tensors.append(Tensor(f"w{len(tensors)}", dtype, shape, "constant"))
        return len(tensors) - 1

    for layer in layers:
        _, rows, columns, depth = tensors[value].shape
        if layer in "10":
            entry = value if layer == "1" else entry
            made = depth * 4 if layer == "1" else depth // 4
            w = weights(made, 1, 1, depth)
            attributes = {"kernel": (1, 1), "stride": (1, 1), "dilation": (1, 1), "pads": (0, 0, 0, 0)}
            value = add("CONV_2D", (1, rows, columns, made), (value, w), **attributes)
        elif layer in "ds":
            step = 2 if layer == "s" else 1
            made = -(-rows // step)
            pads = (0, 0, 1, 1) if layer == "s" and not rows % 2 else (1, 1, 1, 1)
            w = weights(1, 3, 3, depth)
            attributes = {"kernel": (3, 3), "stride": (step, step), "dilation": (1, 1), "pads": pads}
            value = add("DEPTHWISE_CONV_2D", (1, made, made, depth), (value, w), **attributes)
        else:
            value = add("ADD", tensors[value].shape, (value, entry))
    return Graph("network", tuple(tensors), tuple(ops), (0,), (value,), "nhwc")


def bound_of(graph: Graph, stages: tuple[StripeStage, ...]) -> int:
    return lower_bounds(lifetimes(stream(graph, stages).graph, TARGET).problem).offsets


@pytest.mark.parametrize("layers", ["1d0", "1s0", "1d01s0", "d1d0d", "1d01d0"])
@pytest.mark.parametrize("dtype", ["int8", "float32"])
@pytest.mark.parametrize("stripes", [2, 3, 5, 12, 24])
def test_the_cost_of_a_stage_is_that_of_its_graph(layers: str, dtype: str, stripes: int) -> None:
    """The peak counts no bytes twice, but a bound may leave out some that every plan needs."""
    graph = network(layers, dtype=dtype, channels=16)
    last = len(graph.ops) - 1
    edge = StageGraph(graph, TARGET).edges(0, last, [stripes])[0]
    streamed = stream(graph, (StripeStage(0, last, stripes),)).graph
    assert edge.operators == pytest.approx(len(streamed.ops), abs=1)
    bound = bound_of(graph, (StripeStage(0, last, stripes),))
    assert 0.99 * bound <= edge.peak <= 1.12 * bound
    for target in (TARGET, replace(TARGET, pointer_bytes=8)):
        stages, build = StageGraph(graph, target), build_of(target)
        rest = predicted_tail(graph, build) - sum(e.tail for e in stages.plain)
        tail = stages.edges(0, last, [stripes])[0].tail
        assert rest + tail == pytest.approx(predicted_tail(streamed, build), rel=0.03)


@pytest.mark.parametrize("layers", ["1d01s0", "1d0+1s0", "1s01d0+"])
def test_costs_of_several_numbers_of_stripes_do_not_influence_each_other(layers: str) -> None:
    network_of = StageGraph(network(layers), TARGET)
    last = len(network_of.graph.ops) - 1
    several = network_of.edges(0, last, [2, 7, 24, 3])
    assert several == [network_of.edges(0, last, [stripes])[0] for stripes in (2, 7, 24, 3)]


def all_choices(graph: Graph, numbers: tuple[int, ...]) -> list[tuple[StripeStage, ...]]:
    """Every choice of disjoint stages with these numbers of stripes, none included."""
    count = len(graph.ops)
    found: list[tuple[StripeStage, ...]] = []
    for cuts in product((0, 1), repeat=count - 1):
        ends = [k for k, cut in enumerate(cuts) if cut] + [count - 1]
        begins = [0, *(k + 1 for k in ends[:-1])]
        parts = list(zip(begins, ends, strict=True))
        for stripes in product((1, *numbers), repeat=len(parts)):
            if all(n > 1 or first == last for (first, last), n in zip(parts, stripes, strict=True)):
                chosen = zip(parts, stripes, strict=True)
                found.append(tuple(StripeStage(first, last, n) for (first, last), n in chosen if n > 1))
    return found


@pytest.mark.parametrize("layers", ["1d0", pytest.param("1s0d", marks=pytest.mark.full)])
def test_the_least_arena_of_the_front_is_that_of_all_choices(layers: str) -> None:
    graph = network(layers, height=12, channels=8)
    best = None
    for stages in all_choices(graph, (2, 4, 12)):
        try:
            streamed = stream(graph, stages).graph
        except TilingError:
            continue
        arena = lower_bounds(lifetimes(streamed, TARGET).problem).offsets + predicted_tail(streamed, build_of(TARGET))
        best = arena if best is None else min(best, arena)
    front = find_front(graph, TARGET)
    assert best is not None
    assert min(choice.arena for choice in front) == pytest.approx(best, rel=0.02)


def test_a_choice_is_valid_and_always_the_same() -> None:
    graph = network("1d01s01d0+1s0", height=48, channels=8)
    choice = choose_stages(graph, TARGET)
    assert choice.stages
    assert choice == choose_stages(graph, TARGET)
    assert choice == measure_stages(graph, TARGET, choice.stages)
    assert choice.arena < measure_stages(graph, TARGET, ()).arena


def test_the_head_alone_is_smaller_for_more_operators() -> None:
    graph = network("1d01s01d0+1s0", height=48, channels=8)
    arena, head = choose_stages(graph, TARGET), choose_stages(graph, TARGET, objective="head")
    assert arena.head is not None
    assert head.head is not None
    assert head.head <= arena.head
    assert head.operators >= arena.operators


def test_limits_are_kept() -> None:
    graph = network("1d01s01d0+1s0", height=48, channels=8)
    for most in (len(graph.ops), 25, 60):
        choice = choose_stages(graph, TARGET, objective="head", limits=StripeLimits(operators=most))
        assert choice.operators <= most
    with pytest.raises(UnsupportedError, match="allow more"):
        choose_stages(graph, TARGET, limits=StripeLimits(operators=len(graph.ops) - 1))


def test_a_budget_takes_the_cheapest_stages_that_keep_it() -> None:
    graph = network("1d01s01d0+1s0", height=48, channels=8)
    least = choose_stages(graph, TARGET, objective="head")
    plain = measure_stages(graph, TARGET, ())
    assert plain.head is not None
    assert least.head is not None
    assert choose_stages(graph, TARGET, limits=StripeLimits(head=plain.head)).stages == ()
    between = (plain.head + least.head) // 2
    choice = choose_stages(graph, TARGET, limits=StripeLimits(head=between))
    assert choice.head is not None
    assert choice.head <= between
    assert choice.operators < least.operators


def test_a_graph_that_cannot_be_streamed_stays_as_it_is() -> None:
    tensors = (Tensor("x", "int8", (1, 8)), Tensor("w", "int8", (8, 8), "constant"), Tensor("y", "int8", (1, 8)))
    graph = Graph("dense", tensors, (Op("fc", "FULLY_CONNECTED", (0, 1), (2,)),), (0,), (2,), "nhwc")
    assert choose_stages(graph, TARGET).stages == ()


def test_stages_are_read_from_text() -> None:
    assert StreamOperators.parse("0:5:56+6:20:28").stages == (StripeStage(0, 5, 56), StripeStage(6, 20, 28))
    for text in ("", "0:5", "0:5:x", "0:5:-1", "0:5:56,6:20:28", "0:5:²", "0:5:1000000000000"):
        with pytest.raises(ModelError, match="FIRST:LAST:STRIPES"):
            StreamOperators.parse(text)
