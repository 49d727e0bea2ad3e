"""Real memory and latency of an ONNX model under ONNX Runtime as it is, tuned by hand, and inside a plan.

Every configuration runs in fresh processes, because ONNX Runtime's allocators belong to a process; the processes of
the configurations take turns, so that what else the machine does hits all of them alike.
"""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from edgemem.child import run_child
from edgemem.commands.onnx_file import read_onnx
from edgemem.commands.run import planned_bindings
from edgemem.errors import ModelError
from edgemem.files import temporary_folder
from edgemem.formats import Bindings, onnx_editor
from edgemem.runtime.feeds import make_feeds
from edgemem.runtime.onnxruntime.optimise import onnxruntime

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["CONFIGURATIONS", "MeasureRow", "measure"]

CONFIGURATIONS = {
    "default": "ONNX Runtime as it is",
    "tuned": "ONNX Runtime tuned by hand: an arena that grows by exact sizes, no memory pattern, no reuse of its own",
    "edgemem": "an ordinary session whose requests are served from the plan",
    "io_binding": "one session a node, bound into the plan",
}


@dataclass(frozen=True, slots=True)
class MeasureRow:
    """One configuration's figures; sizes in bytes, None for what is not known.

    Attributes:
        configuration: default, tuned, edgemem, io_binding.
        about: what that is, for people.
        unavailable: why there are no figures, or "".
        activation: peak memory for everything but weights. For `default` and `tuned` it is what ONNX Runtime's CPU
            arena held at most over three runs less what it had in use before the first (weights, prepacked or not),
            taken from the counters of its profile: intermediate tensors, workspaces and graph outputs, with what the
            arena keeps and does not use. For `edgemem` and `io_binding` it is the planned arena and the outputs
            outside it; `edgemem` shares its outputs in the arena, as ONNX Runtime does, unless the file has recordings
            with results outside. `io_binding` knows nothing of workspaces, which its sessions take from the heap.
        planned: the arena alone; None for ONNX Runtime's own.
        plan: which plan it ran and what that takes, in one line; "" for ONNX Runtime's own.
        outputs: the graph's outputs, which `activation` contains.
        bound: what no plan can go below: of the recorded requests for `edgemem`, of the tensors for `io_binding`.
        rss: growth of the process's resident memory from after loading to its peak; the least of all rounds, so that
            a plan that was recorded in an earlier round does not count its recording.
        latency_ms: median over the rounds of the median of a round's runs.
        latency_ratio: to `default`, median over the rounds; None for the first row and without it.
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
    rss: int | None = None
    latency_ms: float | None = None
    latency_ratio: float | None = None
    exact: bool | None = None
    note: str = ""
    plan: str = ""


def measure(
    model_path: str | Path,
    feeds: Mapping[str, NDArray[Any]] | None = None,
    *,
    bindings: Bindings | None = None,
    repeats: int = 20,
    rounds: int = 3,
    threads: int = 1,
    configurations: Sequence[str] = tuple(CONFIGURATIONS),
    timeout_s: float = 600,
) -> tuple[MeasureRow, ...]:
    """Measure a model under several configurations, one row each.

    Args:
        model_path: an .onnx file.
        feeds: what to run it on; made up otherwise (`edgemem.runtime.feeds.make_feeds`).
        bindings: values for symbolic dimensions, and shapes of inputs; what is not given is as in the plan that is in
            the file.
        repeats: timed runs in each process.
        rounds: processes of each configuration.
        threads: of one operator.
        configurations: names out of CONFIGURATIONS, in the order of the rows.
        timeout_s: for one process.

    Raises:
        MissingDependencyError: onnxruntime is not installed.
        ModelError: the file cannot be read, or a name is unknown. UnknownShapeError: a size is.
    """
    path = Path(model_path)
    data = read_onnx(path, "measure")
    onnxruntime()
    if unknown := [c for c in configurations if c not in CONFIGURATIONS]:
        raise ModelError(f"no configuration {unknown[0]!r}; there are {', '.join(CONFIGURATIONS)}")
    if repeats < 1 or rounds < 1:
        raise ModelError("measure at least one run in at least one round")
    forms = onnx_editor().parts(data, path.parent).input_forms()
    wanted = planned_bindings(data, bindings or Bindings())
    values = dict(feeds) if feeds else make_feeds(forms, wanted)
    with temporary_folder() as folder:
        file = folder / "feeds.npz"
        np.savez(file, **values)  # type: ignore[arg-type]  # numpy's stub takes the names for its own options
        task = {
            "model": str(path),
            "feeds": str(file),
            "cache": str(folder),
            "dims": dict(wanted.dims),
            "threads": threads,
            "repeats": repeats,
        }
        measured: dict[str, list[dict[str, Any]]] = {c: [] for c in configurations}
        for _ in range(rounds):
            for name, answers in measured.items():
                if not (answers and "failed" in answers[0]):
                    answers.append(_child({**task, "configuration": name, "what": "time"}, timeout_s))
        memory = {
            name: _child({**task, "configuration": name, "what": "memory"}, timeout_s)
            for name in measured
            if name in ("default", "tuned")
        }
    rows = [_row(name, answers, memory.get(name, {})) for name, answers in measured.items()]
    return tuple(_compared(row, measured[row.configuration], measured.get("default", [])) for row in rows)


def _row(name: str, answers: Sequence[Mapping[str, Any]], memory: Mapping[str, Any]) -> MeasureRow:
    failed = next((a["failed"] for a in answers if "failed" in a), "")
    row = MeasureRow(name, CONFIGURATIONS[name], unavailable=failed)
    if failed:
        return row
    last = answers[-1]  # by then a recorded plan is there
    planned = last.get("planned")
    return replace(
        row,
        activation=memory.get("activation") if planned is None else planned + last["outside"],
        planned=planned,
        outputs=last["outputs"],
        bound=last.get("bound"),
        rss=min((a["rss"] for a in answers if "rss" in a), default=None),
        latency_ms=median(a["latency_ms"] for a in answers),
        plan=last.get("plan", ""),
        note="; ".join(filter(None, (last.get("note"), memory.get("note"), memory.get("failed")))),
    )


def _compared(row: MeasureRow, mine: Sequence[Mapping[str, Any]], default: Sequence[Mapping[str, Any]]) -> MeasureRow:
    """The row with what it says about the default one."""
    if row.configuration == "default" or row.unavailable or not default or "failed" in default[0]:
        return row
    ratios = [a["latency_ms"] / b["latency_ms"] for a, b in zip(mine, default, strict=False)]
    exact = all(a["digest"] == b["digest"] for a, b in zip(mine, default, strict=False))
    return replace(row, latency_ratio=median(ratios), exact=exact)


def _child(task: Mapping[str, Any], timeout_s: float) -> dict[str, Any]:
    """A process's figures, or {"failed": why}."""
    try:
        done = run_child("edgemem.runtime.onnxruntime.measure_child", stdin=json.dumps(task), timeout_s=timeout_s)
    except subprocess.TimeoutExpired:
        return {"failed": f"it took longer than {timeout_s:g} s"}
    if done.returncode < 0:
        return {"failed": f"the process was ended by signal {-done.returncode}"}
    if done.returncode:
        return {"failed": " ".join(done.stderr.strip().splitlines()[-1:]) or f"exit status {done.returncode}"}
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer
