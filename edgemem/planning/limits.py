"""How hard the searches try, and how hard a file may make them try."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from edgemem.errors import UnknownStrategyError
from edgemem.planning.choice import choices
from edgemem.strategy.catalogue import registered
from edgemem.strategy.options import default_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.planning.choice import Choice
    from edgemem.plans import OptionValue, Settings
    from edgemem.strategy.registry import Strategy

__all__ = ["Limits", "bounded"]

_MOST_ALIGNMENT: Final = 1 << 16  # bytes: no processor asks for more than its pages
_MOST_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Limits:
    """How hard the searches try. None leaves a strategy at its own default, and `auto` at its own.

    Attributes:
        effort: "fast", "default" or "max": work, which is counted the same on every machine.
        seed: of their random choices, from 0.
        time_limit: seconds for all strategies together; with it the plans depend on the machine.
        threads: of each search that has them; the work is that of each thread.
    """

    effort: str | None = None
    seed: int | None = None
    time_limit: float | None = None
    threads: int | None = None

    def options(self, strategy: Strategy) -> dict[str, OptionValue]:
        """Those that the strategy takes and that differ from its defaults. Raises UnknownStrategyError."""
        given = {name: getattr(self, name) for name in ("effort", "seed", "time_limit", "threads")}
        taken = {name: value for name, value in given.items() if value is not None and name in strategy.options}
        checked = strategy.check(taken)
        return {name: value for name, value in checked.items() if value != default_of(strategy.options[name])}

    def check(self, wanted: Sequence[Choice]) -> None:
        """Raise UnknownStrategyError for a value out of range, and for a limit that would limit nothing.

        Threads only say how many there may be, so that any strategy goes with them.
        """
        for strategy in () if self == Limits() else registered():
            self.options(strategy)
        for name in ("effort", "seed", "time_limit"):
            if getattr(self, name) is None or not wanted or any(name in c.strategy.options for c in wanted):
                continue
            having = ", ".join(dict.fromkeys(s.name for s in registered() if name in s.options))
            raise UnknownStrategyError(
                f"no strategy among those chosen has the option {name!r}; it belongs to {having}"
            )


def bounded(settings: Settings) -> Settings:
    """What settings that came with a file ask for, as far as it suits a program that plans while a caller waits.

    Whoever made the file does not decide how long this machine works: a search has effort "default" at most and as many
    threads as there are processors, a time limit is 10 seconds at most, and strategies that take long for many records
    are left out, as are an alignment above 64 KiB and strategies that are not there. Those of other packages are there
    once the program has named them: a file loads no code. Where no strategy is left, it is `auto`.
    """
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    kept = tuple(text for name in settings.strategies for text in _bounded(name, threads))
    alignment = settings.alignment
    return replace(
        settings,
        strategies=kept or ("auto",),
        effort=settings.effort if settings.effort in (None, "fast") else "default",
        time_limit=None if settings.time_limit is None else min(settings.time_limit, _MOST_SECONDS),
        threads=None if settings.threads is None else min(settings.threads, threads),
        alignment=alignment if alignment is not None and alignment <= _MOST_ALIGNMENT else None,
    )


def _bounded(text: str, threads: int) -> list[str]:
    """The strategies that a text names, each with the options that it may have."""
    if text == "auto":
        return [text]
    name = text.partition(":")[0].rpartition("/")[2]
    if all(strategy.name != name for strategy in registered()):
        return []
    try:
        chosen = choices(text)
    except UnknownStrategyError:
        return []
    named = []
    for choice in chosen:
        if choice.strategy.limit is not None:
            continue
        options = dict(choice.options)
        if options.get("effort") == "max":
            options["effort"] = "default"
        if isinstance(options.get("threads"), int):
            options["threads"] = min(int(options["threads"]), threads)
        if isinstance(options.get("time_limit"), int | float):
            options["time_limit"] = min(float(options["time_limit"]), _MOST_SECONDS)
        ending = ",".join(f"{name}={value}" for name, value in options.items())
        named.append(f"{choice.strategy.family}/{choice.strategy.name}{f':{ending}' if ending else ''}")
    return named
