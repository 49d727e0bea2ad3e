"""One .tflite model, run inside its plan in LiteRT or TFLite Micro and, if wanted, beside a run without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem import formats
from edgemem.commands.outcome import Outcome, same
from edgemem.errors import ModelError, PlanError
from edgemem.proof import Cause, Violation
from edgemem.runtime.litert.package import interpreter_class, op_resolvers
from edgemem.runtime.memory import MemoryReport
from edgemem.runtime.tflm import size as tflm

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.model.graph import Graph

__all__ = ["run", "size_of", "verify_run"]


def run(
    model: Path,
    feeds: Mapping[str, NDArray[Any]] | None = None,
    *,
    runtime: str = "litert",
    runs: int = 1,
    threads: int = 1,
    compare: bool = False,
    poison: bool = False,
) -> Outcome:
    """Run a model a few times inside its plan.

    Args:
        model: a .tflite file.
        feeds: inputs by tensor name; random ones for LiteRT, zeros for TFLite Micro otherwise.
        runtime: `litert` (builtin kernels) or `tflm`.
        runs: how many.
        threads: of LiteRT's kernels.
        compare: run without the plan, too.
        poison: fill LiteRT's arena with a pattern before every run.

    Raises:
        MissingDependencyError, ModelError, RuntimeBindError: as the runtime does.
    """
    if runtime == "tflm":
        return _in_tflm(model, feeds or {}, runs=runs, compare=compare)
    if runtime != "litert":
        raise PlanError(f"no runtime {runtime!r} for .tflite files; there are litert and tflm")
    from edgemem.runtime.litert.compare import random_inputs
    from edgemem.runtime.litert.interpreter import Interpreter

    kernels = op_resolvers().BUILTIN_WITHOUT_DEFAULT_DELEGATES
    content = model.read_bytes()
    bound = Interpreter(
        model_content=content, experimental_op_resolver_type=kernels, num_threads=threads, poison=poison, refuse="plain"
    )
    bound.allocate_tensors()
    details = bound.get_input_details()
    values = [(feeds or {}).get(d["name"], made) for d, made in zip(details, random_inputs(details, 0), strict=True)]
    results = [_outputs(bound, details, values) for _ in range(runs)]
    different: tuple[str, ...] = ()
    if compare:
        plain = interpreter_class()(model_content=content, experimental_op_resolver_type=kernels, num_threads=threads)
        plain.allocate_tensors()
        # Variables live on between runs: both sides run as often, and are compared run by run.
        wanted = [_outputs(plain, details, values) for _ in range(runs)]
        pairs = list(zip(results, wanted, strict=True))
        different = tuple(n for n in results[-1] if any(not same(a[n], b[n]) for a, b in pairs))
    memory = bound.memory
    report = MemoryReport("litert", memory.mode, planned=memory.planned, reserved=memory.reserved, reason=memory.reason)
    return Outcome(results[-1], report, memory, not different if compare else None, different)


def _outputs(interpreter: Any, details: Sequence[Mapping[str, Any]], values: Sequence[Any]) -> dict[str, Any]:
    for entry, value in zip(details, values, strict=True):
        interpreter.set_tensor(entry["index"], value)
    interpreter.invoke()
    return {d["name"]: interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()}


def _in_tflm(model: Path, feeds: Mapping[str, NDArray[Any]], *, runs: int, compare: bool) -> Outcome:
    opened = formats.load(model)
    if not isinstance(opened, tflm.Offline):
        raise ModelError("TensorFlow Lite Micro runs .tflite files")
    graph: Graph = opened.graph()
    names = [graph.tensors[i].name for i in graph.outputs]
    values = [feeds.get(graph.tensors[i].name, zero) for i, zero in zip(graph.inputs, tflm.zeros(graph), strict=True)]
    planned = tflm.execute(opened.content(), values, outputs=len(names), runs=runs)
    outputs = dict(zip(names, planned.outputs, strict=True))
    different: tuple[str, ...] = ()
    if compare:
        plain = tflm.execute(opened.without_plan().content(), values, outputs=len(names), runs=runs)
        different = tuple(n for n, a, b in zip(names, planned.outputs, plain.outputs, strict=True) if not same(a, b))
    size = tflm.size_of(opened)
    report = MemoryReport("tflm", "planned", planned=size.head, reason=size.reason)
    return Outcome(outputs, report, size, not different if compare else None, different)


def verify_run(planned: Path, feeds: Mapping[str, NDArray[Any]] | None = None) -> tuple[Violation, ...]:
    """Run a planned .tflite model in LiteRT, poisoned, and compare every operator with a run that shares nothing.

    Returns a violation that names the first operator that differs and the tensor that was overwritten.
    """
    from edgemem.runtime.litert.compare import compare_run

    opened = formats.load(planned)
    if not isinstance(opened, tflm.Offline):
        raise ModelError(f"{planned.name} is no .tflite file")
    graph = opened.graph()
    values = [feeds[graph.tensors[i].name] for i in graph.inputs] if feeds else None
    report = compare_run(planned.read_bytes(), values=values)
    if report.equal:
        return ()
    message = str(report.divergence) if report.divergence else "the outputs differ"
    return (Violation(Cause.DIFFERENT_OUTPUT, message, "litert"),)


def size_of(model: Path, runtime: str) -> dict[str, int | str | None]:
    """What a .tflite model's arena in a runtime is made of: names to bytes (None: not measured), and a `note`.

    Raises MissingDependencyError, ModelError and RuntimeBindError as the runtime does.
    """
    opened = formats.load(model)
    if not isinstance(opened, tflm.Offline):
        raise ModelError(f"{model.name} is no .tflite file")
    if runtime == "tflm":
        made = tflm.size_of(opened)
        return {
            "arena": made.arena,
            "head": made.head,
            "tensors": made.tensors,
            "workspace": made.workspace,
            "tail": made.tail,
            "note": made.reason,
        }
    from edgemem.runtime.litert.probe import probe

    main = probe(opened.content()).main
    scratch = {i for tensors in main.scratch for i in tensors}
    return {
        "arena": main.arena,
        "tensors": sum(t.size for i, t in enumerate(main.tensors) if t.allocation == "arena" and i not in scratch),
        "workspace": sum(t.size for i, t in enumerate(main.tensors) if t.allocation == "arena" and i in scratch),
        "persistent": main.total("persistent"),
        "dynamic": main.total("dynamic"),
        "note": "tensors and workspace are sums; the arena is less because they share it",
    }
