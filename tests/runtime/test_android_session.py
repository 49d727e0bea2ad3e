"""Sessions of the library for devices (kernels/android) around ONNX Runtime, and tensors of TensorFlow Lite at a plan's places."""

from __future__ import annotations

import ctypes
import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import edgemem
from edgemem.planfile import encode_all
from edgemem.replay.library import library
from edgemem.runtime.onnxruntime import InferenceSession
from edgemem.runtime.onnxruntime.file import plans_in
from edgemem_converters.tflite.model import TfliteConverter
from tests.native_library import FILE, MADE_HERE, ONNX, RECORDED, TFLITE, PlanFile, Session, c, last_error
from tests.onnx_sessions import REAL, feeds, options, plain, real, same, small
from tests.runtime.test_litert import fetched

if TYPE_CHECKING:
    from tests.native_library import Run
    from tests.onnx_sessions import Feeds

POISON, GUARD_PAGE = 1, 256


def on_device(model: bytes) -> Any:
    """A session as a device makes one: the allocator by the library's name, ONNX Runtime's other settings as they are."""
    import onnxruntime

    made = options()
    made.register_custom_ops_library(str(library().path))
    made.add_session_config_entry("session.use_env_allocators", "1")
    made.enable_mem_pattern = False
    return onnxruntime.InferenceSession(model, made, providers=["CPUExecutionProvider"])


def run_in(session: Session, runtime: Any, given: Feeds) -> tuple[list[Any], Run]:
    """The outputs of a run, copied while it is on: no memory of it outlives the run."""
    with session as run:
        outputs = [np.array(value) for value in runtime.run(None, given)]
    return outputs, run


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "unet", "transformer"])
def test_a_model_without_a_plan_is_planned_by_its_first_run(name: str) -> None:
    model = small(name)
    runtime, session = on_device(model), Session(flags=POISON | GUARD_PAGE)
    given = feeds(runtime)
    right = plain(model).run(None, given)
    outputs, run = run_in(session, runtime, given)
    assert (run.source, run.hits, run.replans) == (RECORDED, 0, 1)
    assert same(outputs, right)
    for _ in range(3):
        outputs, run = run_in(session, runtime, given)
        assert same(outputs, right)
        assert run.source == MADE_HERE
        assert run.is_complete
        assert run.requests == run.hits > 1
        assert run.measured == run.planned
        assert run.lower_bound <= run.planned < run.naive
        assert run.heap_peak == 0
    assert run.replans == 1


@pytest.mark.parametrize("name", ["rapidocr_det", "silero_vad", "light_squeezenet"])
def test_a_real_model_runs_in_its_plan(name: str) -> None:
    model = real(name).read_bytes()
    runtime, session = on_device(model), Session(flags=POISON)
    given = feeds(runtime, REAL[name])
    right = plain(model).run(None, given)
    for _ in range(3):
        outputs, run = run_in(session, runtime, given)
        assert same(outputs, right)
    assert (run.source, run.is_complete, run.planned) == (MADE_HERE, 1, run.measured)
