"""Which changes of a model make a plan fit a budget that it exceeds as it is: each is made and planned.

A process of its own computes one candidate after the other, those that take least time first. What it has not reached
when the time is up is said to be not tried.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import BudgetExceededError
from edgemem.formats import Foldable, Model, load
from edgemem.system.child_call import Message, stream_child
from edgemem.targets import BUILT_IN, Target, find_target

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from edgemem.formats import Bindings

__all__ = ["Attempt", "Remedy", "explain_budget", "find_remedies"]

LIMIT_S: Final = 6.0
_MOST_S: Final = 60.0
_OVERLAP: Final = "tflm-reference"


@dataclass(frozen=True, slots=True)
class Attempt:
    """A plan that did not fit.

    Attributes:
        path: of the model.
        budget: bytes.
        wanted: options of the passes that were applied, as `edgemem.commands.changed_model.change_model` takes them.
        kernels: the kernel profile that was given, or None.
        target: a built-in target's name, or a .toml file; None for the format's own.
        alignment: as for `edgemem.plan`.
        bindings: values for open dimensions and shapes.
        plan: further arguments of `edgemem.plan`.
    """

    path: Path
    budget: int
    wanted: Mapping[str, Mapping[str, str]]
    kernels: str | None
    target: str | None
    alignment: int | None
    bindings: Bindings
    plan: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change that may make the plan fit.

    Attributes:
        options: of `edgemem plan`, besides those that were given.
        size: bytes that its plan takes, or, where that exceeds the budget, that none takes less than; None if it was
            not tried, or cannot be made.
        fits: whether there is a plan within the budget: it was made and proved.
        refusal: why the change cannot be made, or "".
    """

    options: str
    size: int | None
    fits: bool = False
    refusal: str = ""


def find_remedies(attempt: Attempt, *, limit_s: float = LIMIT_S) -> tuple[Remedy, ...]:
    """What each change of a model that its format has makes of a plan that does not fit; () for usage records.

    Args:
        attempt: what did not fit.
        limit_s: seconds of processor time, after which no other change is begun. The process ends after a minute.
    """
    candidates = _candidates(attempt)
    if not candidates:
        return ()
    task = {
        **asdict(attempt),
        "path": str(attempt.path),
        "bindings": {"dims": dict(attempt.bindings.dims), "shapes": dict(attempt.bindings.input_shapes)},
        "limit_s": limit_s,
        "candidates": [[dict(wanted), kernels] for _, wanted, kernels in candidates],
    }
    answers, _ = stream_child("edgemem.commands.remedies_child", Message(task), timeout_s=_MOST_S)
    found = [Remedy(options, **answer.data) for (options, _, _), answer in zip(candidates, answers, strict=False)]
    return (*found, *(Remedy(options, None) for options, _, _ in candidates[len(found) :]))


def explain_budget(error: BudgetExceededError, attempt: Attempt, command: str) -> BudgetExceededError:
    """The error with what every change of the model would take, and the commands that fit.

    Args:
        error: what planning raised.
        attempt: what did not fit.
        command: what the user typed.
    """
    remedies = find_remedies(attempt)
    if not remedies:
        return error
    fit = [r for r in remedies if r.fits]
    large = [f"{r.options} ({r.size:,} or more)" for r in remedies if not r.fits and r.size is not None]
    refused = [f"{r.options} ({r.refusal})" for r in remedies if r.refusal]
    left = [r.options for r in remedies if r.size is None and not r.refusal]
    tried = "no change that was tried fits; a smaller input may" if large or refused else "no change was tried"
    lines = ["changes that fit, each planned:" if fit else tried]
    lines += [f"  {r.size:,} bytes: {command} {r.options}" for r in fit]
    if any("--overlap" in r.options for r in fit):
        lines.append("--overlap holds for the kernels of that profile alone (docs/below-the-bound.md)")
    for what, options in (("too large", large), ("not possible", refused), ("not tried, for lack of time", left)):
        if options:
            lines.append(f"{what}: {'; '.join(options)}")
    return BudgetExceededError(
        str(error),
        required=error.required,
        available=error.available,
        op=error.op,
        tensors=error.tensors,
        impossible=error.impossible,
        remedies=lines,
    )


def _candidates(attempt: Attempt) -> list[tuple[str, Mapping[str, Mapping[str, str]], str | None]]:
    """The options, the passes and the kernel profile of every change that was not asked for, the quickest first."""
    model = load(attempt.path, attempt.bindings)
    if not isinstance(model, Model):
        return []
    budget = {"budget": str(attempt.budget)}
    passes: dict[str, tuple[str, dict[str, str]]] = {
        "fold": ("--fold", {}),
        "order": ("--order auto", {"method": "auto", **budget}),
        "stream": ("--stream auto", {"stages": "auto", **budget}),
        "tile": ("--tile auto", {"stages": "auto", **budget}),
        "recompute": ("--recompute auto", {"means": "auto", **budget}),
    }
    is_tflite = ".tflite" in model.suffixes
    rules = attempt.target if attempt.target is not None else BUILT_IN[model.default_target]
    target = rules if isinstance(rules, Target) else find_target(rules)
    overlaps = is_tflite and attempt.kernels in (None, "none") and target.scratch == "unknown"
    folds = "fold" not in attempt.wanted and isinstance(model, Foldable) and model.folded() is not model
    first = ("fold",) if folds else ()
    cut = "stream" if is_tflite else "tile"
    sets: list[tuple[str, ...]] = [first, (*first, "overlap")] if overlaps else [first]
    sets += [(*first, "order"), (*first, cut), (*first, "overlap", "order", cut)]
    sets += [(*first, "order", cut), (*first, "recompute")]
    levels = () if is_tflite or "optimize" in attempt.wanted else ("all",)
    found: dict[str, tuple[str, Mapping[str, Mapping[str, str]], str | None]] = {}
    for names in sets:
        added = [n for n in names if n in passes and n not in attempt.wanted]
        kernels = _OVERLAP if overlaps and "overlap" in names else attempt.kernels
        texts = [passes[n][0] for n in added] + ([f"--overlap {_OVERLAP}"] if kernels != attempt.kernels else [])
        if texts:
            wanted = {**attempt.wanted, **{n: passes[n][1] for n in added}}
            found.setdefault(" ".join(texts), (" ".join(texts), wanted, kernels))
    for level in levels:
        wanted = {**attempt.wanted, "optimize": {"level": level}}
        found = {"optimize": (f"--optimize {level}", wanted, attempt.kernels), **found}
    return list(found.values())
