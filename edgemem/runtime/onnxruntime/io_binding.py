"""Runs an ONNX model inside a static plan with ONNX Runtime's own Python package alone.

Every node has a session of its own, whose inputs and outputs are bound by address into one arena with the layout of the
plan. Kernels' workspaces are not in the arena, and every node takes some microseconds more than in one session; no
compiled library is needed. A model that cannot run node by node runs as a plain session, with a warning.
"""

from __future__ import annotations

import threading
import warnings
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from edgemem.errors import RuntimeBindError
from edgemem.formats import Bindings, onnx_editor
from edgemem.model.aliasing import RULES
from edgemem.runtime.onnxruntime.bound_arena import BoundArena, Device, make_arena
from edgemem.runtime.onnxruntime.bound_memory import BoundMemory, bound_report
from edgemem.runtime.onnxruntime.fitting import OtherSizes, misfit
from edgemem.runtime.onnxruntime.install import refuse_silent_fallback
from edgemem.runtime.onnxruntime.layout import planned_layout, separate_layout
from edgemem.runtime.onnxruntime.optimise import onnxruntime, runtime_errors
from edgemem.runtime.onnxruntime.prepared import prepare, sub_options

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.plans import PlanSet
    from edgemem.runtime.arguments import Argument
    from edgemem.runtime.feeds import Feeds
    from edgemem.runtime.memory import MemoryReport
    from edgemem.runtime.onnxruntime.prepared import Prepared

__all__ = ["BoundMemory", "IoBindingSession", "make_session"]


def make_session(
    model_path: str | Path,
    planset: PlanSet | None = None,
    *,
    plan: Literal["file", "make"] = "file",
    level: str = "all",
    feeds: Mapping[str, NDArray[Any]] | None = None,
    dims: Mapping[str, int] | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    sess_options: Any = None,
    strategy: str | Sequence[str] | None = None,
    bind_outputs: bool = False,
    poison: int | None = None,
    device: str = "cpu",
) -> IoBindingSession:
    """A session that runs a model inside a plan, node by node.

    Without `planset` and `strategy` it runs the plan of the graph that is in the file, as it stands.

    Args:
        model_path: an .onnx file.
        planset: a plan made for this file (`edgemem.plan`), to run instead of the file's own.
        plan: what to do with a file without a plan of its graph: `file` refuses it; `make` lets ONNX Runtime optimise
            the graph, reads the sizes from one profiled run, and makes a plan.
        level: how far ONNX Runtime optimises a graph for which a plan is made: none, basic, extended, all. A graph
            that has a plan runs as it is in the file.
        feeds: values for that profiled run; made up otherwise (`edgemem.runtime.feeds.make_feeds`).
        dims: values for symbolic dimensions; a plan in the file, or given, has to be for the same.
        input_shapes: shapes of inputs, by name; as `dims`.
        sess_options: `onnxruntime.SessionOptions`; threads, logging and determinism are taken from it.
        strategy: as for `edgemem.plan`: make a plan with it, whatever plan the file has.
        bind_outputs: outputs stay in buffers of the session and are overwritten by its next run; otherwise every
            run returns fresh ones.
        poison: a byte that the arena is filled with before every run, so that reading old contents changes results.
        device: `cpu`, `cuda` or `cuda:NUMBER`, where the arena is one allocation. Outputs are copied from there.

    Raises:
        MissingDependencyError: onnxruntime is not installed.
        ModelError: the file cannot be read, or a dimension is unknown.
        PlanFileError: the file has no plan of its graph, or a damaged one.
        InvalidPlanError, StalePlanError: the plan is wrong, has no arena, or belongs to another model.
        RuntimeBindError: the plan is for other sizes, or not one that this executor can run; the device is not there.
    """
    place = Device.parse(device)
    shapes = {name: tuple(shape) for name, shape in (input_shapes or {}).items()}
    prepared = prepare(
        model_path,
        planset,
        make=plan == "make",
        level=level,
        feeds=feeds,
        bindings=Bindings(dict(dims or {}), shapes),
        options=sess_options,
        strategy=strategy,
    )
    return IoBindingSession(prepared, bind_outputs=bind_outputs, poison=poison, device=place)


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """A node's session with its bindings; buffers outside the arena are bound again at every run."""

    name: str
    session: Any
    binding: Any
    outside_in: tuple[str, ...]
    outside_out: tuple[str, ...]
    shown: tuple[str, ...]


class IoBindingSession:
    """The session that `make_session` makes: the calls of `onnxruntime.InferenceSession` that run a model.

    All runs use one arena, so a lock admits one run at a time. With `separate`, every tensor has memory of its own
    instead of its place in the plan; `compare` runs such a session beside a planned one. Inputs of other shapes in the
    plan's range have a session of their own, `within` the arena and the weights of this one.
    """

    def __init__(
        self,
        prepared: Prepared,
        *,
        bind_outputs: bool = False,
        poison: int | None = None,
        separate: bool = False,
        within: tuple[BoundArena, dict[str, Any]] | None = None,
        device: Device | None = None,
    ) -> None:
        if poison is not None and not 0 <= poison <= 0xFF:
            raise RuntimeBindError(f"poison is a byte, not {poison}")
        self._prepared = prepared
        self._device = within[0].device if within else device or Device()
        self._elem_type = onnx_editor().elem_type
        self._poison = poison
        self._separate = separate
        self._bind_outputs = bind_outputs
        self._lock = threading.Lock()
        self._told: set[str] = set()
        self._plain: Any = None
        self._steps: tuple[_Step, ...] = ()
        self._elided = 0
        self._reason = prepared.reason
        self._own: Feeds = {}
        self._within = within
        self._others: OtherSizes[IoBindingSession] = OtherSizes(prepared)
        if not prepared.reason:
            self._lay_out()
            self._build()
        else:
            self._tell(prepared.reason)

    @property
    def memory(self) -> BoundMemory:
        """The places of the tensors, and whether the last run used them."""
        planset = self.planset
        best = planset.best_offsets if planset else None
        outside = [f for n, f in self._prepared.forms.items() if n in self._outputs and n not in self._places()]
        return BoundMemory(
            planned=best.size if best else 0,
            bound=planset.bounds.offsets if planset else 0,
            outputs=sum(self._prepared.size(form) for form in outside),
            constants=sum(self._prepared.size(self._prepared.forms[n]) for n in self._prepared.folded),
            steps=len(self._steps),
            elided=self._elided,
            strategy=best.strategy if best else "",
            reason=self._reason,
        )

    @property
    def memory_report(self) -> MemoryReport:
        """`memory` in the form that all executors have, with the plan that it runs in."""
        others = len(self._layout.others) if self.planset else 0
        return bound_report(self.memory, self.planset, self._prepared.source, others)

    @property
    def planset(self) -> PlanSet | None:
        """The plan it runs in; None for a plain session."""
        return None if self._prepared.reason or self._prepared.proved is None else self._prepared.proved.planset

    def get_inputs(self) -> list[Argument]:
        """Name, type and shape of every input."""
        return list(self._prepared.inputs)

    def get_outputs(self) -> list[Argument]:
        """Name, type and shape of every output."""
        return list(self._prepared.outputs)

    def get_providers(self) -> list[str]:
        """The execution providers: the device's, and the CPU's."""
        return self._device.provider_names

    def run(
        self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any], run_options: Any = None
    ) -> list[Any]:
        """Run the model; as `onnxruntime.InferenceSession.run`.

        Feeds of other shapes than planned, and results of other sizes, run as a plain session with a warning.
        """
        wanted = list(output_names or self._outputs)
        with self._lock:
            reason = self._prepared.reason or misfit(self._prepared, wanted, input_feed)
            if reason and not self._prepared.reason and not misfit(self._prepared, wanted, input_feed, shapes=False):
                memory = self._arena, self._shared
                made = partial(IoBindingSession, bind_outputs=self._bind_outputs, poison=self._poison, within=memory)
                other = self._others.find(input_feed, made)
                if isinstance(other, IoBindingSession):
                    self._reason = ""
                    return other.run(output_names, input_feed, run_options)
                reason = other or reason
            if not reason:
                try:
                    results = self._run(input_feed, run_options)
                except runtime_errors() as e:
                    reason = _gist(e)
                else:
                    self._reason = ""
                    return [results[name] for name in wanted]
            self._reason = reason
            self._tell(reason)
            return list(self.plain_session().run(output_names, input_feed, run_options))

    def observe(self, feed: Mapping[str, Any], seen: Callable[[str, Mapping[str, NDArray[Any]]], None]) -> Feeds:
        """Run the model and show every node's results, by name, as soon as they are there: `seen(node, results)`.

        The arrays that are shown lie in the arena, and are valid during the call. Returns the outputs by name. Raises
        RuntimeBindError if the model does not run inside the plan.
        """
        with self._lock:
            results: Feeds = {}
            reason = self._prepared.reason or misfit(self._prepared, self._outputs, feed)
            if not reason:
                try:
                    results = self._run(feed, None, seen)
                except runtime_errors() as e:
                    reason = _gist(e)
            self._reason = reason
        if reason:
            raise RuntimeBindError(f"{self._prepared.path.name} does not run inside the plan: {reason}")
        return {name: results[name] for name in self._outputs}

    def _run(
        self,
        feed: Mapping[str, Any],
        run_options: Any,
        seen: Callable[[str, Mapping[str, NDArray[Any]]], None] | None = None,
    ) -> Feeds:
        if self._poison is not None:
            self._arena.fill(self._poison)
        outside: Feeds = {name: np.ascontiguousarray(value) for name, value in feed.items()}
        for name in self._outside_outputs:
            outside[name] = self._own[name] if self._bind_outputs else self._empty(name)
        places = self._places()
        for name in self._prepared.names_in:
            if name in places:
                self._arena.write(places[name], outside[name])
        for step in self._steps:
            bind = step.binding
            for name in step.outside_in:
                bind.bind_input(name, *self._bound_to(name, outside[name].ctypes.data))
            for name in step.outside_out:
                bind.bind_output(name, *self._bound_to(name, outside[name].ctypes.data))
            step.session.run_with_iobinding(bind, run_options)
            if seen is not None:
                seen(step.name, {n: self._view(n) if n in places else outside[n] for n in step.shown})
        for name in self._outputs:
            if name in places:
                outside[name] = self._view(name) if self._bind_outputs else self._view(name).copy()
        return outside

    def _lay_out(self) -> None:
        proved = self._prepared.proved
        assert proved is not None
        sizes = self._prepared.sizes()
        if self._separate:
            self._layout = separate_layout(sizes)
        else:
            self._layout = planned_layout(proved, sizes, remedy=self._prepared.remedy)
        self._offsets = self._layout.offsets
        size = self._layout.size
        self._arena = make_arena(size, self._device) if self._within is None else self._within[0].head(size)
        places = self._places()
        self._outside_outputs = tuple(n for n in self._outputs if n not in places)
        self._own = {name: self._empty(name) for name in self._outside_outputs} if self._bind_outputs else {}
        # Results that are neither planned nor outputs: of size 0, or unread results in a plan that leaves those out.
        self._spare = {
            name: self._empty(name)
            for name in self._prepared.forms
            if name not in places and name not in self._outputs and name not in self._prepared.names_in
        }

    def _build(self) -> None:
        ort = onnxruntime()
        prepared = self._prepared
        assert prepared.proved is not None
        target = prepared.proved.planset.target
        views = RULES[target.aliasing].views if target else frozenset()
        shared: dict[str, Any] = {} if self._within is None else self._within[1]
        steps = []
        for piece in prepared.pieces():
            if piece.type in views and piece.constant_but_first and self._same_place(piece.inputs, piece.outputs):
                self._elided += 1
                continue
            options = sub_options(prepared.options)
            if piece.shared:
                for name in piece.shared:
                    if name not in shared:
                        shared[name] = ort.OrtValue.ortvalue_from_numpy(prepared.constant(name))
                options.add_external_initializers(list(piece.shared), [shared[n] for n in piece.shared])
            try:
                session = ort.InferenceSession(piece.model, options, providers=self._device.providers)
                refuse_silent_fallback(self._device.providers, session.get_providers())
            except runtime_errors() as e:
                self._steps = ()
                self._prepared = replace(prepared, reason=f"{piece.name!r} does not run alone: {_gist(e)}")
                self._reason = self._prepared.reason
                self._tell(self._reason)
                return
            step = self._bound(piece.name, session, piece.inputs, piece.outputs)
            if prepared.folded.issuperset(piece.outputs):
                session.run_with_iobinding(step.binding)
            else:
                steps.append(step)
        self._shared = shared
        self._steps = tuple(steps)

    def _bound(self, name: str, session: Any, inputs: Sequence[str], outputs: Sequence[str]) -> _Step:
        bind = session.io_binding()
        for n in inputs:
            if (address := self._address(n)) is not None:
                bind.bind_input(n, *self._bound_to(n, address))
        for n in outputs:
            if (address := self._address(n)) is not None:
                bind.bind_output(n, *self._bound_to(n, address))
        return _Step(
            name,
            session,
            bind,
            tuple(n for n in inputs if self._address(n) is None),
            tuple(n for n in outputs if self._address(n) is None),
            tuple(n for n in outputs if n not in self._spare),
        )

    def _same_place(self, inputs: Sequence[str], outputs: Sequence[str]) -> bool:
        return (
            len(inputs) == len(outputs) == 1
            and inputs[0] in self._offsets
            and self._offsets[inputs[0]] == self._offsets.get(outputs[0])
        )

    def _address(self, name: str) -> int | None:
        if name in self._offsets:
            return self._arena.address + self._offsets[name]
        return int(self._spare[name].ctypes.data) if name in self._spare else None

    def _bound_to(self, name: str, address: int) -> tuple[str, int, Any, tuple[int, ...], int]:
        dtype, shape = self._prepared.forms[name]
        device = self._device if name in self._offsets else Device()
        return device.kind, device.number, self._elem_type(dtype), shape, address

    def _view(self, name: str) -> NDArray[Any]:
        dtype, shape = self._prepared.forms[name]
        offset, size = self._offsets[name], self._prepared.size((dtype, shape))
        return self._arena.read(offset, size).view(np.dtype(dtype)).reshape(shape)

    def _empty(self, name: str) -> NDArray[Any]:
        dtype, shape = self._prepared.forms[name]
        try:
            return np.empty(shape, np.dtype(dtype))
        except TypeError:  # numpy has no such type: its bytes
            return np.empty(self._prepared.size((dtype, shape)), np.uint8)

    @property
    def _outputs(self) -> tuple[str, ...]:
        return tuple(a.name for a in self._prepared.outputs)

    def _places(self) -> Mapping[str, int]:
        return self._offsets if not self._prepared.reason else {}

    def plain_session(self) -> Any:
        """A plain session of ONNX Runtime at the optimisation level of this one, to compare with."""
        if self._plain is None:
            self._plain = self._prepared.plain(self._device.providers)
        return self._plain

    def _tell(self, reason: str) -> None:
        if reason not in self._told:
            self._told.add(reason)
            warnings.warn(
                f"{self._prepared.path.name} runs as a plain ONNX Runtime session, outside the plan: {reason}",
                RuntimeWarning,
                stacklevel=4,
            )


def _gist(error: Exception) -> str:
    """The sentence that says what is wrong, without ONNX Runtime's file names and advice."""
    return str(error).splitlines()[0].rpartition(" : ")[2].partition(". ")[0]
