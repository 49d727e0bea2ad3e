"""What a search for less memory found, and the model that came of it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgemem import api
from edgemem.notebook.card import html_card, html_table
from edgemem.runtime.onnxruntime.recording import embed
from edgemem.shrinking.candidate import knee_of
from edgemem.system.files import finished_last

if TYPE_CHECKING:
    from collections.abc import Mapping

    from edgemem.formats import Model
    from edgemem.model.ranges import Dimension
    from edgemem.plans import PlanSet
    from edgemem.shrinking.candidate import Candidate
    from edgemem.shrinking.note import ShrinkNote

__all__ = ["Found", "Progress", "Shrunk", "StepEffect"]


@dataclass(frozen=True, slots=True)
class Found:
    """All that a search looked at.

    Attributes:
        candidates: the model as it is first; those that were planned have the size of their plan.
        front: those within the limits that no other one beats in memory and price, the cheapest first.
        overlapping: as `front`, of those that hold for one kernel library alone, which was not named.
        best: the one that was chosen, planned and tried in its runtime where there is one; None if none is within the
            budget and the limits.
        refusals: why candidates could not be made or taken, in plain words.
        explanation: where none is within the budget: how near they come, and what is in the way; else "".
        words: of the command that makes a candidate, but its steps.
        notes: the changes that `shrink` made of the model before, by the note in its file.
        ranges: the symbols that have a range; all that is said holds at every size, and costs are of the largest.
    """

    candidates: tuple[Candidate, ...]
    front: tuple[Candidate, ...]
    overlapping: tuple[Candidate, ...]
    best: Candidate | None
    refusals: tuple[str, ...] = ()
    explanation: str = ""
    words: tuple[str, ...] = ("edgemem", "shrink")
    notes: tuple[ShrinkNote, ...] = ()
    ranges: Mapping[str, Dimension] = field(default_factory=dict)

    def command(self, candidate: Candidate) -> str:
        """The command that makes a candidate."""
        return shlex.join((*self.words, "--steps", candidate.text))

    @property
    def knee(self) -> Candidate | None:
        """The candidate of the front behind which memory gets dear; None for a front of fewer than three."""
        return knee_of(self.front)


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a search is.

    Attributes:
        doing: what is done next, in a word or two.
        found: what was found so far; nothing is chosen yet.
    """

    doing: str
    found: Found

    def __str__(self) -> str:
        return self.doing


@dataclass(frozen=True, slots=True)
class StepEffect:
    """What a step did to the memory of a model.

    Attributes:
        step: as `edgemem shrink --steps` takes it.
        before, after: bytes that no plan goes below, TensorFlow Lite Micro's tail included.
    """

    step: str
    before: int
    after: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Shrunk:
    """A model that takes less memory, and how it was found.

    Attributes:
        model: the changed model.
        planset: its proved plan.
        chosen: the candidate that it is: its steps and costs.
        found: all that the search looked at.
        recorded: plans of what ONNX Runtime asks for, which its sessions run.
        steps: what each step did, in order.
    """

    model: Model
    planset: PlanSet
    chosen: Candidate
    found: Found
    recorded: tuple[PlanSet, ...]
    steps: tuple[StepEffect, ...]
    _folder: Any = field(repr=False)  # files that the model is read from

    @property
    def command(self) -> str:
        """The command that gives the same file."""
        return self.found.command(self.chosen)

    def __repr__(self) -> str:
        """In one line."""
        made = self.chosen
        return f"<Shrunk {made.memory:,} bytes for {made.target.name}, steps {made.text or 'none'!r}>"

    def _repr_html_(self) -> str:
        """For notebooks: what was chosen, what it costs, what each step did, and what else there is."""
        made = self.chosen
        facts = [
            ("memory", f"{made.memory:,} bytes for {made.target.name}"),
            ("as it was", f"{self.found.candidates[0].memory:,}"),
            ("arithmetic", f"{made.macs:.3f}x"),
            *([("time", f"{made.latency:.2f}x")] if made.latency is not None else []),
            ("outputs", made.outputs or "not compared"),
            ("command", self.command),
        ]
        steps = [(s.step, f"{s.before:,}", f"{s.after:,}") for s in self.steps]
        front = self.found.front
        rows = [(c.text or "as it is", f"{c.memory:,}", f"{c.macs:.3f}x", f"{c.operators:,}") for c in front]
        parts = [html_table(("step", "before", "after"), steps)] if steps else []
        return html_card("Shrunk", facts, *parts, html_table(("steps", "memory", "arithmetic", "operators"), rows))

    def save(self, path: str | Path) -> tuple[PlanSet, ...]:
        """Write the model with its plans, atomically; returns the plans. Errors as `edgemem.save`."""
        if not self.recorded:
            return api.save(self.model, self.planset, path)
        with finished_last(Path(path)) as file:
            plansets = api.save(self.model, self.planset, file)
            embed(file, self.recorded, file)
        return (*plansets, *self.recorded)
