"""`onnxruntime.InferenceSession` whose intermediates and kernel workspace live in one planned arena.

ONNX Runtime takes its memory from edgemem's allocator (kernels/arena, kernels/replay), which records the first run and
serves later ones, of any shapes that fit, from a plan. Weights are not in it; results are, if the caller asks for it.
"""

from __future__ import annotations

import _thread  # as in file.py
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import MissingDependencyError, RuntimeBindError
from edgemem.replay.library import library
from edgemem.replay.logger import logger
from edgemem.replay.policy import RecordPolicy, ReplayPolicy
from edgemem.runtime.onnxruntime.arena_shrinkage import run_with_options
from edgemem.runtime.onnxruntime.beginning import BEGINNING
from edgemem.runtime.onnxruntime.calls import binding_signature, copied, copy, described, fingerprint_of, place_of
from edgemem.runtime.onnxruntime.cuda import CUDA, planned_providers, without_device
from edgemem.runtime.onnxruntime.file import opened
from edgemem.runtime.onnxruntime.file_options import options_for_file
from edgemem.runtime.onnxruntime.first_use import FirstUse, stored_plans
from edgemem.runtime.onnxruntime.install import load_planned, obstacle
from edgemem.runtime.onnxruntime.session_arguments import checked_max_bytes, refuse_unknown_keywords
from edgemem.runtime.onnxruntime.session_weights import SessionWeights

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Hashable, Iterable, Sequence
    from concurrent.futures import ThreadPoolExecutor
    from pathlib import Path
    from types import TracebackType

    from edgemem.plans import PlanSet
    from edgemem.replay.arena import Arena
    from edgemem.replay.families import Family
    from edgemem.replay.replayer import Replayer
    from edgemem.runtime.memory import MemoryReport
    from edgemem.runtime.onnxruntime.cuda import Providers
    from edgemem.runtime.onnxruntime.session_memory import SessionMemory
    from edgemem.trace.recording import Signature

__all__ = ["InferenceSession"]
_WORKER_NAME: Final = "edgemem-run"
_MOST_CALLS: Final = 256  # whose families are remembered; others are looked up
_MOST_ROUNDS: Final = 4  # of a warm-up, until every run fits


