"""`save_report`: a page about the memory of a model or a plan."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from edgemem.commands.planned_memory import memory_of, memory_of_file, planned_file
from edgemem.commands.verify import report_of
from edgemem.difference.comparison import compare_memory
from edgemem.difference.text import difference_data
from edgemem.formats import Bindings
from edgemem.planning.verification import verdict_of
from edgemem.report.report_page import PageProof, PageRow, ReportPage, page_html
from edgemem.system.files import atomic_write

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from edgemem.commands.planned_memory import PlannedFile
    from edgemem.shrinking.result import Found
    from edgemem.targets import Target

__all__ = ["save_report"]


def save_report(
    source: str | Path,
    path: str | Path,
    *,
    target: str | Target | None = None,
    dims: Mapping[str, int | str] | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    budget: int | None = None,
    against: str | Path | None = None,
    found: Found | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> None:
    """Write a page about the memory of a model: one HTML file that loads nothing else, and that `edgemem.diff` reads.

    Args:
        source: a model, a planned model, a `.edgemem` plan, or usage records (.csv). The plan in a file is taken as it
            is; where there is none, one is made.
        path: the page, written atomically.
        target: as for `edgemem.plan`; a plan in the file is then left alone.
        dims: as for `edgemem.load`; a plan in the file is then left alone.
        input_shapes: as `dims`.
        budget: bytes that the runtime may take, shown beside what it takes.
        against: an older model, plan or page to compare with, and to switch to.
        found: what a search for less memory found (`edgemem.shrink(...).found`), shown as a table with commands.
        progress: called with what is done next.

    Raises:
        InvalidPlanError: the plan in a file is wrong. PlanFileError: a plan or a page cannot be read.
        Others as `edgemem.load` and `edgemem.plan`.
    """
    source, bindings = Path(source), Bindings.of(dims, input_shapes)
    planned = planned_file(source, target=target, bindings=bindings, progress=progress)
    progress("the page")
    memory = memory_of(planned, source.name)
    before = None if against is None else memory_of_file(against, target=target, bindings=bindings)
    page = ReportPage(
        memory,
        _proof(source, planned),
        budget,
        before,
        None if before is None else difference_data(compare_memory(before, memory)),
        None if found is None else _front(found, source, target),
        "" if found is None else found.explanation,
    )
    text = page_html(page)
    with atomic_write(Path(path)) as file:
        file.write(text.encode())


def _proof(path: Path, planned: PlannedFile) -> PageProof:
    verdict = verdict_of(path) if planned.is_stored else verdict_of(planned.planset, planned.graph)
    report = report_of(path, verdict)
    checked = tuple(f"{leg.name}: {leg.checked}" for leg in report.legs)
    return PageProof(not verdict.violations, checked, report.not_checked, report.runtimes)


def _front(found: Found, source: Path, target: str | Target | None) -> tuple[PageRow, ...]:
    """The model as it is, and the candidates that no other one beats."""
    best = found.best
    listed = {c.text: c for c in (found.candidates[0], *found.front, *((best,) if best is not None else ()))}
    named = f" --target {shlex.quote(target)}" if isinstance(target, str) else ""
    return tuple(
        PageRow(
            c.memory,
            c.macs,
            c.operators,
            c.text,
            f"edgemem shrink {shlex.quote(source.name)}{named} --steps {shlex.quote(c.text)} "
            f"-o {shlex.quote(f'{source.stem}.small{source.suffix}')}"
            if c.text
            else "",
            c.is_planned,
            best is not None and c.text == best.text,
        )
        for c in sorted(listed.values(), key=lambda c: (c.price, -c.memory))
    )
