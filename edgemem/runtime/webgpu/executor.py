"""Runs a model on a GPU inside the plan that is in its file, through WebGPU: tensors in one buffer, or in textures.

The graph runs operator by operator, in the order of the plan, with kernels of edgemem's own. Each activation is where
the plan says; weights, constants and parameters of kernels are in read-only buffers beside it.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from edgemem.errors import ModelError, RuntimeBindError
from edgemem.runtime.memory import MemoryReport, origin_of
from edgemem.runtime.webgpu.arguments import Argument, argument
from edgemem.runtime.webgpu.cpu_ops import cpu_operator
from edgemem.runtime.webgpu.device import busy_workgroups, checked, open_device
from edgemem.runtime.webgpu.gpu_model import read_gpu_model, storage_of
from edgemem.runtime.webgpu.gpu_program import build_program
from edgemem.runtime.webgpu.graph_binding import bind_program
from edgemem.runtime.webgpu.graph_lowering import lower_graph, needed_tensors
from edgemem.runtime.webgpu.memory import GpuMemory
from edgemem.runtime.webgpu.places import check_profile, chosen_plan, planned_places, separate_places
from edgemem.runtime.webgpu.timing import OpTime, Stopwatch
from edgemem.runtime.webgpu.values import from_floats, to_floats
from edgemem.system.text import join_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.formats import Computable
    from edgemem.plans import PlanSet
    from edgemem.runtime.feeds import Feeds
    from edgemem.runtime.memory import Origin
    from edgemem.runtime.webgpu.gpu_program import GpuStep
    from edgemem.runtime.webgpu.graph_binding import BoundPass

__all__ = ["GpuExecutor", "OpTime"]

_PIECES: Final = {"buffer": "buffers", "texture-array": "texture_arrays"}  # what memory is made of, by storage


class GpuExecutor:
    """A model on a GPU: the calls of `onnxruntime.InferenceSession` that run one.

    All runs use the same memory, so a lock admits one run at a time. `close`, or the end of a `with` block, gives the
    memory back.

    Args:
        model: a file, its content, or what `edgemem.load` gave.
        planset: a plan made for this model under a target for GPUs, to run instead of the file's own.
        storage: `buffer`, `texture2d`, `texture-linear` or `texture-array`; None: what the plan is for. A file without
            any plan is planned here, for `buffer` unless another storage is named.
        precision: `fp32` or `fp16` of the tensors in memory; None: what the plan is for. Kernels compute in
            fp32, but products in fp16 where the plan and the GPU have it.
        adapter: letters of the name of an adapter; None: the best that there is.
        profile: `portable` keeps to the limits that WebGPU has everywhere, and the device enforces them; `adapter`
            takes all that the adapter has.
        sharing: False: each tensor is in memory of its own, to compare with.
        cpu_ops: run on the CPU what no kernel computes.
        poison: fill all planned memory with what is no number before every run, so that reading what was not written
            shows in the results.
        timings: measure the time of each operator (`times`).
        dims, input_shapes: sizes, for a model without a plan; a plan has to be for the same.

    Raises:
        MissingDependencyError: wgpu is not installed.
        AdapterError: there is no adapter, or it cannot do what is asked.
        ModelError: the file cannot be read.
        PlanFileError: its plan is damaged, or only of recordings.
        InvalidPlanError, StalePlanError: the plan is wrong, or belongs to another model.
        UnsupportedError: operators have no kernel (all are named); the plan is for another storage; a tensor is too
            large for the profile.
        RuntimeBindError: an argument is wrong, or the device refuses.
    """

    def __init__(
        self,
        model: str | Path | bytes | Computable,
        planset: PlanSet | None = None,
        *,
        storage: str | None = None,
        precision: str | None = None,
        adapter: str | None = None,
        profile: str = "portable",
        sharing: bool = True,
        cpu_ops: bool = False,
        poison: bool = False,
        timings: bool = False,
        dims: Mapping[str, int] | None = None,
        input_shapes: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        prepared = read_gpu_model(
            model, planset, storage=storage, precision=precision, dims=dims, input_shapes=input_shapes
        )
        graph, known = prepared.graph, prepared.program.constants
        # Not the program and the model: weights are on the GPU, and not here, too.
        self._name, self._graph = prepared.name, graph
        self._proved, self._source, self._target = prepared.proved, prepared.source, prepared.target
        self._known = frozenset(known)
        self._known_outputs = {i: known[i] for i in graph.outputs if i in known}
        self._sharing = sharing
        self._poison = poison
        self._lock = threading.Lock()
        self._times: tuple[OpTime, ...] = ()
        self._last_ms = 0.0
        lowered, context = lower_graph(prepared, cpu_ops=cpu_ops, busy=busy_workgroups(adapter))
        needed = needed_tensors(graph, lowered, context)
        planned = planned_places(prepared.proved, graph, needed)  # refused also where each has memory of its own
        layout = planned if sharing else separate_places(prepared.target, graph, needed)
        self._cpu = {
            step.number: cpu_operator(prepared.model, prepared.numbers[step.number], repr(step.op.name or step.op.type))
            for step in lowered
            if step.on_cpu
        }
        self._device = open_device(adapter, profile)
        check_profile(layout, graph, self._device.profile, is_planned=sharing)
        program = build_program(layout, graph, prepared.target, lowered, context, self._device.profile)
        self._memory = GpuMemory(self._device, layout)
        self._stopwatch: Stopwatch | None = None
        self._is_open = True
        try:
            self._compiled = bind_program(self._device, self._memory, program)
        except BaseException:
            self._memory.close()
            raise
        if timings:
            try:
                self._stopwatch = Stopwatch(self._device, sum(bool(bound) for _, bound in self._compiled.steps))
            except BaseException:
                self.close()
                raise

    def __enter__(self) -> Self:
        """The executor itself; the end of the block closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the GPU's memory back. Runs raise RuntimeBindError afterwards; a second call does nothing."""
        with self._lock:
            if not self._is_open:
                return
            self._is_open = False
            self._memory.close()
            self._compiled.close()
            if self._stopwatch is not None:
                self._stopwatch.close()

    @property
    def adapter(self) -> str:
        """The adapter that it runs on."""
        return str(self._device.adapter)

    @property
    def profile(self) -> str:
        """The limits that the device enforces: `portable` or `adapter`."""
        return self._device.profile.name

    @property
    def storage(self) -> str:
        """Where tensors are: `buffer`, `texture2d`, `texture-linear` or `texture-array`."""
        storage = storage_of(self._target)
        assert storage is not None  # no other plan is taken
        return storage

    @property
    def precision(self) -> str:
        """Of the tensors in memory: `fp32` or `fp16`."""
        return self._target.precision

    @property
    def planset(self) -> PlanSet:
        """The plan set whose best plan it runs in."""
        return self._proved.planset

    @property
    def plan_origin(self) -> Origin:
        """Where the plan came from, and what made it."""
        return origin_of(self.planset, chosen_plan(self._proved), self._source)

    @property
    def times(self) -> tuple[OpTime, ...]:
        """The time of each operator in the last run; () unless times are measured."""
        return self._times

    @property
    def last_ms(self) -> float:
        """Milliseconds of the last run, from when its inputs are on the GPU until its results are there."""
        return self._last_ms

    @property
    def memory_report(self) -> MemoryReport:
        """What is planned, and what is allocated as the device reports it, in bytes."""
        planset = self.planset
        is_texture = self._target.texels
        unit = self._memory.layout.texel_bytes if is_texture else 1
        bounds = planset.bounds
        plan = chosen_plan(self._proved)
        compiled = self._compiled
        details = {
            "weights": compiled.constants.allocated,
            "allocated": self._memory.allocated,
            _PIECES.get(self.storage, "textures"): len(self._memory.layout.pieces),
            "dispatches": sum(len(bound) for _, bound in compiled.steps),
            "views": compiled.views,
            "in_place": compiled.in_place,
            "kernels": compiled.pipelines,
            "cpu_ops": len(self._cpu),
            "naive": planset.naive * unit,
        }
        return MemoryReport(
            executor="webgpu",
            mode="planned" if self._sharing else "separate",
            origin=self.plan_origin if self._sharing else None,
            planned=plan.size * unit if self._sharing else self._memory.layout.bytes,
            lower_bound=(bounds.shared_objects if is_texture else bounds.offsets) * unit,
            reserved=self._memory.allocated,
            reason="" if self._sharing else "each tensor in memory of its own",
            details=details,
        )

    def get_inputs(self) -> list[Argument]:
        """Name, type and shape of every input."""
        return [self._argument(i) for i in self._graph.inputs]

    def get_outputs(self) -> list[Argument]:
        """Name, type and shape of every output."""
        return [self._argument(i) for i in self._graph.outputs]

    def run(self, output_names: Sequence[str] | None, input_feed: Mapping[str, Any]) -> list[NDArray[Any]]:
        """Run the model; as `onnxruntime.InferenceSession.run`.

        Raises RuntimeBindError for names, shapes, dtypes and values that it does not take.
        """
        graph = self._graph
        numbers = {graph.tensors[i].name: i for i in graph.outputs}
        wanted = list(numbers if output_names is None else output_names)
        unknown = [name for name in wanted if name not in numbers]
        if unknown:
            raise RuntimeBindError(
                f"there is no output {join_names(map(repr, unknown))}; there are {join_names(numbers)}"
            )
        with self._lock:
            self._check_open()
            given = self._given(input_feed)
            with checked(f"{self._name} does not run on {self._device.adapter.name}"):
                self._load(given)
                self._run()
                results = {i: self._result(i, input_feed) for i in dict.fromkeys(numbers[name] for name in wanted)}
        return [results[numbers[name]] for name in wanted]

    def observe(self, input_feed: Mapping[str, Any]) -> Iterator[tuple[int, str, NDArray[np.float32]]]:
        """Run the model operator by operator: each operator's number in the order of the plan, and its results.

        A result is (number, tensor's name, its values as the GPU has them), read as soon as the operator has run, and
        also for a view, which need not run. The executor is busy until the last one was taken. Raises as `run`.
        """
        graph = self._graph
        with self._lock:
            self._check_open()
            given = self._given(input_feed)
            with checked(f"{self._name} does not run on {self._device.adapter.name}"):
                self._load(given)
                for step, bound in self._compiled.steps:
                    if step.on_cpu:
                        self._run_on_cpu(step)
                    else:
                        self._submit([bound], None)
                    for number in step.written:
                        tensor = graph.tensors[number]
                        yield step.number, tensor.name, self._memory.read(number).reshape(tensor.shape)

    def _check_open(self) -> None:
        if not self._is_open:
            raise RuntimeBindError("the executor is closed; make another")

    def _argument(self, number: int) -> Argument:
        tensor = self._graph.tensors[number]
        return argument(tensor.name, (tensor.dtype, tensor.shape))

    def _given(self, feed: Mapping[str, Any]) -> dict[int, NDArray[np.float32]]:
        """The inputs' values as floats, by tensor."""
        graph = self._graph
        names = {graph.tensors[i].name: i for i in graph.inputs}
        missing, unknown = [n for n in names if n not in feed], [n for n in feed if n not in names]
        if missing or unknown:
            what = (
                f"no value for input {join_names(map(repr, missing))}" if missing else f"no input {join_names(unknown)}"
            )
            raise RuntimeBindError(f"there is {what}; the inputs are {join_names(names)}")
        return {i: to_floats(feed[n], graph.tensors[i], self._target.precision) for n, i in names.items()}

    def _load(self, given: Mapping[int, NDArray[np.float32]]) -> None:
        """Put the inputs in their places, before a run."""
        if self._poison:
            self._memory.poison()
        for number, values in given.items():
            self._write(number, values)

    def _run(self) -> None:
        began = time.perf_counter()
        cpu_ms: dict[int, float] = {}
        waiting: list[tuple[BoundPass, ...]] = []
        passes = 0
        watch = self._stopwatch
        for step, bound in self._compiled.steps:
            if bound:
                waiting.append(bound)
            if not step.on_cpu:
                continue
            self._submit(waiting, watch, passes)
            passes += len(waiting)
            waiting = []
            started = time.perf_counter()
            self._run_on_cpu(step)
            cpu_ms[step.number] = (time.perf_counter() - started) * 1e3
        self._submit(waiting, watch, passes)
        self._device.wait()
        self._last_ms = (time.perf_counter() - began) * 1e3
        if watch is not None:
            self._times = self._measured(watch.read(), cpu_ms)

    def _submit(self, waiting: Sequence[tuple[BoundPass, ...]], watch: Stopwatch | None, passes: int = 0) -> None:
        """Have the device run operators. With times, each has a pass of its own, numbered from `passes` on."""
        encoder = self._device.handle.create_command_encoder()
        for number, group in enumerate([waiting] if watch is None else [[bound] for bound in waiting]):
            options = {} if watch is None else {"timestamp_writes": watch.around(passes + number)}
            encoding = encoder.begin_compute_pass(**options)
            for one in (one for bound in group for one in bound):
                encoding.set_pipeline(one.pipeline)
                encoding.set_bind_group(0, one.group)
                encoding.dispatch_workgroups(*one.workgroups)
            encoding.end()
        self._device.handle.queue.submit([encoder.finish()])

    def _measured(self, gpu_ms: Sequence[float], cpu_ms: Mapping[int, float]) -> tuple[OpTime, ...]:
        found = []
        passes = iter(gpu_ms)
        for step, bound in self._compiled.steps:
            if step.on_cpu:
                found.append(OpTime(step.number, step.op.name, step.op.type, "cpu", cpu_ms[step.number]))
            elif bound:
                found.append(OpTime(step.number, step.op.name, step.op.type, "gpu", next(passes)))
        return tuple(found)

    def _run_on_cpu(self, step: GpuStep) -> None:
        graph, precision = self._graph, self._target.precision
        values = {}
        for number in dict.fromkeys(i for i in step.op.inputs if i >= 0 and i not in self._known):
            tensor = graph.tensors[number]
            if tensor.kind != "constant":
                is_empty = 0 in tensor.shape
                values[tensor.name] = np.zeros(tensor.shape, tensor.dtype) if is_empty else self._values(number)
        results = self._cpu[step.number].run(values)
        outputs = [i for i in step.op.outputs if i >= 0]
        for number, result in zip(outputs, results, strict=True):
            tensor = graph.tensors[number]
            if tensor.kind == "constant" or number in self._known or 0 in tensor.shape:
                continue
            self._write(number, to_floats(np.asarray(result).reshape(tensor.shape), tensor, precision))

    def _write(self, number: int, values: NDArray[np.float32]) -> None:
        if number in self._memory.layout.places:
            self._memory.write(number, values, unused=float("nan") if self._poison else 0.0)

    def _values(self, number: int) -> NDArray[Any]:
        tensor = self._graph.tensors[number]
        return from_floats(self._memory.read(number), tensor, self._target.precision)

    def _result(self, number: int, feed: Feeds | Mapping[str, Any]) -> NDArray[Any]:
        """An output's values: what was given for one that is an input, too, and what is known."""
        graph = self._graph
        tensor = graph.tensors[number]
        if number in graph.inputs:
            return np.array(feed[tensor.name])
        if 0 in tensor.shape:
            return np.zeros(tensor.shape, tensor.dtype)
        if number in self._known_outputs:
            return self._known_outputs[number].reshape(tensor.shape).astype(tensor.dtype)
        if tensor.kind == "constant":
            raise ModelError(f"the output {tensor.name!r} is a constant, and its value is not read from the model")
        return self._values(number)
