"""The call surface of `onnxruntime.InferenceSession`, and what is added to it."""

from __future__ import annotations

import copy
import gc
import threading
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from edgemem import planfile
from edgemem.errors import RuntimeBindError, UnknownShapeError
from edgemem.replay import library as native
from edgemem.replay.arena import Arena
from edgemem.replay.library import library
from edgemem.replay.plan import places_of
from edgemem.runtime.onnxruntime.recording import embed, record
from edgemem.runtime.onnxruntime.session import InferenceSession
from tests.onnx_sessions import feeds, options, plain, same, small

if TYPE_CHECKING:
    from pathlib import Path

ort = pytest.importorskip("onnxruntime")

CPU = ["CPUExecutionProvider"]


@pytest.fixture(scope="module")
def model() -> bytes:
    return small("mobilenet_v2", batch="N")


def opened(model: Any, **more: Any) -> InferenceSession:
    return InferenceSession(model, options(), CPU, **({"cache": False, "background": False} | more))


def test_what_is_not_planned_is_the_inner_sessions(model: bytes) -> None:
    reference = plain(model)
    with opened(model) as session:
        for name in ("get_inputs", "get_outputs", "get_overridable_initializers"):
            mine, theirs = getattr(session, name)(), getattr(reference, name)()
            assert [(v.name, v.shape, v.type) for v in mine] == [(v.name, v.shape, v.type) for v in theirs]
        assert session.get_providers() == CPU
        assert session.get_modelmeta().graph_name == reference.get_modelmeta().graph_name
        assert session.get_session_options().enable_mem_reuse is False
        with pytest.raises(AttributeError):
            _ = session.no_such_method


def test_profiling_still_works(model: bytes, tmp_path: Path) -> None:
    chosen = options()
    chosen.enable_profiling = True
    chosen.profile_file_prefix = str(tmp_path / "profile")
    with InferenceSession(model, chosen, CPU, cache=False, background=False) as session:
        given = feeds(session)
        session.run(None, given)
        session.run(None, given)
        assert session.memory.replayed == 1
        assert (tmp_path / session.end_profiling()).stat().st_size > 0


def test_some_outputs_by_name_have_their_own_plan() -> None:
    model = small("posenet")
    reference = plain(model)
    given = feeds(reference)
    some = [reference.get_outputs()[1].name]
    with opened(model, poison=True) as session:
        for _ in range(2):
            assert same(session.run(some, given), reference.run(some, given))
            assert same(session.run(None, given), reference.run(None, given))
        assert (session.memory.replayed, session.memory.bails) == (2, 0)


def test_each_signature_has_its_own_reason_for_not_using_the_plan_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(small("mobilenet_v2"))
    embed(path, [record(path, sess_options=options())], path)
    with opened(str(path)) as session:
        given = feeds(session)
        values = {k: ort.OrtValue.ortvalue_from_numpy(v) for k, v in given.items()}
        for _ in range(3):
            session.run_with_ort_values(None, values)
            assert "method run instead of run_with_ort_values" in session.memory.reason
            session.run(None, given)
            assert session.memory.reason == ""
            assert session.memory_report.origin is not None
            assert session.memory_report.origin.source == "file"


def test_ort_values(model: bytes) -> None:
    reference = plain(model)
    given = feeds(reference)
    values = {k: ort.OrtValue.ortvalue_from_numpy(v) for k, v in given.items()}
    with opened(model, poison=True) as session:
        for _ in range(3):
            results = session.run_with_ort_values(None, values)
            assert same([r.numpy() for r in results], reference.run(None, given))
        assert session.memory.replayed == 2


def test_io_binding_notices_other_shapes(model: bytes) -> None:
    reference = plain(model)
    with opened(model, poison=True) as session:
        binding = session.io_binding()
        for batch in (1, 1, 2, 2, 2):
            given = feeds(reference, batch=batch)
            for name, value in given.items():
                binding.bind_cpu_input(name, value)
            binding.bind_output(session.get_outputs()[0].name)
            session.run_with_iobinding(binding)
            assert same(binding.copy_outputs_to_cpu(), reference.run(None, given))
        # Batch 2 does not fit, and neither does the run that is recorded; the last one is replayed.
        memory = session.memory
        assert (memory.runs, memory.replayed, memory.bails, memory.replans) == (5, 2, 2, 1)


