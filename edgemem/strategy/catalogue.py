"""All strategies. The files imported here register themselves, in the order in which they are listed.

Those for shared objects are imported where somebody asks for them: sessions plan offsets alone.
Those of other packages are in the entry-point group `edgemem.strategies`, each under its strategy's name. They are
loaded when they are named. `auto` leaves them out, so that its plans do not depend on what else is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from edgemem.errors import UnknownStrategyError
from edgemem.strategy import offsets  # noqa: F401
from edgemem.strategy.registry import REGISTRY
from edgemem.system.entry_points import entries

if TYPE_CHECKING:
    from edgemem.strategy.registry import Family, Strategy

__all__ = ["find_strategies", "known_names", "registered"]

_GROUP: Final = "edgemem.strategies"


def registered(family: Family | None = None) -> tuple[Strategy, ...]:
    """All strategies, offsets first, in order of registration; then those of other packages that were named."""
    if family != "offsets":
        from edgemem.strategy import shared_objects  # noqa: F401
    found = (s for (f, _), s in REGISTRY.items() if family in (None, f))
    return tuple(sorted(found, key=lambda s: s.package != "edgemem"))


def known_names(family: str = "") -> tuple[str, ...]:
    """Names of the strategies of a family ("": of both), then all names that other packages offer; each once."""
    own = [s.name for s in registered() if family in ("", s.family)]
    return tuple(dict.fromkeys([*own, *sorted(entry.name for entry in entries(_GROUP))]))


def find_strategies(name: str, family: Family | None = None) -> tuple[Strategy, ...]:
    """The strategies of a name, at most one a family; () without any. A package that offers the name is loaded.

    With `family`, those of that family alone.

    Raises UnknownStrategyError for a package that cannot be loaded or does not register the name, and for two packages
    that offer it.
    """
    found = _named(name, family)
    if not found and not _named(name):
        _load(name)
        found = _named(name, family)
    return found


def _named(name: str, family: Family | None = None) -> tuple[Strategy, ...]:
    return tuple(s for s in registered(family) if s.name == name)


def _load(name: str) -> None:
    offers = {entry.dist.name if entry.dist else entry.value: entry for entry in entries(_GROUP, name)}
    if len(offers) > 1:
        packages = ", ".join(sorted(offers))
        raise UnknownStrategyError(f"several packages offer the strategy {name!r}; keep one of {packages}")
    for package, entry in offers.items():
        before = set(REGISTRY)
        fault = "does not register it"
        try:
            entry.load()
        except Exception as e:  # noqa: BLE001 -- whatever code of others raises
            for key in set(REGISTRY) - before:
                del REGISTRY[key]
            fault = f"cannot be loaded: {type(e).__name__}: {e}"
        if not _named(name):
            raise UnknownStrategyError(
                f"the package {package} offers the strategy {name!r} and {fault}; correct or uninstall the package"
            )
