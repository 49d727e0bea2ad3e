"""The plans in an ONNX file, run as they stand in poisoned memory by every executor that can, and compared."""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

from edgemem.commands.executor_run import ExecutorRun, check_verified
from edgemem.commands.verify_run_gpu import gpu_runs
from edgemem.errors import ModelError, NoPlanError, PlanFileError, RuntimeBindError
from edgemem.formats import Bindings, load_model, onnx_editor
from edgemem.model.random import random_values_of
from edgemem.model.ranges import Range, resolve
from edgemem.proof import Cause, Violation
from edgemem.runtime.differences import same
from edgemem.runtime.executors import IO_BINDING
from edgemem.runtime.feeds import resolve as resolve_shape
from edgemem.runtime.onnxruntime.baked_file import in_one_line, onnxruntime, session_options_for
from edgemem.runtime.onnxruntime.file import plans_in
from edgemem.runtime.onnxruntime.node_comparison import compare_nodes
from edgemem.runtime.onnxruntime.recorded_session import ORDER_REMEDY, declared_inputs, options_of, planned_feeds
from edgemem.runtime.onnxruntime.session import InferenceSession
from edgemem.runtime.onnxruntime.split_model import split_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.model.ranges import Dimension
    from edgemem.plans import PlanSet
    from edgemem.runtime.feeds import Feeds
    from edgemem.runtime.memory import MemoryReport
    from edgemem.runtime.onnxruntime.split_model import SplitModel
    from edgemem.trace.recording import Signature

    Declared = Mapping[str, tuple[str, Sequence[int | str | None]]]

__all__ = ["verify_run"]

_NAMED = 10  # results that a note names
_RUNS = 2  # the second one finds what the first one left


