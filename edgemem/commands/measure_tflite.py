"""Real memory and latency of a .tflite model in LiteRT and in TensorFlow Lite Micro.

Every configuration runs in fresh processes. For the figures of memory each is alone; for times it runs beside a process
of what it is compared with, and their runs alternate, so that what else the machine does hits both alike. Two files can
be measured side by side: a file that was changed to take less memory, and the one it was made of.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from edgemem.commands.process_figures import ask_together, middle, ratio_of_turns, start_times, turn_times
from edgemem.errors import EdgememError, MissingDependencyError, ModelError, RuntimeBindError
from edgemem.records.micro_planner import predicted_head
from edgemem.runtime.litert.memory import litert_memory
from edgemem.runtime.litert.probe import probe_apart
from edgemem.runtime.tflite_file import input_forms, open_model, values_of
from edgemem.runtime.tflm.execution import execute
from edgemem.runtime.tflm.file_plan import file_plan, memory_of
from edgemem.system.child_call import ChildError, Message, call_child
from edgemem.system.files import temporary_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.commands.process_figures import TimeRatio
    from edgemem.runtime.tflite_file import TfliteModel

    Feeds = Mapping[str, NDArray[Any]]

__all__ = ["CONFIGURATIONS", "TfliteRow", "measure_tflite"]

CONFIGURATIONS: Final = {
    "litert": "LiteRT's builtin kernels",
    "xnnpack": "LiteRT with XNNPACK, its default",
    "tflm": "TensorFlow Lite Micro, which places all tensors by itself",
    "tflm_planned": "TensorFlow Lite Micro inside the plan in the file",
}
# Whether each is compared with the first of these: of the same file, or of the other one.
_STOCK: Final = {"litert": "litert", "xnnpack": "litert", "tflm": "tflm", "tflm_planned": "tflm"}
_CHILDREN: Final = {"litert": "edgemem.runtime.litert.measure_child", "tflm": "edgemem.runtime.tflm.measure_child"}
_WARM_RUNS: Final = 3  # of each process, which are not among the timed ones
_SIZES: Final = ("imports", "made", "anonymous", "proportional", "peak")


@dataclass(frozen=True, slots=True)
class TfliteRow:
    """Figures of one configuration of one file; sizes in bytes, times in ms, None for what is not known.

    Attributes:
        number: 1, or 2 for the file that the first one is compared with.
        file: the file's name.
        configuration: litert, xnnpack, tflm, tflm_planned.
        about: what that is, for people.
        unavailable: why there are no figures, or "".
        arena: tensors and workspace: LiteRT's arena, or the head of TensorFlow Lite Micro's arena.
        tail: of TensorFlow Lite Micro's arena: structures and state.
        bound: what no plan of the same tensors can go below.
        imports: anonymous memory (RssAnon) of the runtime's modules. What follows is without it.
        made: what of `anonymous` was there once the interpreter was made: structures for operators and tensors, without
            the memory of tensors. TensorFlow Lite Micro has its arena by then.
        anonymous: growth of the process's anonymous memory since before its interpreter was made, after the last run.
            In TensorFlow Lite Micro the model itself is a part of it, because it is not mapped from its file.
        proportional: the same of its proportional memory (PSS), which contains the pages of files.
        peak: growth of its resident memory to its peak. All five are medians over the rounds.
        load_ms: processor time to make the interpreter and allocate its tensors; median over the rounds, like the next.
            Of all threads, as all times.
        first_ms: of the first run.
        latency_ms: processor time of a run without setting inputs; median of the timed runs of all rounds.
        p99_ms: 99 % of them took no longer.
        compared: what the ratios and `exact` are against, `FILE` or `CONFIGURATION`; "" for what is compared with
            nothing.
        latency_ratio: to that, of runs that alternated.
        arena_ratio, anonymous_ratio: to that.
        exact: the outputs equal those bit for bit, for each request.
        plan: what was planned or predicted and what came of it, in one line; "" for nothing.
    """

    number: int
    file: str
    configuration: str
    about: str
    unavailable: str = ""
    arena: int | None = None
    tail: int | None = None
    bound: int | None = None
    imports: int | None = None
    made: int | None = None
    anonymous: int | None = None
    proportional: int | None = None
    peak: int | None = None
    load_ms: float | None = None
    first_ms: float | None = None
    latency_ms: float | None = None
    p99_ms: float | None = None
    compared: str = ""
    latency_ratio: TimeRatio | None = None
    arena_ratio: float | None = None
    anonymous_ratio: float | None = None
    exact: bool | None = None
    plan: str = ""


@dataclass(slots=True, eq=False)
class _Subject:
    """A configuration of a file: what is known before it is measured, its task, and what its processes said.

    `turns` are of processes whose runs alternated with others', `pairs` those with what it is compared with.
    """

    row: TfliteRow
    task: dict[str, Any] = field(default_factory=dict)
    answers: list[dict[str, Any]] = field(default_factory=list)
    turns: list[dict[str, Any]] = field(default_factory=list)
    pairs: list[tuple[dict[str, Any], dict[str, Any]]] = field(default_factory=list)


def measure_tflite(
    path: Path,
    feeds: Sequence[Feeds] = (),
    *,
    against: Path | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    configurations: Iterable[str] = ("litert", "tflm", "tflm_planned"),
    seed: int = 0,
    repeats: int = 20,
    rounds: int = 3,
    threads: int = 1,
    timeout_s: float = 600,
) -> tuple[TfliteRow, ...]:
    """Measure a .tflite model under several configurations, one row each; `tflm_planned` only where there is a plan.

    Args:
        path: the file.
        feeds: what to run it on, one request or several in turn; random values for every input that is not given.
        against: a second file with the same inputs, whose rows come after; the rows of the first are compared with
            them.
        input_shapes: shapes of inputs by name; by default those that the plan in the file is for.
        configurations: names out of CONFIGURATIONS.
        seed: of random values.
        repeats: timed runs in each process; more where there are more requests.
        rounds: processes of each configuration.
        threads: of LiteRT's kernels.
        timeout_s: for one process.

    Raises:
        ModelError: a file cannot be read, a name is unknown, or the files have other inputs.
        InvalidPlanError: a plan in a file is wrong. PlanFileError: it is damaged.
    """
    names = tuple(configurations)
    if unknown := [c for c in names if c not in CONFIGURATIONS]:
        raise ModelError(f"no configuration {unknown[0]!r}; there are {', '.join(CONFIGURATIONS)}")
    if repeats < 1 or rounds < 1:
        raise ModelError("measure at least one run in at least one round")
    models = [(file, open_model(file, input_shapes)) for file in (path, *([against] if against else []))]
    forms = [input_forms(model.graph()) for _, model in models]
    if against and [form[1:] for form in forms[0]] != [form[1:] for form in forms[1]]:
        raise ModelError(f"{path.name} and {against.name} have other inputs, so they cannot run on the same values")
    requests = [values_of(forms[0], given, seed=seed) for given in feeds or [{}]]
    with temporary_folder() as folder:
        common = {
            "requests": len(requests),
            "inputs": len(forms[0]),
            "threads": threads,
            "warm": _WARM_RUNS,
            "served": max(len(requests) - _WARM_RUNS, 1),
            "repeats": max(repeats, len(requests)),
        }
        values = [value for request in requests for value in request]
        subjects: list[_Subject] = []
        for number, (file, model) in enumerate(models, 1):
            part = folder / str(number)
            part.mkdir()
            for name in names:
                subject = _Subject(TfliteRow(number, file.name, name, CONFIGURATIONS[name]), {"configuration": name})
                if _STOCK[name] == "litert":
                    _prepare_litert(subject, file, model)
                elif not _prepare_tflm(subject, file, model, requests[0], part, timeout_s):
                    continue
                subjects.append(subject)
        for _ in range(rounds):
            for subject in subjects:
                if not subject.row.unavailable:
                    _run(subject, common, values, timeout_s)
        _take_turns(subjects, common, values, rounds, timeout_s)
    for subject in subjects:
        if subject.answers:
            subject.row = replace(subject.row, **_figures(subject.answers, subject.turns))
    return tuple(_compared(subject, subjects) for subject in subjects)


# What is to be measured


def _prepare_litert(subject: _Subject, path: Path, model: TfliteModel) -> None:
    resized = {int(index): list(map(int, shape)) for index, shape in model.inputs().items()}
    subject.task |= {"model": str(path), "shapes": list(resized.items())}
    try:
        arena = probe_apart(model.content(), resized).arena
        memory = litert_memory(model, arena) if subject.row.configuration == "litert" else None
    except EdgememError as e:  # also of a plan in the file that is wrong, or of another graph
        subject.row = replace(subject.row, unavailable=str(e))
        return
    if memory is not None:
        subject.row = replace(subject.row, arena=memory.reserved, bound=memory.lower_bound, plan=str(memory))


def _prepare_tflm(
    subject: _Subject,
    path: Path,
    model: TfliteModel,
    values: Sequence[NDArray[Any]],
    folder: Path,
    timeout_s: float,
) -> bool:
    """Whether there is something to measure: a file without a plan for TensorFlow Lite Micro runs in none."""
    is_planned = subject.row.configuration == "tflm_planned"
    if is_planned and not model.offline():
        return False
    if model.inputs():
        why = "TensorFlow Lite Micro cannot resize inputs: give the file itself other sizes"
        subject.row = replace(subject.row, unavailable=why)
        return True
    chosen = model if is_planned or model.offline_metadata() is None else model.without_plan()
    graph = chosen.graph()
    file = path
    if chosen is not model:
        file = folder / path.name
        file.write_bytes(chosen.content())
    try:
        run = execute(chosen.content(), values, outputs=len(graph.outputs), find_smallest=True, timeout_s=timeout_s)
    except (RuntimeBindError, MissingDependencyError) as e:
        subject.row = replace(subject.row, unavailable=str(e))
        return True
    subject.task |= {
        "model": str(file),
        "arena": run.smallest or 4 * len(chosen.content()) + (1 << 29),
        "outputs": len(graph.outputs),
    }
    subject.row = replace(subject.row, arena=run.head, tail=run.tail)
    if is_planned:
        report = memory_of(file_plan(model), run, predicted_head(graph, model.offline()).tensors)
        subject.row = replace(subject.row, bound=report.lower_bound, plan=str(report))
    return True


# What was measured


def _run(subject: _Subject, common: Mapping[str, Any], values: Sequence[NDArray[Any]], timeout_s: float) -> None:
    """One more process; a failure ends the subject."""
    child = _CHILDREN[_STOCK[subject.row.configuration]]
    try:
        answer = call_child(child, Message({**common, **subject.task}, values), timeout_s=timeout_s)
        subject.answers.append(dict(answer.data))
    except ChildError as e:
        subject.row = replace(subject.row, unavailable=str(e))
        subject.answers.clear()


def _take_turns(
    subjects: Sequence[_Subject],
    common: Mapping[str, Any],
    values: Sequence[NDArray[Any]],
    rounds: int,
    timeout_s: float,
) -> None:
    """Time each subject by turns with what it is compared with; what is in no such pair is timed alone."""
    measured = [subject for subject in subjects if subject.answers]
    pairs = [(subject, found[0]) for subject in measured if (found := _reference(subject, subjects)) is not None]
    in_pairs = {id(subject) for pair in pairs for subject in pair}
    alone = [(subject,) for subject in measured if id(subject) not in in_pairs]

    def ask(task: Mapping[str, Any], count: int) -> dict[str, Any]:
        child = _CHILDREN[_STOCK[task["configuration"]]]
        try:
            return dict(call_child(child, Message(task, values), timeout_s=timeout_s * count).data)
        except ChildError as e:
            return {"failed": str(e)}

    for _ in range(rounds):
        for pair in (*pairs, *alone):
            tasks = [{**common, **subject.task} for subject in pair]
            answers = ask_together(tasks, partial(ask, count=len(pair)))
            if any("failed" in answer for answer in answers):
                continue
            for subject, answer in zip(pair, answers, strict=True):
                subject.turns.append(answer)
            if len(answers) > 1:
                pair[0].pairs.append((answers[0], answers[1]))


def _figures(answers: Sequence[Mapping[str, Any]], turns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The columns of a row that its processes have told."""
    told: dict[str, Any] = {key: answers[-1][key] for key in ("arena", "bound", "plan") if key in answers[-1]}
    sizes = {key: middle(answers, key) for key in _SIZES}
    return told | sizes | start_times(answers) | (turn_times(turns) if turns else {})


