"""`onnxruntime.InferenceSession` whose intermediates and kernel workspace live in one planned arena.

ONNX Runtime takes its memory from edgemem's allocator (kernels/arena, kernels/replay), which records the first run of a
shape and serves later runs from a plan. Weights are not in the plan; results are in it if the caller asks for that.
"""

from __future__ import annotations

import mmap
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgemem.errors import MissingDependencyError, PlanFileError, RuntimeBindError
from edgemem.plans import PlanSet, Settings
from edgemem.proof import prove
from edgemem.replay.arena import ArenaMemory
from edgemem.replay.cache import PlanCache, cache_folder
from edgemem.replay.library import DEVICE, HOST
from edgemem.replay.replayer import Replayer
from edgemem.replay.store import StoredPlans
from edgemem.runtime.memory import MemoryReport, origin_of
from edgemem.runtime.onnxruntime.calls import described, fingerprint_of
from edgemem.runtime.onnxruntime.cuda import CUDA, DeviceMemory, with_allocator
from edgemem.runtime.onnxruntime.file import model_digest, plans_in
from edgemem.runtime.onnxruntime.install import obstacle, planned_options, refuse_silent_fallback
from edgemem.runtime.onnxruntime.optimise import BAKED_KEY, baked_options, metadata_for
from edgemem.trace.recording import Signature

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import TracebackType

    from edgemem.protobuf import Content
    from edgemem.replay.arena import Arena
    from edgemem.replay.replayer import Mode
    from edgemem.trace.recording import Recording

__all__ = ["InferenceSession", "SessionMemory"]
_CPU = "CPUExecutionProvider"
# Imported on use: a session that finds its plans in the file needs no planner.
_PLANNER = "edgemem.planning.model_plan"


@dataclass(frozen=True, slots=True)
class SessionMemory:
    """The memory of a session's runs, in bytes and counts; the plan's figures are of the signature that ran last.

    Attributes:
        mode: `record` until a plan is made, `replay` inside it, `plain` without one.
        reason: why the mode is plain, why the last run deviated from its plan, or why the file's plan is not used; ""
            otherwise.
        planned: the plan's arena.
        bound: lower bound of the arena for these requests.
        peak: the most that was alive at once in the last run that went as planned, results on the heap included.
        requests, hits, misses: of the last run: all, those served by the arena, those served by the heap.
        runs, replayed, bails, replans: since the session was opened: all, those that went as planned, those that
            did not, and plans made beyond the first of a signature.
        arena: of all arenas that the session holds now.
    """

    mode: Mode
    reason: str
    planned: int
    bound: int
    peak: int
    requests: int
    hits: int
    misses: int
    runs: int
    replayed: int
    bails: int
    replans: int
    arena: int


