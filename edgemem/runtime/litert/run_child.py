"""Runs a .tflite model in LiteRT, in a process of its own, for `edgemem.runtime.litert.process.ask_litert`.

The question's `task` is `run`, `compare`, `made-up` or `reference`.
"""

from __future__ import annotations

import time
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from edgemem.errors import ModelError
from edgemem.formats import open_bytes
from edgemem.runtime.differences import same
from edgemem.runtime.litert.arena import arena_of
from edgemem.runtime.litert.package import builtin_interpreter, interpreter_class
from edgemem.runtime.tflite_file import TfliteModel, values_of
from edgemem.system.child_call import Message, serve

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from edgemem.runtime.litert.arena import LitertArena

__all__: list[str] = []


def _answer(question: Message) -> Message:
    tasks = {"run": _run, "compare": _compare, "made-up": _made_up, "reference": _reference}
    try:
        return tasks[question.data["task"]](question)
    except (RuntimeError, ValueError, TypeError) as e:
        reason = " ".join(str(e).split()) or "no reason given"
        raise ModelError(f"LiteRT cannot run {question.data['file']}: {reason}") from None


def _run(question: Message) -> Message:
    data = question.data
    interpreter = builtin_interpreter(question.content, num_threads=data["threads"])
    details = _prepared(interpreter, data["shapes"])
    names = data["names"]["inputs"]
    forms = [
        (name, np.dtype(d["dtype"]).name, tuple(d["shape"].tolist())) for name, d in zip(names, details, strict=True)
    ]
    values = values_of(forms, dict(zip(data["feeds"], question.arrays, strict=True)))
    results = [_outputs(interpreter, details, values) for _ in range(data["runs"])]
    different: list[str] = []
    if data["compare"]:
        alone = builtin_interpreter(question.content, experimental_preserve_all_tensors=True)
        _prepared(alone, data["shapes"])
        # Variables live on between runs: both sides run as often, and are compared run by run.
        wanted = [_outputs(alone, details, values) for _ in range(data["runs"])]
        different = _different(question, results, wanted)
    names = data["names"]["outputs"]
    found = {"outputs": names, "different": different, "arena": _arena(interpreter, question).size}
    return Message(found, results[-1])


def _compare(question: Message) -> Message:
    """A run as LiteRT places tensors, beside one in which none share memory; and where the tensors are."""
    runs = []
    places: list[tuple[int, int]] = []
    size = 0
    for preserved in (False, True):
        interpreter = builtin_interpreter(question.content, experimental_preserve_all_tensors=preserved)
        details = _prepared(interpreter, question.data["shapes"])
        runs.append(_outputs(interpreter, details, question.arrays))
        if not preserved:
            arena = _arena(interpreter, question)
            size, places = arena.size, list(arena.tensors.items())
    return Message({"different": _different(question, runs[:1], runs[1:]), "arena": size, "places": places})


def _made_up(question: Message) -> Message:
    """The outputs of runs on made-up inputs, one run after the other, and the seconds of the quickest.

    `kernels` is `default` for LiteRT's default ones, or `builtin`, with which the arena is measured.
    """
    is_builtin = question.data["kernels"] == "builtin"
    make = builtin_interpreter if is_builtin else lambda content: interpreter_class()(model_content=content)
    runner = make(question.content)
    details = _prepared(runner, question.data["shapes"])
    forms = [(str(k), np.dtype(d["dtype"]).name, tuple(d["shape"].tolist())) for k, d in enumerate(details)]
    values = [values_of(forms, {}, seed=seed) for seed in range(question.data["runs"])]
    runs, seconds = [], []
    for given in values:
        begun = time.process_time()
        runs.append(_outputs(runner, details, given))
        seconds.append(time.process_time() - begun)
    arena = _arena(runner, question).size if is_builtin else 0
    found = {"outputs": question.data["names"]["outputs"], "seconds": min(seconds), "arena": arena}
    return Message(found, [value for run in runs for value in run])


def _reference(question: Message) -> Message:
    """The outputs of one run on given inputs, as LiteRT has the model."""
    plain = builtin_interpreter(question.content)
    details = _prepared(plain, question.data["shapes"])
    given, names = dict(zip(question.data["feeds"], question.arrays, strict=True)), question.data["names"]
    outputs = _outputs(plain, details, [given[name] for name in names["inputs"]])
    return Message({"outputs": names["outputs"], "version": version("ai-edge-litert")}, outputs)


def _prepared(interpreter: Any, shapes: Sequence[tuple[int, Sequence[int]]]) -> list[dict[str, Any]]:
    """Allocate tensors in these sizes; what the interpreter shows of its inputs."""
    for index, shape in shapes:
        interpreter.resize_tensor_input(index, list(shape))
    interpreter.allocate_tensors()
    details: list[dict[str, Any]] = interpreter.get_input_details()
    return details


def _outputs(interpreter: Any, details: Sequence[Mapping[str, Any]], values: Sequence[Any]) -> list[NDArray[Any]]:
    """The outputs of a run, by position: several may have one name, or none."""
    for entry, value in zip(details, values, strict=True):
        interpreter.set_tensor(entry["index"], value)
    interpreter.invoke()
    return [np.asarray(interpreter.get_tensor(d["index"])) for d in interpreter.get_output_details()]


def _different(
    question: Message, runs: Sequence[Sequence[NDArray[Any]]], wanted: Sequence[Sequence[NDArray[Any]]]
) -> list[str]:
    """The outputs that differ in any of the runs."""
    pairs = list(zip(runs, wanted, strict=True))
    names = question.data["names"]["outputs"]
    return [name for k, name in enumerate(names) if any(not same(a[k], b[k]) for a, b in pairs)]


def _arena(interpreter: Any, question: Message) -> LitertArena:
    model = open_bytes(question.content, ".tflite")
    assert isinstance(model, TfliteModel)
    return arena_of(interpreter, model.wiring())


if __name__ == "__main__":
    serve(_answer, limits_memory=True)