def _reference(subject: _Subject, subjects: Sequence[_Subject]) -> tuple[_Subject, str] | None:
    """What a subject is compared with, and its configuration; None for nothing.

    In the first of two files that is the same configuration of the second one, or what the runtime does there by
    itself; in a file alone, and in the second one, it is what the runtime does by itself.
    """
    row = subject.row
    if not subject.answers:
        return None
    name = row.configuration
    others = [s for s in subjects if s.row.number > row.number] or [s for s in subjects if s.row.number == row.number]
    for wanted in dict.fromkeys((name, _STOCK[name]) if others[0].row.number > row.number else (_STOCK[name],)):
        other = next((s for s in others if s.row.configuration == wanted and s.answers and s is not subject), None)
        if other is not None:
            return other, wanted
    return None


def _compared(subject: _Subject, subjects: Sequence[_Subject]) -> TfliteRow:
    """The row of a subject, with what it says about the one that it is compared with."""
    row, found = subject.row, _reference(subject, subjects)
    if found is None:
        return row
    other, wanted = found
    pairs = list(zip(subject.answers, other.answers, strict=False))
    return replace(
        row,
        compared=wanted if other.row.number == row.number else f"{wanted} of {other.row.file}",
        latency_ratio=ratio_of_turns(subject.pairs),
        arena_ratio=_ratio(row.arena, other.row.arena),
        anonymous_ratio=_ratio(row.anonymous, other.row.anonymous),
        exact=all(a["digest"] == b["digest"] for a, b in pairs),
    )


def _ratio(mine: int | None, other: int | None) -> float | None:
    return None if mine is None or not other else mine / other
