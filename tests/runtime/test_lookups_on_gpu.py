"""Operators of transformers that look elements up, on a GPU: beside ONNX Runtime, planned and unshared."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Final

import numpy as np
import pytest
from onnx import ModelProto, numpy_helper, parser

from edgemem.errors import UnsupportedError
from edgemem.runtime.webgpu.executor import GpuExecutor
from tests.onnx_computed import fed
from tests.webgpu_adapters import need_adapter

if TYPE_CHECKING:
    from typing import Any

    from numpy.typing import NDArray

    from edgemem.runtime.webgpu.gpu_model import Storage

STORAGES: Final[tuple[Storage, ...]] = ("buffer", "texture2d", "texture-linear", "texture-array")

# Words to rows of a table, those of a mask hidden from each other: what texts begin with in exported networks.
_EMBEDDING: Final = """<ir_version: 8, opset_import: ["" : 17]> g
(int64[2,7] words, int64[2,7] mask) => (float[2,7,7] y)
<float[20,6] table, float[7,6] places, int64[7,7,2] pairs, float hidden = {-1e9}, float zero = {0.0}> {
    at = Gather (table, words)
    sum = Add (at, places)
    turned = Transpose <perm = [0, 2, 1]> (sum)
    scores = MatMul (sum, turned)
    seen = Cast <to = 9> (mask)
    both = GatherND (seen, pairs)
    kept = Where (both, scores, hidden)
    parts = Softmax <axis = -1> (kept)
    broken = IsNaN (parts)
    y = Where (broken, zero, parts)
}"""
# The distance of two places decides which of the scores counts.
_RELATIVE: Final = """<ir_version: 8, opset_import: ["" : 17]> g
(float[2,5,9] scores, int64[2,5,5] distances) => (float[2,5,5] y) {
    bent = Tanh (scores)
    taken = GatherElements <axis = 2> (bent, distances)
    y = Relu (taken)
}"""
# Samples of sound, convolved in steps, in groups and dilated.
_SOUND: Final = """<ir_version: 8, opset_import: ["" : 17]> g (float[2,3,61] x) => (float[2,6,28] y)
<float[8,3,5] first, float[8] bias, float[8,1,3] second, float[6,4,2] third> {
    a = Conv <strides = [2], pads = [2, 2]> (x, first, bias)
    b = Relu (a)
    c = Conv <group = 8, pads = [1, 1]> (b, second)
    d = Add (c, b)
    y = Conv <group = 2, dilations = [3]> (d, third)
}"""
# Places of words that are no padding.
_PLACES: Final = """<ir_version: 8, opset_import: ["" : 17]> g (int64[2,7] words) => (int64[2,7] y)
<int64 none = {1}, int64 axis = {1}> {
    same = Equal (words, none)
    other = Not (same)
    count = Cast <to = 7> (other)
    sum = CumSum (count, axis)
    masked = Mul (sum, count)
    y = Add (masked, none)
}"""


NETWORKS: Final = {"embedding": _EMBEDDING, "relative": _RELATIVE, "sound": _SOUND, "places": _PLACES}
_BELOW: Final = {"words": 20, "mask": 2, "distances": 9}


def _network(name: str) -> tuple[ModelProto, dict[str, NDArray[Any]]]:
    """A network with random weights, and random inputs: indices from the end, too."""
    random = np.random.default_rng(0)
    model: ModelProto = parser.parse_model(NETWORKS[name])
    feeds: dict[str, NDArray[Any]] = {}
    for value in (*model.graph.value_info, *model.graph.input):
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        made: NDArray[Any] = random.standard_normal(shape).astype(np.float32)
        if value.name == "pairs":
            row, column = np.indices((7, 7))
            made = np.stack([row % 2 - 1, column], -1).astype(np.int64)
        elif value.name in _BELOW:
            least = 0 if value.name == "mask" else -_BELOW[value.name]
            made = random.integers(least, _BELOW[value.name], shape)
        if value in model.graph.input:
            feeds[value.name] = made
        else:
            model.graph.initializer.append(numpy_helper.from_array(made, value.name))
    del model.graph.value_info[:]
    if name == "places":
        feeds["words"] %= 3
    return model, feeds


@pytest.mark.parametrize(("name", "storage"), list(product(NETWORKS, STORAGES)))
def test_networks_give_what_onnx_runtime_gives(name: str, storage: Storage) -> None:
    model, feeds = _network(name)
    data, found = model.SerializeToString(), []
    for sharing in (True, False):
        with GpuExecutor(data, storage=storage, adapter=need_adapter(), poison=True, sharing=sharing) as executor:
            found.append(executor.run(None, dict(feeds))[0])
    (expected,) = fed(model, feeds).values()
    assert len(np.unique(expected)) > 5
    assert found[0].tobytes() == found[1].tobytes()
    assert found[0].dtype == expected.dtype
    np.testing.assert_allclose(found[0], expected, rtol=0, atol=2e-5 * float(np.abs(expected).max()))


def test_half_precision_refuses_indices_that_it_rounds() -> None:
    model = parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g
        (int64[3] i, float[3000] x) => (float[3] y) { y = Gather (x, i) }"""
    )
    with pytest.raises(
        UnsupportedError, match="'i' has indices up to 2,999, and fp16 tells integers apart up to 2,048"
    ):
        GpuExecutor(model.SerializeToString(), precision="fp16", adapter=need_adapter())
