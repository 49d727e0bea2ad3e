"""The prediction of the tail of TensorFlow Lite Micro's arena."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from edgemem.errors import ModelError
from edgemem.model.graph import Graph, Op, Tensor
from edgemem.records.micro_builds import INSTALLED, MicroBuild, build_of
from edgemem.records.micro_tail import operator_bytes, predicted_tail
from edgemem.targets import BUILT_IN, find_target

if TYPE_CHECKING:
    from pathlib import Path

DEVICE = build_of(BUILT_IN["tflm"])
builds = pytest.mark.parametrize("build", [DEVICE, INSTALLED])


def network(channels: int, convolutions: int, dtype: str = "int8") -> Graph:
    """A chain of 1 x 1 convolutions."""
    tensors = [Tensor("x", dtype, (1, 4, 4, channels))]
    ops = []
    for k in range(convolutions):
        first = len(tensors)
        tensors += [
            Tensor(f"w{k}", dtype, (channels, 1, 1, channels), "constant"),
            Tensor(f"b{k}", "int32", (channels,), "constant"),
            Tensor(f"y{k}", dtype, (1, 4, 4, channels)),
        ]
        ops.append(Op(f"conv{k}", "CONV_2D", (first - 1, first, first + 1), (first + 2,)))
    return Graph("chain", tuple(tensors), tuple(ops), (0,), (len(tensors) - 1,))


@builds
def test_a_convolution_costs_memory_by_its_output_channels(build: MicroBuild) -> None:
    few, many = (operator_bytes(graph := network(c, 1), graph.ops[0], build) for c in (8, 72))
    assert many - few == 2 * 4 * 64


@builds
def test_every_operator_and_every_tensor_is_counted(build: MicroBuild) -> None:
    graph = network(8, 2)
    more = predicted_tail(graph, build) - predicted_tail(network(8, 1), build)
    assert abs(more - operator_bytes(graph, graph.ops[0], build) - 3 * build.tensor) < 16


@pytest.mark.parametrize(("build", "more"), [(DEVICE, 36), (INSTALLED, 64)])
def test_quantised_inputs_and_outputs_cost_more(build: MicroBuild, more: int) -> None:
    """20 bytes each with 32-bit pointers, of which the input's lie in part in what aligns the list of outputs."""
    assert predicted_tail(network(8, 1), build) - predicted_tail(network(8, 1, "float32"), build) == more


def test_a_target_says_how_large_pointers_are(tmp_path: Path) -> None:
    board = tmp_path / "board.toml"
    board.write_text("pointer_bytes = 8")
    graph = network(8, 4)
    assert predicted_tail(graph, build_of(find_target(str(board)))) > predicted_tail(graph, DEVICE)
    board.write_text("pointer_bytes = 2")
    with pytest.raises(ModelError, match="pointer_bytes is 4 or 8"):
        find_target(str(board))


def test_constants_that_a_rewritten_graph_leaves_out_are_counted_once() -> None:
    tensors = [Tensor("x", "int8", (1, 4, 4, 8)), *(Tensor(f"y{k}", "int8", (1, 1, 4, 8)) for k in range(3))]
    slices = [
        Op(f"s{k}", "SLICE", (0,), (k + 1,), attributes={"begin": (0, k, 0, 0), "size": (1, 1, 4, 8)}) for k in range(3)
    ]
    graph = Graph("slices", tuple(tensors), tuple(slices), (0,), (1, 2, 3))
    written = [Tensor(f"c{k}", "int32", (4,), "constant") for k in range(4)]  # three starts, one size
    full = replace(
        graph,
        tensors=(*graph.tensors, *written),
        ops=tuple(replace(op, inputs=(0, 4 + k, 7)) for k, op in enumerate(slices)),
    )
    assert predicted_tail(graph, DEVICE) == predicted_tail(full, DEVICE)