def verify_run(
    planned: Path,
    feeds: Mapping[str, NDArray[Any]] | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> tuple[ExecutorRun, ...]:
    """Run the plans in an ONNX file in poisoned memory, and compare with runs without them, bit for bit.

    `io-binding` runs the plan of the graph, and is compared with the same nodes where no tensors share memory. `replay`
    runs each recording, and is compared with a session of ONNX Runtime's own.

    Args:
        planned: an .onnx file with plans.
        feeds: inputs by name; random ones, which are not zero, otherwise.
        progress: called with the name of each executor before it runs.

    Raises:
        RuntimeBindError: no executor ran a plan, so that nothing was verified.
        InvalidPlanError: a plan is wrong. PlanFileError: a plan is damaged. ModelError: the file cannot be read.
    """
    if planned.suffix.lower() != ".onnx":
        raise ModelError(f"{planned.name}: only planned .onnx files can be run here")
    try:
        data = planned.read_bytes()
    except OSError as e:
        raise ModelError(f"cannot read {planned}: {e}") from None
    plansets = plans_in(data)
    if not plansets:
        raise NoPlanError(f"{planned.name} carries no plan; make one with: edgemem plan {planned.name} -o PLANNED.onnx")
    recordings = [p for p in plansets if p.recording is not None]
    remedy = f"add one with: edgemem plan {planned.name} --record -o PLANNED.onnx"
    others = _other_sizes(planned, data, plansets) if feeds is None and len(recordings) == 1 else []
    runs = (
        _attempt("io-binding", partial(_run_nodes, planned, plansets, feeds), progress),
        *(_attempt(_follower(p), partial(_replay, planned, data, p, feeds, others), progress) for p in recordings),
        *(() if recordings else (ExecutorRun("replay", refusal=f"no recording in the file; {remedy}"),)),
        *gpu_runs(planned, plansets, feeds),
    )
    check_verified(planned, runs)
    return runs


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"


def _attempt(executor: str, attempt: Callable[[], ExecutorRun], progress: Callable[[str], None]) -> ExecutorRun:
    progress(f"{executor} in poisoned memory, and without the plan")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a run outside the plan is told by its reason
            return attempt()
    except (RuntimeBindError, PlanFileError, ModelError) as e:
        return ExecutorRun(executor, refusal=str(e))


def _run_nodes(planned: Path, plansets: Sequence[PlanSet], feeds: Mapping[str, NDArray[Any]] | None) -> ExecutorRun:
    refusal = IO_BINDING.refusal(plansets)
    if refusal is not None:
        raise RuntimeBindError(refusal.advise(planned))
    violations: list[Violation] = []
    random: dict[str, None] = {}
    sizes: list[str] = []
    report: MemoryReport | None = None
    declared = declared_inputs(planned)
    for model, at in _over_range(planned, feeds):
        forms = {name: model.forms[name] for name in model.inputs if name in model.forms}
        with in_one_line(planned):
            run = compare_nodes(model, planned_feeds(declared, forms, feeds))
        report = report or run.report
        random |= dict.fromkeys(run.random)
        sizes += [at] if at else []
        if run.difference:
            message = f"at {at}: {run.difference}" if at else run.difference
            violations.append(Violation(Cause.DIFFERENT_OUTPUT, message, "io-binding", (run.tensor,)))
    notes = [f"at {', at '.join(sizes)}"] if sizes else []
    notes += [f"not compared, because they differ from run to run: {_names(list(random))}"] if random else []
    compared = "the same nodes where no tensors share memory"
    return ExecutorRun("io-binding", report, violations=tuple(violations), note="; ".join(notes), compared=compared)


def _over_range(planned: Path, feeds: Mapping[str, NDArray[Any]] | None) -> Iterator[tuple[SplitModel, str]]:
    """The model at the sizes of the feeds; without any at the largest, the smallest and the middle ones of its range.

    With each, the sizes in words; "" for a plan without a range.
    """
    largest = split_model(planned, feeds=feeds)
    planset = largest.proved.planset
    sizes = {name: planset.dims[name] for name, made in planset.ranges.items() if isinstance(made, Range)}
    yield largest, _said(sizes)
    for values in _inner_sizes(planset.ranges) if sizes and feeds is None else ():
        yield split_model(planned, bindings=Bindings(values)), _said(values)


def _other_sizes(planned: Path, data: bytes, plansets: Sequence[PlanSet]) -> list[tuple[str, Feeds]]:
    """Inputs of the smallest and the middle sizes that the plan of the graph holds for, with the sizes in words."""
    graph = next((p for p in plansets if p.recording is None and p.ranges), None)
    if graph is None:
        return []
    forms = onnx_editor().parts(data, planned.parent).input_forms()
    found = []
    for values in _inner_sizes(graph.ranges):
        bound = Bindings(resolve(graph.dims, graph.ranges, values), graph.input_shapes)
        shapes = {name: (dtype, resolve_shape(name, declared, bound)) for name, (dtype, declared) in forms.items()}
        found.append((_said(values), planned_feeds(forms, shapes)))
    return found


def _inner_sizes(ranges: Mapping[str, Dimension]) -> tuple[dict[str, int], ...]:
    """The smallest sizes of ranges, and those in the middle."""
    ends = {name: made for name, made in ranges.items() if isinstance(made, Range)}
    low = {name: made.low for name, made in ends.items()}
    middle = {name: (made.low + made.high) // 2 for name, made in ends.items()}
    return (low,) if low == middle else (low, middle)


def _said(values: Mapping[str, int]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())


def _follower(planset: PlanSet) -> str:
    """The executor that follows a recording: `android` stands for a session with the settings of an app's."""
    return "android" if planset.recording is not None and planset.recording.fingerprint.keeps_reuse else "replay"


def _replay(
    planned: Path,
    data: bytes,
    planset: PlanSet,
    feeds: Mapping[str, NDArray[Any]] | None,
    others: Sequence[tuple[str, Feeds]],
) -> ExecutorRun:
    assert planset.recording is not None
    fingerprint = planset.recording.fingerprint
    signature = fingerprint.signature
    if signature.call != "run":
        raise RuntimeBindError(
            f"the recording is of calls of {signature.call}, and only those of run are repeated here"
        )
    forms = {name: (dtype, shape) for name, dtype, shape in signature.inputs}
    runs = [("", planned_feeds(declared_inputs(planned), forms, feeds)), *others]
    outputs = list(signature.outputs) or None
    with in_one_line(planned):
        plain = onnxruntime().InferenceSession(
            str(planned),
            session_options_for(data, options_of(fingerprint)),
            providers=["CPUExecutionProvider"],
        )
        names = outputs or [o.name for o in plain.get_outputs()]
        wanted = [[plain.run(names, values) for _ in range(2)] for _, values in runs]
        del plain
        random = _random_outputs(planned, signature)
        steady = [
            k
            for k, name in enumerate(names)
            if name not in random and all(same(one[k], again[k]) for one, again in wanted)
        ]
        different: dict[str, str] = {}
        outside: list[str] = []
        with InferenceSession(
            str(planned),
            options_of(fingerprint),
            cache=False,
            poison=True,
            record="never",
            bind_outputs=signature.bound,
            share_outputs=signature.shared,
            keep_reuse=fingerprint.keeps_reuse,
        ) as session:
            for (at, values), (expected, _) in zip(runs, wanted, strict=True):
                before = session.memory.replayed
                for _ in range(_RUNS):
                    results = session.run(outputs, values)
                    bad = [names[k] for k in steady if not same(results[k], expected[k])]
                    different |= {name: at for name in bad if name not in different}
                    del results
                if not at:
                    report = session.memory_report
                elif session.memory.replayed < before + _RUNS:
                    outside.append(at)
    if report.details["replayed"] < _RUNS or report.origin is None or report.origin.source != "file":
        reason = report.reason or "the session did not take the recording in the file"
        raise RuntimeBindError(f"{reason}; {ORDER_REMEDY}" if report.details["bails"] else reason)
    if not steady:
        raise RuntimeBindError("its results differ from run to run even without a plan, so there is nothing to compare")
    left = [name for k, name in enumerate(names) if k not in steady]
    notes = [f"also at {', at '.join(at for at, _ in others)}"] if others else []
    notes += [f"partly outside of the plan at {', at '.join(outside)}"] if outside else []
    notes += [f"not compared, because they differ from run to run: {_names(left)}"] if left else []
    return ExecutorRun(
        _follower(planset),
        report,
        violations=tuple(
            Violation(
                Cause.DIFFERENT_OUTPUT,
                f"{f'at {at}: ' if at else ''}output {name!r} differs from a plain run's",
                _follower(planset),
                (name,),
            )
            for name, at in different.items()
        ),
        note="; ".join(notes),
        compared=f"a plain session of {planned.name} with the options of the recording",
    )


def _random_outputs(planned: Path, signature: Signature) -> frozenset[str]:
    """The results of a model that are computed from random numbers; they may be equal in two runs by chance.

    Of a model whose sizes are not known beforehand none are: its results tell by themselves what differs.
    """
    try:
        shapes = {name: shape for name, _, shape in signature.inputs}
        return random_values_of(load_model(planned, Bindings({}, shapes)).graph())
    except ModelError:
        return frozenset()
