"""Sessions of the library for devices (kernels/android) around ONNX Runtime; tensors of TensorFlow Lite in a plan."""

from __future__ import annotations

import ctypes
import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import edgemem
from edgemem.planfile import encode
from edgemem.replay.library import library
from edgemem.runtime.onnxruntime.file import with_plans
from edgemem.runtime.onnxruntime.recording import record
from edgemem_converters.tflite.model import TfliteConverter
from tests.native_library import FILE, MADE_HERE, ONNX, RECORDED, TFLITE, PlanFile, Session, c, last_error
from tests.onnx_sessions import REAL, feeds, options, plain, real, same, small
from tests.runtime.test_litert import fetched

if TYPE_CHECKING:
    from tests.native_library import Run
    from tests.onnx_sessions import Feeds

POISON, GUARD_PAGE = 1, 256


def on_device(model: bytes) -> Any:
    """A session as a device makes one: our allocator, and ONNX Runtime's other settings as they are."""
    import onnxruntime

    made = options()
    made.register_custom_ops_library(library().path)
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


@pytest.mark.parametrize("name", ["resnet18", "transformer"])
def test_a_recording_for_devices_is_followed_from_the_first_run_on(name: str, tmp_path: Path) -> None:
    model, path = small(name), tmp_path / "planned.onnx"
    runtime = on_device(model)
    given = feeds(runtime)
    path.write_bytes(model)
    planset = record(path, given, bind_outputs=True, keep_reuse=True)
    path.write_bytes(with_plans(model, [planset]))
    file = PlanFile(path.read_bytes(), ONNX)
    assert file.facts(0).is_usable
    session = Session(file, POISON)
    right = plain(model).run(None, given)
    for _ in range(3):
        outputs, run = run_in(session, runtime, given)
        assert same(outputs, right)
        assert (run.source, run.is_complete, run.replans) == (FILE, 1, 0)
        assert run.measured == run.planned == file.facts(0).numbers[0]


def test_a_recording_of_other_sizes_is_left_after_one_run(tmp_path: Path) -> None:
    model, path = small("resnet18", batch="n"), tmp_path / "model.onnx"
    path.write_bytes(model)
    runtime = on_device(model)
    one, three = feeds(runtime, batch=1), feeds(runtime, batch=3)
    planset = record(path, one, bind_outputs=True, keep_reuse=True)
    session = Session(PlanFile(with_plans(model, [planset]), ONNX))
    told = []
    for given in (three, three, one, three):
        outputs, run = run_in(session, runtime, given)
        assert same(outputs, plain(model).run(None, given))
        told.append((run.source, run.is_complete))
    assert told == [(FILE, 0), (MADE_HERE, 1), (MADE_HERE, 1), (MADE_HERE, 1)]


def test_results_that_outlive_their_run_stay_as_they_are() -> None:
    model = small("resnet18")
    runtime, session = on_device(model), Session(flags=POISON)
    given = [feeds(runtime, seed=seed) for seed in range(4)]
    kept = []
    for one in given:
        with session as run:
            kept.append(runtime.run_with_ort_values(None, ort_values(one)))
    assert run.hits == run.requests - 1  # all but the result
    assert not run.is_complete
    for one, held in zip(given, kept, strict=True):
        assert same([value.numpy() for value in held], plain(model).run(None, one))


def ort_values(given: Feeds) -> dict[str, Any]:
    import onnxruntime

    return {name: onnxruntime.OrtValue.ortvalue_from_numpy(value) for name, value in given.items()}


# ---- TensorFlow Lite


