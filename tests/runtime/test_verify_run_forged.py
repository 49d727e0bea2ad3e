"""What a recording in a file may ask `verify --run` for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from edgemem.errors import ModelError, RuntimeBindError, UnsupportedError
from edgemem.runtime.feeds import random_values
from edgemem.trace.recording import Fingerprint, OptionText

ort = pytest.importorskip("onnxruntime")

from edgemem.runtime.onnxruntime.recorded_session import options_of, planned_feeds  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgemem.runtime.feeds import Feeds


def fingerprint(**options: OptionText) -> Fingerprint:
    return Fingerprint("onnxruntime", "1", "model", options)


def made_up(
    declared: Mapping[str, tuple[str, Sequence[int | str | None]]], inputs: Sequence[tuple[str, str, tuple[int, ...]]]
) -> Feeds:
    return planned_feeds(declared, {name: (dtype, shape) for name, dtype, shape in inputs})


def test_options_are_those_of_the_recording() -> None:
    made = options_of(fingerprint(level="ORT_ENABLE_BASIC", intra_threads=3, inter_threads=0))
    assert made.graph_optimization_level == ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    assert (made.intra_op_num_threads, made.inter_op_num_threads) == (3, 0)


@pytest.mark.parametrize("level", ["__class__", "name", "", "ORT_ENABLE", 3, True])
def test_a_level_that_there_is_not_is_the_default(level: OptionText) -> None:
    made = options_of(fingerprint(level=level))
    assert made.graph_optimization_level == ort.GraphOptimizationLevel.ORT_ENABLE_ALL


@pytest.mark.parametrize("threads", ["many", -1, 257, 2**62, True, 1.5, "x" * 5000])
@pytest.mark.parametrize("name", ["intra_threads", "inter_threads"])
def test_threads_that_no_session_has_are_refused(name: str, threads: OptionText) -> None:
    with pytest.raises(RuntimeBindError, match=r"a session with '.{1,40}' threads; record"):
        options_of(fingerprint(**{name: threads}))


def test_inputs_have_a_limit() -> None:
    declared: dict[str, tuple[str, tuple[int | str | None, ...]]] = {"x": ("float32", ("a", "b")), "y": ("int64", ())}
    made = made_up(declared, (("x", "float32", (2, 3)), ("y", "<i8", ())))
    assert {name: value.shape for name, value in made.items()} == {"x": (2, 3), "y": ()}
    shape: tuple[int, ...]
    for shape in ((2**40, 1), (2**62, 2**62), (2**14, 2**14)):
        with pytest.raises(RuntimeBindError, match=r"elements; give them with --input"):
            made_up(declared, (("x", "float32", shape),))
    for name, dtype, shape in (("x", "float32", (2,)), ("x", "float64", (2, 3)), ("z", "float32", (2, 3))):
        with pytest.raises(ModelError):
            made_up(declared, ((name, dtype, shape),))
    with pytest.raises(ModelError):
        made_up({"x": ("float32", (4, "b"))}, (("x", "float32", (2, 3)),))


@pytest.mark.parametrize("dtype", ["tensor(float)", "(", "f4,f4", "9" * 5000, "O", "U9", ""])
def test_dtypes_that_there_are_not(dtype: str) -> None:
    with pytest.raises(UnsupportedError):
        random_values(dtype, (2,), np.random.default_rng(0))
