"""Streamed .tflite models in LiteRT: the same bits, or a clear refusal."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from click.testing import CliRunner

from edgemem.cli.main import main
from tests.row_models import RowNet

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("ai_edge_litert")


def shrunk(model: Path, *more: str) -> str:
    out = str(model.with_suffix(".out.tflite"))
    result = CliRunner().invoke(main, ["shrink", str(model), "-t", "litert", "-o", out, *more])
    return f"{result.exit_code} {result.output}"


def network(channels: int, *, int8: bool) -> bytes:
    """Three convolutions whose results have this many channels."""
    net = RowNet(int8, np.random.default_rng(1))
    x = net.input(24, 5, 3)
    for _ in range(3):
        x = net.conv(x, channels, (3, 3), (1, 1), (1, 1), same=True, depthwise=False)
    return net.content([x])


@pytest.mark.exhaustive
def test_streamed_for_litert_is_the_same_or_refused(tmp_path: Path) -> None:
    """LiteRT's float kernels may compute a row of a stripe in another order than a row of the whole."""
    for channels, int8, is_same in ((5, False, False), (5, True, True), (8, False, True)):
        path = tmp_path / f"{channels}.tflite"
        path.write_bytes(network(channels, int8=int8))
        found = shrunk(path, "--steps", "stream=0:2:24")
        if is_same:
            assert found.startswith("0 least: ")
            assert "outputs identical" in found
            continue
        assert found.startswith("1 edgemem: 5.tflite: stream=0:2:24: outputs differ by ")
        assert "LiteRT's float kernels" in found
        assert shrunk(path, "--steps", "stream=0:2:24", "--close").startswith("0 least: ")
