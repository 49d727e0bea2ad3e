"""Multiply-accumulate operations, against figures that others publish and products written out."""

from __future__ import annotations

import pytest

from edgemem.formats import open_bytes
from edgemem.model.graph import Graph, Op, Tensor
from edgemem.model.macs import count_macs
from models.build import build


def test_mobilenet_v2_has_300_million() -> None:
    """Sandler et al. 2018, Table 4: 300 million for MobileNet v2 1.0 at 224 x 224."""
    graph = open_bytes(build("mobilenet_v2").SerializeToString(), ".onnx").graph()
    assert count_macs(graph) == pytest.approx(300e6, rel=0.01)


@pytest.mark.parametrize(
    ("kind", "shapes", "macs"),
    [
        ("CONV_2D", [(1, 8, 8, 4), (6, 3, 3, 4), (1, 8, 8, 6)], 8 * 8 * 6 * 3 * 3 * 4),
        ("DEPTHWISE_CONV_2D", [(1, 8, 8, 4), (1, 3, 3, 4), (1, 8, 8, 4)], 8 * 8 * 4 * 3 * 3),
        ("FULLY_CONNECTED", [(2, 10), (5, 10), (2, 5)], 2 * 5 * 10),
        ("Conv", [(2, 4, 8, 8), (6, 2, 3, 3), (2, 6, 8, 8)], 2 * 6 * 8 * 8 * 2 * 3 * 3),
        ("ConvTranspose", [(1, 4, 8, 8), (4, 6, 2, 2), (1, 6, 16, 16)], 4 * 8 * 8 * 6 * 2 * 2),
        ("MatMul", [(3, 4, 5), (3, 5, 6), (3, 4, 6)], 3 * 4 * 6 * 5),
        ("ADD", [(1, 8), (1, 8), (1, 8)], 0),
    ],
)
def test_products(kind: str, shapes: list[tuple[int, ...]], macs: int) -> None:
    tensors = tuple(
        Tensor(f"t{k}", "float32", shape, "constant" if k == 1 else "activation") for k, shape in enumerate(shapes)
    )
    assert count_macs(Graph("g", tensors, (Op("op", kind, (0, 1), (2,)),), (0,), (2,))) == macs