class InferenceSession:
    """An `onnxruntime.InferenceSession` whose memory is planned.

    Calls that are not described here are passed on to the session inside. Many threads may run it at once: each has an
    arena of its own.

    Args:
        path_or_bytes: as ONNX Runtime has it.
        sess_options: as ONNX Runtime has it; memory patterns and ONNX Runtime's own reuse are off in this session.
            With ORT_PARALLEL the session runs without a plan, and a warning says so. The options are marked to use
            edgemem's allocator from then on, so a plain session to compare with needs options of its own.
        providers: as ONNX Runtime has it, the CPU alone by default; a warning tells of one that is not there. With
            CUDA the device's memory is planned, without `poison` and `guard`.
        provider_options: as ONNX Runtime has it.
        arena: one that this session shares with others; runs take turns in it.
        bind_outputs: results are made in the arena too; `run` returns copies of them.
        share_outputs: results of `run` lie in the arena without a copy. It lives for as long as they do, and a run that
            finds them still there takes another arena: drop them before the next run.
        fallback: run without a plan, instead of raising, where the allocator is missing or refused.
        cache: the folder for plans that are not in the model file: True is the user's own folder, False is none.
        stored: use the plan in the model file if there is one for this session.
        record: which runs may be recorded: `first-run` the first of a kind and those that do not fit into its plan;
            `warmup` those of `warm_up` alone; `never` none, so that only stored plans are used.
        background: make plans on a thread of their own, while runs go on; False makes them before the recorded run
            returns, and others wait for it.
        most_arenas: how many arenas there are, as many as there are processors by default. Each serves one run at once,
            or several smaller ones; further ones wait for their turn.
        max_bytes: the most that arenas, and blocks of runs outside them, may take, such as "64MiB"; results count until
            they are freed, weights do not. Runs wait while others take too much; one that does not fit alone is
            refused.
        idle_seconds: arenas go that no run used for so long, at once where memory is short, and pages no run needed.
        poison: fill unused arena memory with a pattern, to prove that nothing reads it. Slow.
        guard: place a page behind each arena that cannot be read or written.
        keep_reuse: leave ONNX Runtime's own reuse on, which its Java API cannot switch off. A plan that is recorded so
            is for such sessions alone, as those of an Android app.
        kwargs: as ONNX Runtime has it.

    Raises:
        TypeError: neither this session nor ONNX Runtime's has such a keyword.
        MissingDependencyError: onnxruntime is not installed.
        RuntimeBindError: the allocator is missing or ONNX Runtime refuses it, or arguments exclude each other.
        PlanFileError: the plan in the model file is damaged. That it is right is proved when it is first needed: the
            first run, and whoever asks for the memory, raise InvalidPlanError if it is wrong.
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
        record: RecordPolicy = "first-run",
        background: bool = True,
        most_arenas: int | None = None,
        max_bytes: int | str | None = None,
        idle_seconds: float | None = None,
        poison: bool = False,
        guard: bool = False,
        keep_reuse: bool = False,
        **kwargs: Any,
    ) -> None:
        try:
            import onnxruntime

            # By this path, because users replace `onnxruntime.InferenceSession` by this class.
            from onnxruntime.capi.onnxruntime_inference_collection import InferenceSession as PlainSession
        except ImportError:
            raise MissingDependencyError("onnxruntime", purpose="running ONNX models") from None
        refuse_unknown_keywords(InferenceSession.__init__, kwargs)
        most_bytes = checked_max_bytes(max_bytes)
        policy = ReplayPolicy(record, background, most_arenas, poison, most_bytes, idle_seconds).checked()
        self._onnxruntime = onnxruntime
        self._record = record
        if bind_outputs and share_outputs:
            raise RuntimeBindError("results are either copied out of the arena or shared in it: bind or share outputs")
        self._bind_outputs, self._share_outputs = bind_outputs, share_outputs
        self._workers: ThreadPoolExecutor | None = None
        self._starting = _thread.allocate_lock()
        self._replayer: Replayer | None = None
        self._first_use: FirstUse | None = None
        self._families: dict[Hashable, Family] = {}
        options = onnxruntime.SessionOptions() if sess_options is None else sess_options
        self._plain = obstacle(onnxruntime, options, fallback=fallback)
        if self._plain and max_bytes is not None:
            raise RuntimeBindError(f"max_bytes cannot be kept: {self._plain}")

        def load(chosen: Providers) -> Any:
            plain = partial(PlainSession, sess_options=options, providers=chosen.named, **kwargs)
            make = partial(weights.load, lambda path: plain(path, provider_options=chosen.options))
            return make() if self._plain else load_planned(make, options, is_device=chosen.is_device, reuse=keep_reuse)

        chosen = planned_providers(onnxruntime, options, providers, provider_options)
        if max_bytes is not None and (arena is not None or chosen.is_device):
            raise RuntimeBindError(
                "max_bytes is for a session whose arenas are its own and in host memory; give a shared arena a capacity"
            )
        with opened(path_or_bytes) as (data, _), options_for_file(data, options):
            weights = SessionWeights(path_or_bytes, data, options, chosen.named, kwargs)
            if not self._plain:
                weights.begin_digest()
            self._session: Any = load(chosen)
            if chosen.is_device and CUDA not in self._session.get_providers():
                chosen = without_device(self._session.get_providers())
                self._session = load(chosen)
            if not self._plain:
                library().trim()  # what ONNX Runtime freed while it loaded the model, before anything else is in memory
                plans = stored_plans(data, stored=stored)
        self._outputs = tuple(o.name for o in self._session.get_outputs())
        self._inputs = tuple(i.name for i in self._session.get_inputs())
        if not self._plain:
            about = (self._session, onnxruntime.__version__, weights.digest(), weights.level)
            place = partial(place_of, self._session, tuple(kwargs.get("disabled_optimizers") or ()))
            kept: dict[str, Any] = {"cache": cache, "arena": arena, "is_device": chosen.is_device, "guard": guard}
            kept |= {"place": place, "stored": stored}
            self._first_use = FirstUse(partial(fingerprint_of, *about), plans, policy, **kept)

    @property
    def memory(self) -> SessionMemory:
        """The memory that the runs need now and have needed so far."""
        from edgemem.runtime.onnxruntime.session_memory import memory_of  # as are all below: not to load a model

        return memory_of(self._begin(), self._plain or "the session was closed before its first run")

    @property
    def memory_report(self) -> MemoryReport:
        """The same in the form that all executors have, with the plan that the last call ran in."""
        from edgemem.runtime.onnxruntime.session_memory import found_plan, report_of

        return report_of(self.memory, found_plan(self._begin()))

    @property
    def recorded_plan(self) -> PlanSet | None:
        """The plan that served the last run, with its recording, or None before there is one."""
        from edgemem.runtime.onnxruntime.session_memory import found_plan

        found = found_plan(self._begin())
        return found.planset if found is not None else None

    def _begin(self) -> Replayer | None:
        """The replayer, made by the first run, or by who asks for the memory; None in a session without plans."""
        if (first_use := self._first_use) is not None:
            with BEGINNING:
                if self._replayer is None:
                    self._open()  # raises if the session was closed meanwhile
                    self._replayer, self._first_use = first_use.replayer(), None
        return self._replayer

    def run(self, output_names: Iterable[str] | None, input_feed: Mapping[str, Any], run_options: Any = None) -> Any:
        """As ONNX Runtime has it; the arrays are copies with `bind_outputs`, and in the arena with `share_outputs`.

        Raises BudgetExceededError if the run does not fit into `max_bytes`; the session goes on.
        """
        session = self._session or self._open()
        replayer = self._replayer or self._begin()
        if replayer is None:
            return session.run(output_names, input_feed, run_options)
        if output_names is not None and output_names.__class__ is not list and isinstance(output_names, Iterator):
            output_names = list(output_names)  # it gives its names once
        described = partial(self._signature, "run", output_names, input_feed)
        try:
            # Names alone decide which plans a run has; the order of a feed is mostly that of the last one.
            names = (tuple(output_names) if output_names else (), *input_feed)
            family = self._families.get(names)
            if family is None:
                family = self._remember(names, replayer.family(described()))
        except (TypeError, AttributeError):  # no names, or no mapping: ONNX Runtime says so in its own words
            return session.run(output_names, input_feed, run_options)
        run = replayer.run if run_options is None else partial(run_with_options, replayer)
        if self._bind_outputs:
            return run(family, described, copied, session, output_names, input_feed, run_options)
        return run(family, described, session.run, output_names, input_feed, run_options)

    def warm_up(self, feeds: Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> MemoryReport:
        """Record runs with these inputs, plan for them all and every smaller one, and run inside the plan.

        For servers: no request is recorded or waits for a plan afterwards, and the memory that loading and recording
        took is given back to the system.

        Args:
            feeds: the inputs of one run by name, or those of several runs: the smallest and the largest, for example.

        Returns:
            The memory of the last run.

        Raises:
            RuntimeBindError: the session was opened with record="never", or there are no inputs.
        """
        given = [feeds] if isinstance(feeds, Mapping) else list(feeds or ())
        if not given:
            raise RuntimeBindError("a warm-up needs the inputs of one run or more")
        with self.learning():
            for _ in range(_MOST_ROUNDS):
                before = self.memory.replayed
                for feed in given:
                    self.run(None, feed)
                if self.memory.replayed == before + len(given):
                    break
        return self.memory_report

    @contextmanager
    def learning(self) -> Iterator[None]:
        """As `warm_up`, of whatever the block runs: every run is recorded, and planned before it returns.

        Raises RuntimeBindError if the session was opened with record="never".
        """
        if self._record == "never":
            raise RuntimeBindError('the session records nothing (record="never"); open it with record="warmup"')
        replayer = self._begin()
        with nullcontext() if replayer is None else replayer.learning():
            yield

    def trim(self) -> None:
        """Give back to the system what no run uses now; the next run makes its arena anew."""
        if self._replayer is not None:
            self._replayer.trim()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until no plan of any session is being made, at most so many seconds; whether none is."""
        from edgemem.replay.worker import worker

        return worker().wait(seconds)

    def _signature(self, call: str, output_names: Iterable[str] | None, feed: Mapping[str, Any]) -> Signature:
        from edgemem.trace.recording import Signature

        names = tuple(output_names or ())
        # () for all outputs in their order, whether they were named or not.
        wanted = () if names == self._outputs else names
        is_run = call == "run"
        return Signature(call, described(feed), wanted, is_run and self._bind_outputs, is_run and self._share_outputs)

    def run_unplanned(self, input_feed: Mapping[str, Any]) -> Any:
        """All results of a run outside the plan, for recorders around it; with `bind_outputs`, copies."""
        results = self._open().run(None, input_feed)
        return [copy(v) for v in results] if self._bind_outputs else results

    def run_with_ort_values(
        self, output_names: Sequence[str] | None, input_dict_ort_values: Mapping[str, Any], run_options: Any = None
    ) -> Any:
        """As ONNX Runtime has it; results are on the heap."""
        return self._called("run_with_ort_values", output_names, input_dict_ort_values, run_options)

    def _remember(self, call: Hashable, family: Family) -> Family:
        if len(self._families) >= _MOST_CALLS:  # a server may pass on whatever outputs its clients name
            self._families.clear()
        self._families[call] = family
        return family

    def _called(
        self, method: str, output_names: Sequence[str] | None, feed: Mapping[str, Any], run_options: Any
    ) -> Any:
        call, replayer = getattr(self._open(), method), self._begin()
        if replayer is None:
            return call(output_names, feed, run_options)
        signed = partial(self._signature, method, output_names, feed)
        try:
            family = replayer.family(signed())
        except (TypeError, AttributeError):  # as in `run`
            return call(output_names, feed, run_options)
        return run_with_options(replayer, family, signed, call, output_names, feed, run_options)

    def io_binding(self) -> Any:
        """As ONNX Runtime has it; bound values stay in the caller's memory."""
        return self._onnxruntime.IOBinding(self._open())

    def run_with_iobinding(self, iobinding: Any, run_options: Any = None) -> None:
        """As ONNX Runtime has it; bound values stay in the caller's memory."""
        session, replayer = self._open(), self._begin()
        if replayer is None:
            session.run_with_iobinding(iobinding, run_options)
            return
        family = self._families.get("run_with_iobinding")
        signed = partial(binding_signature, self._inputs, iobinding)
        if family is None:
            family = self._remember("run_with_iobinding", replayer.family(signed()))
        run_with_options(replayer, family, signed, session.run_with_iobinding, iobinding, run_options)

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[Sequence[Any], Any, str], None],
        user_data: Any,
        run_options: Any = None,
    ) -> None:
        """As ONNX Runtime has it, on a thread of this session: `callback(results, user_data, error)`."""
        from concurrent.futures import ThreadPoolExecutor  # for these calls alone

        self._open()
        with self._starting:
            if self._workers is None:
                self._workers = ThreadPoolExecutor(thread_name_prefix=_WORKER_NAME)
            workers = self._workers

        def work() -> None:
            try:
                results, error = self.run(output_names, input_feed, run_options), ""
            except Exception as e:  # noqa: BLE001 - handed to the callback, as ONNX Runtime does
                results, error = [], str(e)
            try:
                callback(results, user_data, error)
            except Exception:  # noqa: BLE001 - it is the user's code, and nobody waits for it
                logger().exception("the callback of run_async failed")

        workers.submit(work)

    def set_providers(self, *_: Any, **__: Any) -> None:
        """Not supported, because the plan depends on the providers."""
        raise RuntimeBindError("a planned session keeps its providers; open another one with those you want")

    def close(self) -> None:
        """Release the arenas and the session inside; later runs raise RuntimeBindError. A second call does nothing."""
        if self._workers is not None:
            import threading

            # A callback may close the session: it cannot wait for its own thread.
            self._workers.shutdown(wait=not threading.current_thread().name.startswith(_WORKER_NAME))
        with BEGINNING:
            self._first_use = self._session = None
        if self._replayer is not None:
            self._replayer.close()

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