def test_asynchronous_runs(model: bytes) -> None:
    reference = plain(model)
    given = feeds(reference)
    answers: list[tuple[Any, Any, str]] = []
    with opened(model) as session:
        for k in range(3):
            done = threading.Event()

            def callback(results: Any, data: Any, error: str, done: threading.Event = done) -> None:
                answers.append((results, data, error))
                done.set()

            session.run_async(None, given, callback, k)
            assert done.wait(60)
        done.clear()
        session.run_async(["no such output"], given, callback, 3)
        assert done.wait(60)
        assert session.memory.replayed == 2
    assert [(data, error) for _, data, error in answers[:3]] == [(0, ""), (1, ""), (2, "")]
    assert all(same(results, reference.run(None, given)) for results, _, _ in answers[:3])
    assert answers[3][0] == []
    assert "no such output" in answers[3][2]


def test_an_error_of_onnx_runtime_is_its_own_and_the_session_goes_on(model: bytes) -> None:
    with opened(model) as session:
        given = feeds(session)
        session.run(None, given)
        with pytest.raises(Exception, match="INVALID_ARGUMENT"):
            session.run(None, {k: v[..., :-1] for k, v in given.items()})
        with pytest.raises(ValueError, match="missing"):
            session.run(None, {})
        session.run(None, given)
        assert session.memory.replayed == 1


def test_a_closed_session_runs_no_more(model: bytes) -> None:
    session = opened(model)
    given = feeds(session)
    for _ in range(2):
        results = session.run(None, given)
    before = library().totals()
    kept = [r.copy() for r in results]
    session.close()
    session.close()
    after = library().totals()
    assert (before.arenas - after.arenas, before.contexts - after.contexts) == (1, 1)
    assert same(results, kept)
    with pytest.raises(RuntimeBindError, match="closed"):
        session.run(None, given)
    with pytest.raises(RuntimeBindError, match="closed"):
        session.get_inputs()
    with pytest.raises(RuntimeBindError, match="closed"):
        session.io_binding()