class _Tflite:
    """A model in the C library, with an arena of ours before its tensors are allocated."""

    def __init__(self, path: Path, model: bytes) -> None:
        self.c = ctypes.CDLL(str(path))
        for name in ("ModelCreate", "InterpreterOptionsCreate", "InterpreterCreate", "InterpreterGetInputTensor"):
            getattr(self.c, f"TfLite{name}").restype = ctypes.c_void_p
        for name in ("InterpreterGetOutputTensor", "TensorData", "TensorName"):
            getattr(self.c, f"TfLite{name}").restype = ctypes.c_void_p
        self.c.TfLiteTensorByteSize.restype = ctypes.c_size_t
        self._bytes = ctypes.create_string_buffer(model, len(model))
        self._model = ctypes.c_void_p(self.c.TfLiteModelCreate(self._bytes, ctypes.c_size_t(len(model))))
        self.interpreter = ctypes.c_void_p(self.c.TfLiteInterpreterCreate(self._model, None))
        assert self.interpreter

    def __del__(self) -> None:
        self.c.TfLiteInterpreterDelete(self.interpreter)
        self.c.TfLiteModelDelete(self._model)

    def tensors(self, kind: str) -> list[tuple[int, int]]:
        """Address and bytes of the inputs, or the outputs."""
        count = getattr(self.c, f"TfLiteInterpreterGet{kind}TensorCount")(self.interpreter)
        found = []
        for k in range(count):
            tensor = ctypes.c_void_p(getattr(self.c, f"TfLiteInterpreterGet{kind}Tensor")(self.interpreter, k))
            found.append((self.c.TfLiteTensorData(tensor), self.c.TfLiteTensorByteSize(tensor)))
        return found

    def run(self, seed: int) -> list[bytes]:
        rng = np.random.default_rng(seed)
        for address, count in self.tensors("Input"):
            data = rng.random(count // 4, np.float32).tobytes()
            ctypes.memmove(address, data, count)
        assert self.c.TfLiteInterpreterInvoke(self.interpreter) == 0
        return [ctypes.string_at(address, count) for address, count in self.tensors("Output")]


@pytest.fixture(scope="module")
def tflite_c() -> Path:
    named = os.environ.get("EDGEMEM_TFLITE_C")
    spec = find_spec("pymicro_wakeword")
    path = Path(named or (Path(spec.origin).parent / "lib/libtensorflowlite_c.so" if spec and spec.origin else ""))
    if not path.is_file():
        pytest.skip("no libtensorflowlite_c: install pymicro-wakeword, or name it in EDGEMEM_TFLITE_C")
    return path


def tflite_planned(model: bytes, tmp_path: Path, **options: Any) -> tuple[PlanFile, Any]:
    path = tmp_path / "model.tflite"
    path.write_bytes(model)
    planset = edgemem.plan(path, **options)
    planned = TfliteConverter.from_bytes(model).with_plan(encode(planset), planset).content()
    return PlanFile(planned, TFLITE), planset


def place(runtime: _Tflite, file: PlanFile, arena: Any, size: int) -> int:
    return int(c().em_tflite_place(runtime.c._handle, runtime.interpreter, file.handle, arena.ctypes.data, size))


def aligned(size: int) -> Any:
    block = np.zeros(size + 64, np.uint8)
    return block[-block.ctypes.data % 64 :][:size]


@pytest.mark.parametrize("name", ["mp_hand_recrop", "mp_iris_landmark", "mp_face_detection_short"])
def test_tensors_of_tensorflow_lite_lie_in_our_arena(tflite_c: Path, name: str, tmp_path: Path) -> None:
    model = fetched(name)
    file, planset = tflite_planned(model, tmp_path, alignment=64)
    size = planset.best_offsets.size
    arena = aligned(size)
    planned, alone = _Tflite(tflite_c, model), _Tflite(tflite_c, model)
    assert place(planned, file, arena, size) == 0, last_error()
    for runtime in (planned, alone):
        assert runtime.c.TfLiteInterpreterAllocateTensors(runtime.interpreter) == 0
    for seed in range(3):
        assert planned.run(seed) == alone.run(seed)
    begin = arena.ctypes.data
    for address, count in (*planned.tensors("Input"), *planned.tensors("Output")):
        assert begin <= address <= begin + size - count
    assert len(np.unique(arena)) > 100  # the network's values went through it


def test_a_plan_of_another_model_is_refused(tflite_c: Path, tmp_path: Path) -> None:
    model = fetched("mp_hand_recrop")
    file, planset = tflite_planned(fetched("mp_iris_landmark"), tmp_path, alignment=64)
    runtime = _Tflite(tflite_c, model)
    arena = aligned(planset.best_offsets.size)
    assert place(runtime, file, arena, len(arena)) == -1
    assert "the plan is of another model" in last_error()
    assert place(runtime, file, arena, len(arena) - 1) == -1
    assert "the plan needs" in last_error()
    assert runtime.c.TfLiteInterpreterAllocateTensors(runtime.interpreter) == 0  # nothing was placed
