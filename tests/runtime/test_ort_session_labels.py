"""Recorded requests are named after the kernels that made them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from edgemem.runtime.onnxruntime.labels import labels
from edgemem.runtime.onnxruntime.profile import Kernel
from edgemem.runtime.onnxruntime.recording import record
from edgemem.trace import Trace
from tests.onnx_sessions import options, small

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("onnxruntime")


def kernel(start_ns: int, node: str, sizes: tuple[int, ...]) -> Kernel:
    """A kernel with results of these sizes in bytes; -1 is one of a type without a fixed width."""
    outputs = tuple(("uint8", (size,)) if size >= 0 else ("string", (1,)) for size in sizes)
    return Kernel(node, "Op", start_ns, 0, outputs)


def test_a_request_belongs_to_the_kernel_that_ran_or_to_its_neighbour() -> None:
    sizes = [7, 100, 30, 200, 100, 100, 5]
    times = [500, 1500, 1600, 1990, 3100, 3200, 3300]
    trace = Trace.from_columns(sizes, range(7), times)
    kernels = [kernel(1000, "a", (100,)), kernel(2000, "b", (200,)), kernel(3000, "c", (100, -1, 100))]
    assert labels(trace, kernels) == (
        "request 0",  # before any kernel
        "a",
        "a workspace",
        "b",  # a tick too early, but only b has such a result
        "c",
        "c:2",
        "c workspace",
    )
    assert labels(trace, []) == tuple(f"request {k}" for k in range(7))


def test_kernels_that_run_again_are_numbered() -> None:
    trace = Trace.from_columns([8, 8], [0, 1], [10, 30])
    assert labels(trace, [kernel(5, "body", (8,)), kernel(25, "body", (8,))]) == ("body", "body #2")


@pytest.mark.parametrize(("level", "workspaces"), [("EXTENDED", 18), ("ALL", 0)])
def test_a_models_convolutions_and_their_workspace(tmp_path: Path, level: str, workspaces: int) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(small("mobilenet_v2"))
    chosen = options(level)
    problem = record(path, sess_options=chosen).problem
    assert not chosen.enable_profiling
    assert len(set(problem.names)) == len(problem)
    assert all("conv0" in name for name in problem.names[:1])
    # Without a vector unit for blocked layouts, ALL runs the same kernels as EXTENDED.
    blocked = any("nchwc" in name for name in problem.names)
    if level == "EXTENDED" or blocked:
        assert sum("workspace" in name for name in problem.names) == workspaces
