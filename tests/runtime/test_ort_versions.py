"""What edgemem promises of ONNX Runtime's versions: planned sessions since 1.23, node-by-node runs since 1.20."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import edgemem
from edgemem.errors import RuntimeBindError
from edgemem.runtime.onnxruntime.bound_nodes import BoundNodes
from edgemem.runtime.onnxruntime.split_model import node_options, split_model
from tests.runtime.networks import equal, feeds_of, small

onnxruntime = pytest.importorskip("onnxruntime")
OLDEST = (1, 23)
VERSION = tuple(int(part) for part in onnxruntime.__version__.split(".")[:2])


@pytest.fixture
def without_new_fields() -> object:
    """Session options as they were before 1.23."""
    options = onnxruntime.SessionOptions()

    class Old:
        def __getattr__(self, name: str) -> object:
            if name in ("has_providers", "use_per_session_threads"):
                raise AttributeError(name)
            return getattr(options, name)

    return Old()


def test_the_metadata_promise_the_oldest_version() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extra in ("cpu", "gpu"):
        (named,) = (r for r in project["optional-dependencies"][extra] if r.startswith("onnxruntime"))
        assert named.partition(">=")[2] == ".".join(map(str, OLDEST))


def test_options_of_an_older_version_are_taken_over(without_new_fields: object) -> None:
    assert node_options(without_new_fields).intra_op_num_threads == 1


def test_a_graph_plan_runs_node_by_node_with_options_of_the_caller(tmp_path: Path) -> None:
    path = small("unet", tmp_path)
    feeds = feeds_of(path)
    options = onnxruntime.SessionOptions()
    found = BoundNodes(split_model(path, edgemem.plan(path), options=options)).run(feeds)
    options.intra_op_num_threads = 1  # as each node has
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    plain = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    assert equal(list(found.values()), plain.run(None, feeds))


@pytest.mark.skipif(VERSION >= OLDEST, reason="this ONNX Runtime takes the allocator")
def test_an_older_version_is_refused_in_words_or_runs_plainly(tmp_path: Path) -> None:
    from edgemem import InferenceSession

    path = small("unet", tmp_path)
    with pytest.raises(RuntimeBindError, match=r"1\.23 and later.*update .*fallback=True"):
        InferenceSession(path)
    feeds = feeds_of(path)
    plain = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    with InferenceSession(path, fallback=True) as session:
        assert equal(session.run(None, feeds), plain.run(None, feeds))
        assert "1.23 and later" in session.memory.reason
