"""Runs a .tflite model in LiteRT, in a process of its own, for `edgemem.runtime.litert.process.ask_litert`.

The question's `task` is `run`, `bind`, `compare`, `made-up` or `reference`.
"""

from __future__ import annotations

import time
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from edgemem.errors import ModelError, RuntimeBindError
from edgemem.runtime.differences import same
from edgemem.runtime.litert.comparison import compare_run
from edgemem.runtime.litert.interpreter import Interpreter
from edgemem.runtime.litert.package import interpreter_class, op_resolvers
from edgemem.runtime.litert.request import PLAIN_HINT
from edgemem.runtime.litert.structs_check import check_here
from edgemem.runtime.memory import as_data
from edgemem.runtime.tflite_file import values_of
from edgemem.system.child_call import Message, serve

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


__all__: list[str] = []


def _answer(question: Message) -> Message:
    check_here()
    task = {"run": _run, "bind": _bind, "compare": _compare, "made-up": _made_up, "reference": _reference}[
        question.data["task"]
    ]
    try:
        return task(question)
    except RuntimeBindError as e:
        file = question.data["file"]
        remedy = f"plan it anew: edgemem plan --target litert {file} -o PLANNED.tflite"
        raise RuntimeBindError(f"{str(e).removesuffix(PLAIN_HINT)}; {remedy}") from None
    except (RuntimeError, ValueError, TypeError) as e:
        reason = " ".join(str(e).split()) or "no reason given"
        raise ModelError(f"LiteRT cannot run {question.data['file']}: {reason}") from None


def _run(question: Message) -> Message:
    data = question.data
    options = {**_options(question), "num_threads": data["threads"]}
    bound = Interpreter(**options, poison=data["poison"], refuse=data["refuse"])
    details = _prepared(bound, data["shapes"])
    forms = [(d["name"], np.dtype(d["dtype"]).name, tuple(d["shape"].tolist())) for d in details]
    values = values_of(forms, dict(zip(data["feeds"], question.arrays, strict=True)))
    results = [_outputs(bound, details, values) for _ in range(data["runs"])]
    different: list[str] = []
    if data["compare"]:
        plain = interpreter_class()(**options)
        _prepared(plain, data["shapes"])
        # Variables live on between runs: both sides run as often, and are compared run by run.
        wanted = [_outputs(plain, details, values) for _ in range(data["runs"])]
        pairs = list(zip(results, wanted, strict=True))
        different = [n for n in results[-1] if any(not same(a[n], b[n]) for a, b in pairs)]
    found = {"outputs": list(results[-1]), "different": different, "memory": as_data(bound.memory)}
    return Message(found, [np.asarray(value) for value in results[-1].values()])


def _made_up(question: Message) -> Message:
    """The outputs of runs on made-up inputs, one run after the other, and the seconds of the quickest.

    `kernels` is `default` for LiteRT's default ones, `builtin`, or `planned` for builtin ones in the file's plan, in
    memory that is filled with a pattern before every run.
    """
    kernels, options = question.data["kernels"], _options(question)
    if kernels == "default":
        options = {"model_content": question.content}
    runner = (
        Interpreter(**options, plan="file", poison=True) if kernels == "planned" else interpreter_class()(**options)
    )
    details = _prepared(runner, question.data["shapes"])
    forms = [(str(k), np.dtype(d["dtype"]).name, tuple(d["shape"].tolist())) for k, d in enumerate(details)]
    values = [values_of(forms, {}, seed=seed) for seed in range(question.data["runs"])]
    runs, seconds = [], []
    for given in values:
        begun = time.process_time()
        runs.append(_outputs(runner, details, given))
        seconds.append(time.process_time() - begun)
    memory = as_data(runner.memory) if isinstance(runner, Interpreter) else None
    found = {"outputs": list(runs[0]), "seconds": min(seconds), "memory": memory}
    return Message(found, [np.asarray(value) for run in runs for value in run.values()])


def _reference(question: Message) -> Message:
    """The outputs of one run on given inputs, as LiteRT has the model."""
    plain = interpreter_class()(**_options(question))
    details = _prepared(plain, question.data["shapes"])
    given = dict(zip(question.data["feeds"], question.arrays, strict=True))
    outputs = _outputs(plain, details, [given[d["name"]] for d in details])
    return Message({"outputs": list(outputs), "version": version("ai-edge-litert")}, list(outputs.values()))


def _bind(question: Message) -> Message:
    bound = Interpreter(**_options(question), plan="file")
    _prepared(bound, question.data["shapes"])
    return Message({"memory": as_data(bound.memory)})


def _compare(question: Message) -> Message:
    run = compare_run(question.content, values=question.arrays, plan="file", resize=dict(question.data["shapes"]))
    found = run.divergence
    return Message(
        {
            "operators": run.operators,
            "equal": run.equal,
            "divergence": str(found) if found else "",
            "tensors": [found.tensor] if found else [],
            "memory": as_data(run.memory),
        }
    )


def _options(question: Message) -> dict[str, Any]:
    kernels = op_resolvers().BUILTIN_WITHOUT_DEFAULT_DELEGATES
    return {"model_content": question.content, "experimental_op_resolver_type": kernels}


def _prepared(interpreter: Any, shapes: Sequence[tuple[int, Sequence[int]]]) -> list[dict[str, Any]]:
    """Allocate tensors in these sizes; what the interpreter shows of its inputs."""
    for index, shape in shapes:
        interpreter.resize_tensor_input(index, list(shape))
    interpreter.allocate_tensors()
    details: list[dict[str, Any]] = interpreter.get_input_details()
    return details


def _outputs(interpreter: Any, details: Sequence[Mapping[str, Any]], values: Sequence[Any]) -> dict[str, Any]:
    for entry, value in zip(details, values, strict=True):
        interpreter.set_tensor(entry["index"], value)
    interpreter.invoke()
    return {d["name"]: interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()}


if __name__ == "__main__":
    serve(_answer, limits_memory=True)
