"""`check`: plan every model that a file of budgets names, and compare with its budget and its baseline."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from edgemem.commands.planned_memory import memory_of_file
from edgemem.errors import EdgememError, ModelError
from edgemem.formats import Bindings
from edgemem.guard.baseline import BaselineRow, baseline_row, read_baseline, write_baseline
from edgemem.guard.settings import GuardedModel, GuardSettings, read_settings
from edgemem.system.found_files import found_files
from edgemem.system.text import count_text, without_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from edgemem.report.planned_memory import PlannedMemory
    from edgemem.system.found_files import FoundFile

__all__ = ["Checked", "CheckedModel", "check"]

_OF_SESSIONS: Final = frozenset({"generic", "onnxruntime"})  # targets whose plans stand for what a session takes

CheckStatus: TypeAlias = Literal["ok", "over budget", "grew", "no baseline", "error"]


@dataclass(frozen=True, slots=True)
class CheckedModel:
    """One model.

    Attributes:
        name: its path from the folder of the file of budgets, with its target and sizes where they are named.
        path: of the file.
        status: "ok", or why it fails.
        text: what is wrong, or worth knowing, in words; "" for nothing.
        memory: its plan; None where it could not be planned.
        budget: bytes; None for any number.
        baseline: what it took before; None where it is not in the baseline.
    """

    name: str
    path: Path
    status: CheckStatus
    text: str
    memory: PlannedMemory | None = None
    budget: int | None = None
    baseline: BaselineRow | None = None

    @property
    def not_counted(self) -> str:
        """What the runtime takes besides, and no plan in the file says; "" for nothing that is known of."""
        memory = self.memory
        if memory is None:
            return ""
        if memory.recorded is not None:
            return memory.recorded.results_text if memory.recorded.results is None else ""
        if self.path.suffix.lower() != ".onnx" or memory.target not in _OF_SESSIONS:
            return ""
        return (
            "this is the graph's plan, without workspace and results; what an ONNX Runtime session takes is not known: "
            f"check a file with a recording (edgemem plan {self.path.name} -o PLANNED.onnx), without target and sizes"
        )


@dataclass(frozen=True, slots=True)
class Checked:
    """All models in the order of the file, and what is in the baseline and no longer there."""

    models: tuple[CheckedModel, ...]
    gone: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        """Whether no model fails."""
        return all(model.status == "ok" for model in self.models)


def check(
    settings: str | Path,
    *,
    update: bool = False,
    baseline: str | Path | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Checked:
    """Plan the models that a file of budgets names; one that cannot be planned is told of, and ends nothing.

    Args:
        settings: a TOML file (docs/compare.md), or a `pyproject.toml` with a table `tool.edgemem`.
        update: write what the models take now as their baseline; budgets still count, growth does not.
        baseline: the file of baselines, wherever it lies; by default the one beside `settings`, which is no link.
        progress: called with how far it is: the model, and what is done with it.

    Raises:
        ModelError: the file cannot be read, or says what cannot be.
        PlanFileError: the baseline is damaged.
    """
    read = read_settings(Path(settings))
    kept = read.baseline if baseline is None else Path(baseline)
    if baseline is None and kept.is_symlink():
        raise ModelError(f"{kept} is a symbolic link; name the file of baselines with --baseline")
    known = None if update else read_baseline(kept)
    files = [(model, name, file) for model in read.models for name, file in _files(read, model)]
    done: list[CheckedModel] = []
    for number, (model, name, file) in enumerate(files, 1):
        failed = sum(m.status != "ok" for m in done)
        place = f"{count_text(number, len(files), failed)}: {name}"
        done.append(_checked(model, name, file, known, partial(_say, progress, place)))
    models = tuple(done)
    if update:
        write_baseline(kept, {m.name: baseline_row(m.memory) for m in models if m.memory is not None})
    names = {m.name for m in models}
    return Checked(models, tuple(name for name in known or () if name not in names))


def _say(progress: Callable[[str], None], place: str, doing: str) -> None:
    progress(f"{place}, {doing}" if doing else place)


def _files(settings: GuardSettings, model: GuardedModel) -> Iterator[tuple[str, FoundFile]]:
    """Names with targets and sizes, and the files."""
    more = [model.target, *(f"{k}={v}" for k, v in model.dims.items())]
    more += [f"{name}={','.join(map(str, shape))}" for name, shape in model.input_shapes.items()]
    suffix = f" ({' '.join(filter(None, more))})" if any(more) else ""
    for file in found_files([model.pattern], folder=settings.folder, inside=True):
        yield f"{file.name}{suffix}", file


def _checked(
    model: GuardedModel,
    name: str,
    file: FoundFile,
    known: dict[str, BaselineRow] | None,
    progress: Callable[[str], None],
) -> CheckedModel:
    path = file.path
    if path is None:
        return CheckedModel(name, Path(model.pattern), "error", file.why_none)
    progress("")
    try:
        bindings = Bindings.of(model.dims, model.input_shapes)
        memory = memory_of_file(path, target=model.target or None, bindings=bindings, progress=progress)
    except (EdgememError, OSError) as e:
        return CheckedModel(name, path, "error", without_name(str(e), path), None, model.budget)
    before = known.get(name) if known is not None else None
    status, text = _verdict(model, memory, before, is_known=known is not None)
    return CheckedModel(name, path, status, text, memory, model.budget, before)


def _verdict(
    model: GuardedModel, memory: PlannedMemory, before: BaselineRow | None, *, is_known: bool
) -> tuple[CheckStatus, str]:
    taken = memory.memory
    if model.budget is not None and taken > model.budget:
        over = taken - model.budget
        best = (
            "; no plan of the model as it is fits, `edgemem shrink` looks for a changed one"
            if memory.recorded is None and memory.lower_bound + memory.tail > model.budget
            else ""
        )
        return "over budget", f"{over:,} {memory.unit} over the budget of {model.budget:,}{best}"
    if not is_known:
        return "ok", ""
    if before is None:
        return "no baseline", "it is not in the baseline: write it with --update"
    if before.counts != memory.counts:
        was, now = ({"plan": "the graph's plan", "session": "a session"}[row] for row in (before.counts, memory.counts))
        return "no baseline", f"its baseline is of {was}, and this is of {now}: write it again with --update"
    change = taken - before.memory
    share = f", {change / before.memory:+.1%}".replace("%", " %") if before.memory else ""
    if not model.tolerance.allows(taken, before.memory):
        now = memory.label(memory.peak_op)
        peak = f"the peak is at {now}" if now == before.peak else f"the peak is at {now}, it was at {before.peak}"
        return "grew", f"{change:+,} {memory.unit}{share}, more than {model.tolerance}; {peak}"
    if change < 0:
        return "ok", f"{change:+,} {memory.unit}{share}: --update keeps the gain"
    return "ok", f"{change:+,} {memory.unit}{share}" if change else ""