def test_sessions_take_turns_in_a_shared_arena() -> None:
    models = {name: small(name) for name in ("unet", "mobilenet_v2", "transformer")}
    references = {name: plain(m) for name, m in models.items()}
    given = {name: feeds(s) for name, s in references.items()}
    expected = {name: s.run(None, given[name]) for name, s in references.items()}
    wrong: list[str] = []
    with Arena(guard=True) as shared:
        sessions = {name: opened(m, arena=shared, poison=True) for name, m in models.items()}

        def work(name: str) -> None:
            results = (sessions[name].run(None, given[name]) for _ in range(20))
            wrong.extend(name for result in results if not same(result, expected[name]))

        threads = [threading.Thread(target=work, args=(name,)) for name in (*models, *models)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong
        assert shared.size == max(s.memory.planned for s in sessions.values())
        assert all(s.memory.bails == 0 and s.memory.replayed >= 38 for s in sessions.values())
        assert all(s.memory.arena == shared.size for s in sessions.values())
    with pytest.raises(RuntimeBindError, match="arena is closed"):
        sessions["unet"].run(None, given["unet"])
    for session in sessions.values():
        session.close()


def test_sessions_that_did_not_ask_keep_their_own_allocator(model: bytes) -> None:
    with opened(model) as session:
        given = feeds(session)
        reference = plain(model)
        before = library().totals()
        expected = reference.run(None, given)
        assert library().totals() == before
        assert same(session.run(None, given), expected)


def test_the_users_options_are_as_they_were(model: bytes) -> None:
    chosen = options()
    opened_with = InferenceSession(model, chosen, CPU, cache=False, background=False)
    assert (chosen.enable_mem_pattern, chosen.enable_mem_reuse) == (True, True)
    assert chosen.intra_op_num_threads == 1
    opened_with.close()


@pytest.mark.parametrize("runs", [0, 2])
def test_a_closed_session_releases_the_one_inside(runs: int) -> None:
    session = InferenceSession(small("resnet18"), options(), cache=False, background=False)
    inside = weakref.ref(session._session)
    for _ in range(runs):
        session.run(None, feeds(session))
    session.close()
    gc.collect()
    assert inside() is None
    assert session.memory.runs == runs
    assert session.memory.reason == ("" if runs else "the session was closed before its first run")


def test_a_copy_of_a_session_that_has_not_run_shares_its_plans(model: bytes) -> None:
    with opened(model) as session:
        twin = copy.copy(session)
        given = feeds(session)
        for each in (session, twin, session):
            assert same(each.run(None, given), plain(model).run(None, given))
        assert twin.memory == session.memory
        assert (session.memory.runs, session.memory.replayed) == (3, 2)


def test_parallel_execution_is_honoured_without_a_plan(model: bytes) -> None:
    chosen = options()
    chosen.execution_mode = ort.ExecutionMode.ORT_PARALLEL
    with pytest.warns(RuntimeWarning, match="ORT_PARALLEL"):
        session = InferenceSession(model, chosen, CPU, cache=False, background=False)
    given = feeds(session)
    assert same(session.run(None, given), plain(model).run(None, given))
    assert session.memory.mode == "plain"
    assert "ORT_PARALLEL" in session.memory.reason
    session.close()


def test_of_a_provider_that_is_not_there_onnxruntime_warns_and_the_session_is_planned(model: bytes) -> None:
    if "CUDAExecutionProvider" in ort.get_available_providers():
        pytest.skip("this ONNX Runtime has CUDA")
    for asked in ("CUDAExecutionProvider", ("CUDAExecutionProvider", {"device_id": "0"})):
        for others in (CPU, []):
            with pytest.warns(UserWarning, match="'CUDAExecutionProvider' is not in available provider names"):
                session = InferenceSession(model, options(), [asked, *others], cache=False, background=False)
            given = feeds(session)
            for _ in range(2):
                assert same(session.run(None, given), plain(model).run(None, given))
            assert session.get_providers() == CPU
            assert (session.memory.mode, session.memory.replayed) == ("replay", 1)
            session.close()


class _Feed:
    """Has names, and is no mapping."""

    def __iter__(self) -> Any:
        return iter(["x"])


def test_calls_that_onnxruntime_refuses_raise_its_own_errors(model: bytes) -> None:
    """And those that it takes are taken."""
    reference = plain(model)
    given = feeds(reference)
    (name,), value, output = given, next(iter(given.values())), reference.get_outputs()[0].name
    calls: list[Any] = [
        *((None, feed) for feed in (None, 5, "x", [name], ((name, value),), _Feed(), {name: value, 1: value})),
        *((None, feed) for feed in ({None: value}, {b"x": value}, {name: None}, {name: [[1], [1, 2]]}, {})),
        *((names, given) for names in ([[output]], [1], output, 5, {output: 1}, {output}, np.array([output]))),
    ]
    with opened(model) as session:
        for _ in range(2):  # without a plan, and in it
            for names, feed in calls:
                assert _outcome(session, names, feed) == _outcome(reference, names, feed), (names, feed)
            assert same(session.run(iter([output]), given), reference.run([output], given))
            session.run(None, given)
        assert session.memory.mode == "replay"
        methods: list[Any] = [session.run_with_ort_values, reference.run_with_ort_values]
        for method in methods:
            with pytest.raises(AttributeError, match=r"has no attribute .keys."):
                method(None, None)


def _outcome(session: Any, names: Any, feed: Any) -> tuple[str, str]:
    try:
        return "", str(len(session.run(names, feed)))
    except Exception as e:  # noqa: BLE001 - ONNX Runtime's own classes, too
        return type(e).__name__, str(e).splitlines()[0]  # later ones have addresses


def test_providers_cannot_be_changed_afterwards(model: bytes) -> None:
    with opened(model) as session, pytest.raises(RuntimeBindError, match="keeps its providers"):
        session.set_providers(CPU)


def test_without_the_compiled_library(model: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "find_library", lambda: None)
    library.cache_clear()
    try:
        with pytest.raises(RuntimeBindError, match="without its compiled allocator"):
            opened(model)
        with opened(model, fallback=True) as session:
            given = feeds(session)
            assert same(session.run(None, given), plain(model).run(None, given))
            assert session.memory.mode == "plain"
            assert "compiled allocator" in session.memory.reason
    finally:
        library.cache_clear()


def test_a_plan_in_the_file_is_replayed_from_the_first_run(tmp_path: Path) -> None:
    path, planned = tmp_path / "model.onnx", tmp_path / "planned.onnx"
    path.write_bytes(small("unet"))
    plan = record(path, sess_options=options())
    embed(path, (plan,), planned)
    assert planned.read_bytes().startswith(path.read_bytes())
    reference = plain(path)
    given = feeds(reference)
    with opened(planned, poison=True) as session:
        assert same(session.run(None, given), reference.run(None, given))
        assert (session.memory.replayed, session.memory.reason) == (1, "")
        assert session.memory.planned == next(p.size for p in plan.offsets)
    again = tmp_path / "again.onnx"
    embed(planned, (plan,), again)
    assert again.read_bytes() == planned.read_bytes()
    with InferenceSession(planned, options(threads=2), CPU, cache=False, background=False) as session:
        assert same(session.run(None, given), reference.run(None, given))
        assert session.memory.replayed == 1, "a plan is tried with any number of threads"


def test_recording_dynamic_shapes(tmp_path: Path, model: bytes) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(model)
    plans = [record(path, dims={"N": n}, sess_options=options()) for n in (1, 2)]
    embed(path, plans, path)
    with opened(path) as session:
        for batch in (2, 1, 3):
            session.run(None, feeds(session, batch=batch))
        assert (session.memory.replayed, session.memory.bails) == (2, 1)
    image = plain(path).get_inputs()[0]
    by_shape = record(path, input_shapes={image.name: (2, *image.shape[1:])}, sess_options=options())
    assert by_shape.recording is not None
    assert plans[1].recording is not None
    assert by_shape.recording.fingerprint == plans[1].recording.fingerprint


def test_a_recording_names_the_dimensions_that_are_open(model: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(model)
    with pytest.raises(UnknownShapeError, match="--dim N=VALUE") as caught:
        record(path, sess_options=options())
    assert tuple(caught.value.symbols) == ("N",)


def test_a_plan_is_kept_for_the_next_session(tmp_path: Path, model: bytes) -> None:
    given = feeds(plain(model))
    for expected in (0, 1):
        with opened(model, cache=tmp_path / "plans") as session:
            session.run(None, given)
            assert session.memory.replayed == expected
    (stored,) = (tmp_path / "plans").iterdir()
    stored.write_bytes(b"no plan at all")
    for expected in (0, 1):
        with opened(model, cache=tmp_path / "plans") as session:
            session.run(None, given)
            assert session.memory.replayed == expected


def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path: Path, model: bytes) -> None:
    blocked = tmp_path / "file"
    blocked.write_bytes(b"")
    with opened(model, cache=blocked / "plans") as session:
        given = feeds(session)
        session.run(None, given)
        session.run(None, given)
        assert session.memory.replayed == 1


def test_a_recorded_plan_survives_as_bytes(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(small("blazeface"))
    plan = record(path, sess_options=options())
    assert plan.recording is not None
    data = planfile.encode(plan)
    again = planfile.decode(data)
    assert planfile.encode(again) == data
    assert again.recording is not None
    assert again.recording.fingerprint == plan.recording.fingerprint
    assert np.array_equal(again.recording.trace.events, plan.recording.trace.events)
    assert np.array_equal(places_of(again), places_of(plan))
