"""Real memory and latency of an ONNX model under ONNX Runtime as it is, tuned by hand, and inside a plan.

Every configuration runs in fresh processes, because ONNX Runtime's allocators belong to a process. For the figures of
memory each process is alone and serves every request, three runs at least. For times a process of each configuration
runs beside one of `default`, and their runs alternate, so that what else the machine does hits both alike; times are
processor time of the process. Where several processes are asked for, those of a configuration run at once for the
figures of memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.commands import process_parts
from edgemem.commands.process_figures import ask_together, middle, ratio_of_turns, start_times, turn_times
from edgemem.commands.process_parts import MemoryPart, ServedFile
from edgemem.errors import ModelError
from edgemem.formats import Bindings
from edgemem.runtime.feeds import complete_feeds, make_feeds, sized_by
from edgemem.system.child_call import ChildError
from edgemem.system.files import temporary_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from edgemem.commands.process_figures import TimeRatio
    from edgemem.runtime.feeds import Feeds

__all__ = ["CONFIGURATIONS", "MeasureRow", "measure"]

CONFIGURATIONS = {
    "default": "ONNX Runtime as it is",
    "tuned": "ONNX Runtime tuned by hand: an arena that grows by exact sizes, no memory pattern, no reuse of its own",
    "trimmed": "ONNX Runtime tuned by hand, with malloc_trim after loading and after the first runs",
    "no_arena": "ONNX Runtime without its arena: all memory comes from the C library",
    "recording": "an ordinary session that has no plan yet: it records its first run",
    "edgemem": "an ordinary session whose plan is in the file or the cache",
}
_WARM_RUNS: Final = 3  # of each process, which are not among the timed ones
_MOST_DRAWN: Final = 64  # different requests that are made up


@dataclass(frozen=True, slots=True)
class MeasureRow:
    """One configuration's figures; sizes in bytes, times in ms, None for what is not known.

    Attributes:
        configuration: default, tuned, trimmed, no_arena, recording, edgemem.
        about: what that is, for people.
        unavailable: why there are no figures, or "".
        activation: peak memory for everything but weights; None for `no_arena`. For `default`, `tuned` and `trimmed` it
            is what ONNX Runtime's CPU arena held at most over the requests (three runs at least) less what it had in
            use before the first (weights, prepacked or not), taken from the counters of its profile: intermediate
            tensors, workspaces and graph outputs, with what the arena keeps and does not use. For the others it is
            their arenas and the outputs outside them; sessions share their outputs in the arena, as ONNX Runtime does,
            unless the file has recordings with results outside.
        planned: the arena of the plan that ran last; None for ONNX Runtime's own.
        plan: which plan it ran and what that takes, in one line; "" for ONNX Runtime's own.
        outputs: the graph's outputs, those of the largest request, which `activation` contains.
        bound: what no plan can go below: of the recorded requests.
        load_peak: the most that was resident at once while the session was opened, libraries included, like the next;
            of the process that took most, because addresses are drawn, and equal processes differ by some per cent.
        peak: the same over the process's life; the median over the processes, like the next two.
        resident: resident memory of a process after the last run, whose results are still there.
        anonymous: what of it no file backs. The rest are pages of files, which processes share.
        proportional: the sum over all processes, each page that n processes of the system share counted as 1/n (PSS).
        parts: where `resident` comes from; they add up to it. () without a system that tells the first two.
        load_ms: processor time, as all times are, of all threads: to make the session; median over the rounds, like
            the next.
        first_ms: of the first run.
        latency_ms: processor time of a run, median of the timed runs of all rounds.
        p99_ms: 99 % of them took no longer.
        latency_ratio: to `default`, of runs that alternated; None for the first row and without it.
        exact: the outputs equal those of `default` bit for bit.
        note: what a reader has to know, such as why a run left the plan.
    """

    configuration: str
    about: str
    unavailable: str = ""
    activation: int | None = None
    planned: int | None = None
    outputs: int | None = None
    bound: int | None = None
    load_peak: int | None = None
    peak: int | None = None
    resident: int | None = None
    anonymous: int | None = None
    proportional: int | None = None
    parts: tuple[MemoryPart, ...] = ()
    load_ms: float | None = None
    first_ms: float | None = None
    latency_ms: float | None = None
    p99_ms: float | None = None
    latency_ratio: TimeRatio | None = None
    exact: bool | None = None
    note: str = ""
    plan: str = ""


def measure(
    model_path: str | Path,
    feeds: Mapping[str, NDArray[Any]] | Sequence[Mapping[str, NDArray[Any]]] | None = None,
    *,
    bindings: Bindings | None = None,
    vary: Mapping[str, tuple[int, int]] | None = None,
    seed: int = 0,
    repeats: int = 20,
    rounds: int = 3,
    threads: int = 1,
    processes: int = 1,
    configurations: Sequence[str] = tuple(CONFIGURATIONS),
    timeout_s: float = 600,
) -> tuple[MeasureRow, ...]:
    """Measure a model under several configurations, one row each.

    Args:
        model_path: an .onnx file.
        feeds: what to run it on, one request or several in turn; made up otherwise
            (`edgemem.runtime.feeds.make_feeds`).
        bindings: values for symbolic dimensions, and shapes of inputs; what is not given is as in the plan that is in
            the file.
        vary: symbolic dimensions whose value is drawn for every made-up request, from the first to the last inclusive.
        seed: of the values, and of what is drawn.
        repeats: timed runs in each process; more where there are more requests.
        rounds: processes of each configuration that are timed, and as many for memory.
        threads: of one operator.
        processes: of each configuration that run at once when the memory is read.
        configurations: names out of CONFIGURATIONS, in the order of the rows.
        timeout_s: for one process.

    Raises:
        MissingDependencyError: onnxruntime is not installed.
        ModelError: the file cannot be read, a name is unknown, or `feeds` and `vary` are both given.
        UnknownShapeError: a size is unknown.
    """
    model = ServedFile(Path(model_path), "measure")
    if unknown := [c for c in configurations if c not in CONFIGURATIONS]:
        raise ModelError(f"no configuration {unknown[0]!r}; there are {', '.join(CONFIGURATIONS)}")
    if repeats < 1 or rounds < 1 or processes < 1:
        raise ModelError("measure at least one run in at least one round and process")
    if feeds and vary:
        raise ModelError("sizes vary in made-up inputs alone; give either inputs or what varies")
    given = [feeds] if isinstance(feeds, Mapping) else list(feeds or ())
    wanted = model.bindings(bindings or Bindings())
    requests: Iterable[Feeds]
    if vary:
        requests = _varied(model.forms, wanted, vary, min(_WARM_RUNS + repeats, _MOST_DRAWN), seed)
        # A session's dimension that is bound has one value.
        wanted = replace(wanted, dims={name: value for name, value in wanted.dims.items() if name not in vary})
    else:
        requests = [complete_feeds(model.forms, one, bindings, seed=seed) for one in given]
        requests = requests or [make_feeds(model.forms, wanted, seed=seed)]
        # So has one of the plan in the file: bound where no request has another size.
        sizes = [sized_by(model.forms, one, Bindings()).dims for one in given]
        wanted = replace(wanted, dims={n: v for n, v in wanted.dims.items() if all(s.get(n, v) == v for s in sizes)})
    recorded = [p.recording.fingerprint.signature for p in model.plans if p.recording]
    with temporary_folder() as folder:
        saved = process_parts.save_requests(requests, folder)
        task = model.task(
            folder,
            requests=saved,
            share=all(signature.shared for signature in recorded),
            record="first-run",
            together=1,
            dims=dict(wanted.dims),
            threads=threads,
            warm=_WARM_RUNS,
            served=max(len(saved) - _WARM_RUNS, 1),
            repeats=max(repeats, len(saved)),
        )
        measured: dict[str, list[dict[str, Any]]] = {c: [] for c in configurations}
        if "edgemem" in measured and not recorded:
            # Leaves its plans in the cache.
            _child({**task, "configuration": "edgemem", "what": "serve"}, timeout_s)
        for _ in range(rounds):
            for name, answers in measured.items():
                if not (answers and "failed" in answers[0]):
                    answers.append(_child({**task, "configuration": name, "what": "serve"}, timeout_s))
        turns = _turns(task, [name for name, made in measured.items() if "failed" not in made[0]], rounds, timeout_s)
        memory = {
            name: _child({**task, "configuration": name, "what": "memory"}, timeout_s)
            for name in measured
            if name in ("default", "tuned", "trimmed")
        }
        opened = {
            name: _child({**task, "configuration": name, "what": "open", "requests": []}, timeout_s)
            for name in measured
        }
        served = dict(measured)
        if processes > 1:
            for name in measured:
                asked = [{**task, "configuration": name, "what": "serve"}] * processes
                served[name] = ask_together(asked, partial(_child, timeout_s=timeout_s))
    rows = [
        _with_memory(
            _row(name, timed, memory.get(name, {}), turns), served[name], timed, opened[name], model.weights, processes
        )
        for name, timed in measured.items()
    ]
    return tuple(_compared(row, measured[row.configuration], measured.get("default", [])) for row in rows)


def _varied(
    forms: Mapping[str, tuple[str, Sequence[int | str | None]]],
    wanted: Bindings,
    vary: Mapping[str, tuple[int, int]],
    count: int,
    seed: int,
) -> Iterator[Feeds]:
    """Requests of drawn sizes. Raises ModelError for a dimension that no input has."""
    named = {d for _, shape in forms.values() for d in shape if isinstance(d, str)}
    if unknown := sorted(vary.keys() - named):
        known = ", ".join(sorted(named)) or "none"
        raise ModelError(f"no input has the dimension {unknown[0]!r}; those with a name are: {known}")
    rng = np.random.default_rng(seed)
    for k in range(count):
        drawn = {name: int(rng.integers(first, last, endpoint=True)) for name, (first, last) in vary.items()}
        yield make_feeds(forms, replace(wanted, dims={**wanted.dims, **drawn}), seed=seed + k)


@dataclass(frozen=True, slots=True)
class _Turn:
    """The answers of processes whose runs alternated, by configuration."""

    answers: dict[str, dict[str, Any]]

    @property
    def failure(self) -> str:
        return next((a["failed"] for a in self.answers.values() if "failed" in a), "")


def _turns(task: Mapping[str, Any], names: Sequence[str], rounds: int, timeout_s: float) -> list[_Turn]:
    """Time each configuration by turns with `default`, or alone where that is not among them."""
    others = [name for name in names if name != "default"]
    pairs = [("default", name) for name in others] if "default" in names and others else [(name,) for name in names]
    made = []
    for _ in range(rounds):
        for pair in pairs:
            asked = [{**task, "configuration": name, "what": "turns"} for name in pair]
            answers = ask_together(asked, partial(_child, timeout_s=timeout_s * len(pair)))
            made.append(_Turn(dict(zip(pair, answers, strict=True))))
    return made


def _row(
    name: str, answers: Sequence[Mapping[str, Any]], memory: Mapping[str, Any], turns: Sequence[_Turn]
) -> MeasureRow:
    failed = next((a["failed"] for a in answers if "failed" in a), "")
    row = MeasureRow(name, CONFIGURATIONS[name], unavailable=failed)
    if failed:
        return row
    own = [turn for turn in turns if name in turn.answers]
    timed = [turn.answers[name] for turn in own if not turn.failure]
    pairs = [
        (turn.answers[name], turn.answers["default"]) for turn in own if not turn.failure and len(turn.answers) > 1
    ]
    not_timed = next((turn.failure for turn in own), "") if not timed else ""
    last = answers[-1]
    planned = last.get("planned")
    return replace(
        row,
        activation=memory.get("activation") if planned is None else last["reserved"] + last["outside"],
        planned=planned,
        outputs=last["outputs"],
        bound=last.get("bound"),
        **start_times(answers),
        **(turn_times(timed) if timed else {}),
        latency_ratio=ratio_of_turns(pairs) if name != "default" else None,
        plan=last.get("plan", ""),
        note="; ".join(filter(None, (last.get("note"), memory.get("note"), memory.get("failed"), not_timed))),
    )


def _with_memory(
    row: MeasureRow,
    answers: Sequence[Mapping[str, Any]],
    timed: Sequence[Mapping[str, Any]],
    opened: Mapping[str, Any],
    weights: int,
    processes: int,
) -> MeasureRow:
    """The row with what its processes took, and of what that consists; those that were timed tell the peak at load."""
    failed = next((a["failed"] for a in answers if "failed" in a), "")
    if row.unavailable or failed:
        return replace(row, unavailable=row.unavailable or failed)
    peaks = [a.get("load_peak") for a in (*answers, *timed, opened)]
    known = [a["proportional"] for a in answers if a["proportional"] is not None]
    row = replace(
        row,
        load_peak=max((peak for peak in peaks if peak is not None), default=None),
        peak=middle(answers, "peak"),
        resident=middle(answers, "resident"),
        anonymous=middle(answers, "anonymous"),
        proportional=int(sum(known) / len(answers) * processes) if len(known) == len(answers) else None,
    )
    trimmed = middle(answers, "trimmed")
    if row.resident is None or trimmed is None or "before" not in opened:
        return row
    measured = "measured here"
    outside = answers[-1].get("outside", 0)
    parts = [
        *process_parts.opened_parts(opened, weights, answers[-1]["weights_touched"]),
        MemoryPart(process_parts.INPUTS, answers[-1]["inputs"], "from their shapes"),
        MemoryPart(process_parts.ARENA, row.activation - outside, measured)
        if row.activation is not None
        else MemoryPart(process_parts.ARENA, 0, process_parts.UNKNOWN),
        MemoryPart(process_parts.OUTPUTS, outside, measured),
        MemoryPart("free, kept by malloc", max(row.resident - trimmed, 0), measured),
    ]
    rest = row.resident - sum(part.size for part in parts)
    return replace(row, parts=(*parts, MemoryPart("rest", rest, "what is left")))


def _compared(row: MeasureRow, mine: Sequence[Mapping[str, Any]], default: Sequence[Mapping[str, Any]]) -> MeasureRow:
    """The row with what it says about the default one."""
    if row.configuration == "default" or row.unavailable or not default or "failed" in default[0]:
        return row
    return replace(row, exact=all(a["digest"] == b["digest"] for a, b in zip(mine, default, strict=False)))


def _child(task: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
    """A process's figures, or {"failed": why}."""
    try:
        return process_parts.child_answer(task, timeout_s)
    except ChildError as e:
        return {"failed": str(e)}
