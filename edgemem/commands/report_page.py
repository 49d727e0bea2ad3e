"""`save_report`: the memory of a model or a plan as a page, and in the forms of other tools."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from edgemem.commands.planned_memory import memory_of, memory_of_file, planned_file
from edgemem.commands.verify import report_of
from edgemem.difference.comparison import compare_memory
from edgemem.difference.text import difference_data
from edgemem.errors import PlanError, UnsupportedError
from edgemem.formats import Bindings
from edgemem.planning.verification import verdict_of
from edgemem.report.markdown_summary import as_markdown
from edgemem.report.model_explorer import as_node_data
from edgemem.report.perfetto import as_perfetto
from edgemem.report.planned_memory import planned_memory, planned_steps
from edgemem.report.png import as_png
from edgemem.report.report_page import PageProof, PageRow, ReportPage, page_html
from edgemem.report.svg import as_svg
from edgemem.runtime.onnxruntime.node_times import node_times
from edgemem.system.files import atomic_write
from edgemem.targets.units import size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from edgemem.commands.planned_memory import PlannedFile
    from edgemem.planning.verification import Verdict
    from edgemem.report.planned_memory import PlannedMemory
    from edgemem.runtime.onnxruntime.node_times import NodeTimes
    from edgemem.shrinking.result import Found
    from edgemem.targets import Target

__all__ = ["REPORT_SUFFIXES", "save_report"]

_FORMS: Final[Mapping[str, Callable[[PlannedMemory, PlannedFile], bytes | str]]] = {
    ".svg": lambda _, planned: as_svg(planned.planset),
    ".png": lambda _, planned: as_png(planned.planset),
    ".pftrace": lambda memory, _: as_perfetto(memory),
    ".json": lambda memory, planned: as_node_data(memory, planned.graph.name if planned.graph else ""),
    ".md": lambda memory, _: as_markdown(memory),
}
REPORT_SUFFIXES: Final = (".html", *_FORMS)


def save_report(
    source: str | Path,
    path: str | Path,
    *,
    target: str | Target | None = None,
    dims: Mapping[str, int | str] | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    budget: int | str | None = None,
    against: str | Path | None = None,
    found: Found | None = None,
    run: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> None:
    """Write a report about the memory of a model, in the form that the name of the file says.

    | suffix | form |
    |---|---|
    | `.html` | a page that loads nothing else, and that `edgemem.diff` reads |
    | `.pftrace` | a trace for Perfetto: a slice a record, and a counter of the bytes alive |
    | `.json` | node data for Model Explorer: the bytes alive at each operator |
    | `.svg`, `.png` | a picture of the arena |
    | `.md` | a section of Markdown |

    Args:
        source: a model, a planned model, a `.edgemem` plan, or usage records (.csv). The plan in a file is taken as it
            is; where there is none, one is made.
        path: the file, written atomically.
        target: as for `edgemem.plan`; a plan in the file is then left alone.
        dims: as for `edgemem.load`; a plan in the file is then left alone.
        input_shapes: as `dims`.
        budget: bytes that the runtime may take, or text such as "64MiB", shown beside what it takes; for a page alone.
        against: an older model, plan or page to compare with, and to switch to; for a page alone.
        found: what a search for less memory found (`edgemem.shrink(...).found`), shown as a table with commands; for a
            page alone.
        run: whether to run an .onnx model in ONNX Runtime, on made-up inputs, and show how long each operator takes;
            for a page alone.
        progress: called with what is done next.

    Raises:
        PlanError: there is no such form, the plan has not what it shows, or no font is installed (for `.png`).
        UnsupportedError: only .onnx models are run.
        MissingDependencyError: resvg-py (for `.png`) or onnxruntime (for `run`) is not installed.
        InvalidPlanError: the plan in a file is wrong. PlanFileError: a plan or a page cannot be read.
        Others as `edgemem.load` and `edgemem.plan`.
    """
    budget = None if budget is None else size_of("budget", budget)
    source, path, bindings = Path(source), Path(path), Bindings.of(dims, input_shapes)
    suffix = path.suffix.lower()
    if suffix not in REPORT_SUFFIXES:
        raise PlanError(f"{path.name}: a report ends in {', '.join(REPORT_SUFFIXES)}")
    if run and source.suffix.lower() != ".onnx":
        raise UnsupportedError(f"{source.name}: only .onnx models are run, because only ONNX Runtime tells times")
    planned = planned_file(source, target=target, bindings=bindings, progress=progress)
    progress("the report")
    memory = memory_of(planned, source.name)
    if suffix == ".html":
        before = None if against is None else memory_of_file(against, target=target, bindings=bindings)
        verdict = verdict_of(source) if planned.is_stored else verdict_of(planned.planset, planned.graph)
        others = [("Before", before)] if before is not None else []
        others += [
            ("Recording" if n == 1 else f"Recording {n}", planned_memory(recording, name=source.name))
            for n, recording in enumerate((r for r in verdict.recordings if r is not verdict.planset), 1)
        ]
        if run:
            progress("timing")
        timed = node_times(source, bindings) if run else None
        page = ReportPage(
            memory,
            _proof(source, verdict),
            budget,
            tuple(others),
            "After" if before is not None else "Graph",
            None if before is None else difference_data(compare_memory(before, memory)),
            None if found is None else _front(found, source),
            "" if found is None else found.explanation,
            None if found is None else _whole(found, memory),
            () if timed is None else _times(timed, planned),
            "" if timed is None else timed.about,
        )
        data = page_html(page).encode()
    else:
        made = _FORMS[suffix](memory, planned)
        data = made if isinstance(made, bytes) else made.encode()
    with atomic_write(path) as file:
        file.write(data)


def _times(timed: NodeTimes, planned: PlannedFile) -> tuple[int | None, ...]:
    """Nanoseconds of each operator; None for those in bodies, and those that ONNX Runtime leaves out."""
    assert planned.graph is not None
    return tuple(
        None if step.depth else timed.ns.get(next(filter(None, step.writes), ""))
        for step in planned_steps(planned.planset, planned.graph)
    )


def _proof(path: Path, verdict: Verdict) -> PageProof:
    report = report_of(path, verdict)
    checked = tuple(f"{leg.name}: {leg.checked}" for leg in report.legs)
    return PageProof(not verdict.violations, checked, report.not_checked, report.runtimes)


def _whole(found: Found, memory: PlannedMemory) -> int | None:
    """What the model takes as it is, counted as the candidates are; None where only a bound of it is known."""
    start = found.candidates[0]
    if start.is_planned or start.is_measured:
        return start.memory
    return memory.planned if start.target.name == memory.target else None


def _front(found: Found, source: Path) -> tuple[PageRow, ...]:
    """The model as it is, and the candidates that no other one beats."""
    # A page is sent to others, whom the folder of the model does not concern.
    found = replace(found, words=tuple(source.name if word == str(source) else word for word in found.words))
    best = found.best
    listed = {c.text: c for c in (found.candidates[0], *found.front, *((best,) if best is not None else ()))}
    written = shlex.join(("-o", f"{source.stem}.small{source.suffix}"))
    return tuple(
        PageRow(
            c.memory,
            c.macs,
            c.operators,
            c.text,
            f"{found.command(c)} {written}" if c.text else "",
            c.is_planned,
            best is not None and c.text == best.text,
        )
        for c in sorted(listed.values(), key=lambda c: (c.price, -c.memory))
    )