class InferenceSession:
    """An `onnxruntime.InferenceSession` whose memory is planned.

    Calls that are not described here are passed on to the session inside. Many threads may run it at once: each has an
    arena of its own.

    Args:
        path_or_bytes: as ONNX Runtime has it.
        sess_options: as ONNX Runtime has it; memory patterns and ONNX Runtime's own reuse are off in this session.
            With ORT_PARALLEL the session runs without a plan, and a warning says so. The options are marked to use
            edgemem's allocator from then on, so a plain session to compare with needs options of its own.
        providers: as ONNX Runtime has it, the CPU alone by default. One that was asked for and is not there is an
            error. With CUDA the device's memory is planned, without `poison` and `guard`.
        provider_options: as ONNX Runtime has it.
        arena: one that this session shares with others; runs take turns in it.
        bind_outputs: results are made in the arena too; `run` returns copies of them.
        share_outputs: results of `run` lie in the arena without a copy. It lives for as long as they do, and a run that
            finds them still there takes another arena: drop them before the next run.
        fallback: run without a plan, instead of raising, where the allocator is missing or refused.
        cache: the folder for plans that are not in the model file: True is the user's own folder, False is none.
        stored: use the plan in the model file if there is one for this session.
        most_plans: how many shape signatures have plans at once; the least recently used one is dropped.
        poison: fill unused arena memory with a pattern, to prove that nothing reads it. Slow.
        guard: place a page behind each arena that cannot be read or written.
        kwargs: as ONNX Runtime has it.

    Raises:
        MissingDependencyError: onnxruntime is not installed.
        RuntimeBindError: the allocator is missing or ONNX Runtime refuses it; a provider is not there.
        PlanFileError, InvalidPlanError: the plan in the model file is damaged or wrong.
    """

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike[str],
        sess_options: Any = None,
        providers: Sequence[str | tuple[str, dict[Any, Any]]] | None = None,
        provider_options: Sequence[dict[Any, Any]] | None = None,
        *,
        arena: Arena | None = None,
        bind_outputs: bool = False,
        share_outputs: bool = False,
        fallback: bool = False,
        cache: bool | Path = True,
        stored: bool = True,
        most_plans: int = 8,
        poison: bool = False,
        guard: bool = False,
        **kwargs: Any,
    ) -> None:
        try:
            import onnxruntime
        except ImportError:
            raise MissingDependencyError("onnxruntime", extra="cpu", purpose="running ONNX models") from None
        self._onnxruntime = onnxruntime
        if bind_outputs and share_outputs:
            raise RuntimeBindError("results are either copied out of the arena or shared in it: bind or share outputs")
        self._bind_outputs = bind_outputs
        self._share_outputs = share_outputs
        self._closed = False
        self._workers: ThreadPoolExecutor | None = None
        self._starting = threading.Lock()
        self._replayer: Replayer | None = None
        options = onnxruntime.SessionOptions() if sess_options is None else sess_options
        if providers is None and not options.has_providers():
            providers = [_CPU]
        refuse_silent_fallback(providers, onnxruntime.get_available_providers())
        self._plain = obstacle(onnxruntime, options, fallback=fallback)
        cuda = not self._plain and any(CUDA in (p, p[0]) for p in providers or ())
        if cuda and providers is not None:
            providers, provider_options = with_allocator(providers, provider_options), None
        with (
            _content(path_or_bytes) as (data, folder),
            # Parsed only if the key occurs: a model in ONNX Runtime's own format is no protobuf message.
            baked_options(metadata_for(data) if data.find(BAKED_KEY.encode()) >= 0 else {}, options),
            nullcontext() if self._plain else planned_options(options, host=not cuda),
        ):
            self._session: Any = onnxruntime.InferenceSession(
                path_or_bytes, options, providers, provider_options, **kwargs
            )
            if not self._plain:
                digest, plansets = model_digest(data, folder), _plans(data, stored=stored)
        self._outputs = tuple(o.name for o in self._session.get_outputs())
        present = self._session.get_providers()
        refuse_silent_fallback(providers, present)
        if not self._plain and not {CUDA, _CPU}.issuperset(present):
            self._plain = f"plans are replayed for {_CPU} and {CUDA} alone, and this session has {', '.join(present)}"
        if not self._plain:
            # The settings of the graph's plan apply to recordings, too, within what a file may ask for.
            settings = next((p.settings for p in plansets if p.recording is None), Settings())
            recordings = [prove(p, remedy="record it again") for p in plansets if p.recording is not None and stored]
            if not recordings:
                import_module(_PLANNER)  # not during the first run, for which a caller waits
            folder = cache_folder() if cache is True else Path(cache) if cache else None
            self._replayer = Replayer(
                StoredPlans(
                    fingerprint_of(self._session, onnxruntime.__version__, digest),
                    recordings,
                    settings,
                    PlanCache(folder) if folder is not None else None,
                ),
                plan=partial(_planned, settings=settings),
                silent="ONNX Runtime did not ask edgemem's allocator: another one was registered for the process",
                shared=arena,
                poison=poison,
                kind=DEVICE if cuda else HOST,
                make=DeviceMemory if cuda else partial(ArenaMemory, guard=guard),
                limit=most_plans,
            )

    @property
    def memory(self) -> SessionMemory:
        """The memory that the runs need now and have needed so far."""
        replayer = self._replayer
        if replayer is None or self._plain:
            return SessionMemory("plain", self._plain, *([0] * 11))
        slot, counters = replayer.current, replayer.counters
        planset = self.recorded_plan
        best = planset.best_offsets if planset is not None else None
        last = slot.last if slot is not None else None
        complete = slot.complete if slot is not None else None
        return SessionMemory(
            mode=slot.mode if slot is not None else "record",
            reason=slot.reason if slot is not None else "",
            planned=best.size if best is not None else 0,
            bound=planset.bounds.offsets if planset is not None else 0,
            peak=complete.peak if complete is not None else 0,
            requests=last.requests if last is not None else 0,
            hits=last.hits if last is not None else 0,
            misses=last.misses if last is not None else 0,
            runs=counters.runs,
            replayed=counters.replayed,
            bails=counters.bails,
            replans=counters.replans,
            arena=replayer.arena_bytes(),
        )

    @property
    def memory_report(self) -> MemoryReport:
        """The same in the form that all executors have, with the plan that the last call ran in."""
        memory = self.memory
        slot = self._replayer.current if self._replayer is not None and not self._plain else None
        found = slot.found if slot is not None else None
        best = found.planset.best_offsets if found is not None else None
        counters = ("peak", "requests", "hits", "misses", "runs", "replayed", "bails", "replans")
        return MemoryReport(
            executor="replay",
            mode=memory.mode,
            origin=origin_of(found.planset, best, found.source) if found is not None and best is not None else None,
            planned=memory.planned,
            lower_bound=memory.bound if best is not None else None,
            reserved=memory.arena,
            outside=_outside(found.planset) if found is not None else 0,
            reason=memory.reason,
            details={name: getattr(memory, name) for name in counters},
        )

    @property
    def recorded_plan(self) -> PlanSet | None:
        """The plan of the signature that ran last, with its recording, or None before there is one."""
        slot = self._replayer.current if self._replayer is not None else None
        return slot.found.planset if slot is not None and slot.found is not None else None

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: Any = None) -> Any:
        """As ONNX Runtime has it; the arrays are copies with `bind_outputs`, and in the arena with `share_outputs`."""
        session = self._open()
        if self._replayer is None:
            return session.run(output_names, input_feed, run_options)
        signature = Signature(
            "run", described(input_feed), self._wanted(output_names), self._bind_outputs, self._share_outputs
        )
        if not self._bind_outputs:
            return self._replayer.run(signature, partial(session.run, output_names, input_feed, run_options))
        return self._replayer.run(
            signature, lambda: [_copy(v) for v in session.run(output_names, input_feed, run_options)]
        )

    def run_unplanned(self, input_feed: Mapping[str, Any]) -> Any:
        """All results of a run outside the plan, for recorders around it; with `bind_outputs`, copies."""
        results = self._open().run(None, input_feed)
        return [_copy(v) for v in results] if self._bind_outputs else results

    def run_with_ort_values(
        self, output_names: Sequence[str] | None, input_dict_ort_values: Mapping[str, Any], run_options: Any = None
    ) -> Any:
        """As ONNX Runtime has it; results are on the heap."""
        session = self._open()
        call = partial(session.run_with_ort_values, output_names, input_dict_ort_values, run_options)
        signature = Signature("run_with_ort_values", described(input_dict_ort_values), self._wanted(output_names))
        return call() if self._replayer is None else self._replayer.run(signature, call)

    def _wanted(self, output_names: Sequence[str] | None) -> tuple[str, ...]:
        """() for all outputs in their order, whether they were named or not."""
        names = tuple(output_names or ())
        return () if names == self._outputs else names

    def io_binding(self) -> Any:
        """As ONNX Runtime has it; bound values stay in the caller's memory."""
        return self._onnxruntime.IOBinding(self._open())

    def run_with_iobinding(self, iobinding: Any, run_options: Any = None) -> None:
        """As ONNX Runtime has it. Runs with bindings share one plan, which is made anew when their shapes change."""
        session = self._open()
        call = partial(session.run_with_iobinding, iobinding, run_options)
        bound = getattr(iobinding, "_bound_inputs", {})
        values = {name: value for name, value in bound.items() if value is not None}
        signature = Signature("run_with_iobinding", described(values))
        if self._replayer is None:
            call()
        else:
            self._replayer.run(signature, call)

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[Sequence[Any], Any, str], None],
        user_data: Any,
        run_options: Any = None,
    ) -> None:
        """As ONNX Runtime has it, on a thread of this session: `callback(results, user_data, error)`."""
        self._open()
        with self._starting:
            if self._workers is None:
                self._workers = ThreadPoolExecutor(thread_name_prefix="edgemem-run")
            workers = self._workers

        def work() -> None:
            try:
                results, error = self.run(output_names, input_feed, run_options), ""
            except Exception as e:  # noqa: BLE001 - handed to the callback, as ONNX Runtime does
                results, error = [], str(e)
            callback(results, user_data, error)

        workers.submit(work)

    def set_providers(self, *_: Any, **__: Any) -> None:
        """Not supported, because the plan depends on the providers."""
        raise RuntimeBindError("a planned session keeps its providers; open another one with those you want")

    def close(self) -> None:
        """Release the arenas and the session inside; later runs raise RuntimeBindError. A second call does nothing."""
        self._closed = True
        if self._workers is not None:
            self._workers.shutdown()
        if self._replayer is not None:
            self._replayer.close()
        self._session = None

    def __enter__(self) -> InferenceSession:  # noqa: PYI034 - subclassing is not meant
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        # Called only for attributes that do not exist, which includes `_session` before __init__ sets it.
        if name == "_session":
            raise AttributeError(name)
        return getattr(self._open(), name)

    def _open(self) -> Any:
        session = self._session
        if session is None:
            raise RuntimeBindError("the session is closed; open a new one")
        return session


def _plans(data: Content, *, stored: bool) -> tuple[PlanSet, ...]:
    """The plan sets in a model. Damaged ones are an error only if stored plans are to be run."""
    try:
        return plans_in(data, old=stored)
    except PlanFileError:
        if stored:
            raise
        return ()


def _planned(recording: Recording, settings: Settings) -> PlanSet:
    planset: PlanSet = import_module(_PLANNER).plan_recording(recording, settings, from_file=True)
    return planset


def _outside(planset: PlanSet) -> int:
    """Bytes of the requests that have no place in a recording's plan: results, and blocks that outlive the run."""
    assert planset.recording is not None
    trace = planset.recording.trace
    return int(trace.size.sum() - planset.problem.size.sum())


@contextmanager
def _content(path_or_bytes: str | bytes | os.PathLike[str]) -> Iterator[tuple[Content, Path | None]]:
    """A model's bytes, mapped rather than read, and the folder its file lies in."""
    if isinstance(path_or_bytes, bytes):
        yield path_or_bytes, None
        return
    path = Path(path_or_bytes)
    if not path.is_file() or not path.stat().st_size:
        yield b"", path.parent  # ONNX Runtime raises the error
        return
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        yield content, path.parent


def _copy(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.copy()
    return [_copy(v) for v in value] if isinstance(value, list) else value
