"""What networks take on a GPU: arenas at the lower bound, and textures beside those of TFLite GPU's rules."""

from __future__ import annotations

import pytest

import edgemem
from edgemem.errors import UnsupportedError
from edgemem.formats import open_bytes
from edgemem.passes.tiling.choice import find_stages
from edgemem.targets import BUILT_IN
from models import build


@pytest.mark.full
@pytest.mark.parametrize("name", ["mobilenet_v1", "mobilenet_v2", "inception_v3", "blazeface"])
def test_arenas_are_at_the_bound_and_textures_below_the_rule_in_order(name: str) -> None:
    graph = open_bytes(build.build(name).SerializeToString(), ".onnx").graph()
    for target in ("gpu-buffer", "gpu-buffer-fp16"):
        planset = edgemem.plan(graph, target=target)
        assert planset.best_offsets is not None
        assert planset.best_offsets.size == planset.bounds.offsets
        assert edgemem.verify(planset, graph) == ()
    flat = edgemem.plan(graph, target="gpu-texture")
    rows = edgemem.plan(graph, target="gpu-texture-linear")
    array = edgemem.plan(graph, target="gpu-texture-array")
    (in_order,) = (
        plan.size
        for plan in edgemem.plan(graph, target="gpu-texture", strategy="shared_objects/greedy_in_order").shared_objects
    )
    assert flat.best_shared_objects is not None
    assert rows.best_shared_objects is not None
    assert array.best_offsets is not None
    assert flat.best_shared_objects.optimal
    assert flat.best_shared_objects.size <= 0.8 * in_order
    assert rows.best_shared_objects.size <= flat.best_shared_objects.size
    assert array.best_offsets.size <= 16 * rows.best_shared_objects.size
    assert array.best_offsets.size <= 1.01 * array.bounds.offsets


@pytest.mark.full
def test_tiles_are_not_chosen_for_layers_of_textures() -> None:
    graph = open_bytes(build.build("blazeface", size="small").SerializeToString(), ".onnx").graph()
    with pytest.raises(UnsupportedError, match="'gpu-texture-array' gives every tile whole layers"):
        find_stages(graph, BUILT_IN["gpu-texture-array"])
    assert find_stages(graph, BUILT_IN["gpu-buffer"]).peak > 0
