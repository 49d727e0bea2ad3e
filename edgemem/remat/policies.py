"""Policies of rematerialisation: what is evicted when memory runs out, and where new values go.

| policy | evicts | from |
|---|---|---|
| `dtr` | the value of the least c / (m s), until the request fits | Kirisame et al. 2021, section 4 |
| `dte` | as `dtr`, with the free bytes beside the value added to m | Hu et al. 2022 (MegTaiChi) |
| `coop` | contiguous values of the least sum of c / s, in one search | Zhang et al. 2023 (Coop), section 3 |

c is the projected cost: of the value's own call and of its evicted neighbourhood; m is bytes, s the time since the last
access. `coop-window` is the sliding window alone; `coop-partition` adds cheap tensor partitioning to it (section 3.4),
`coop-in-place` recomputable in-place (section 3.5); `coop` is all three. `coop-per-byte` is `coop` with another
objective: the least sum of c / s for each byte of the window, so that a large cheap value is evicted rather than an
expensive one that fits exactly (docs/rematerialisation.md has the measurements).

A request goes to the smallest free block that is large enough, as in PyTorch's caching allocator; policies whose names
end in `-leftmost` take the one with the lowest address, as section 2.1 of Coop has it.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from typing import Final, Literal, get_args

import numpy as np

from edgemem.errors import UnknownStrategyError

__all__ = ["POLICIES", "Policy", "find_policy"]

Heuristic = Literal["dtr", "dte", "coop"]
Search = Literal["one_by_one", "window", "window_per_byte"]
Fit = Literal["leftmost", "best"]


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules that the simulator and the runtime obey; each can be switched alone (kernels/remat/rules.h).

    Attributes:
        name: of the policy.
        heuristic: of a value, the least is evicted: `dtr` c / (m s), `dte` c / ((m + free bytes beside it) s), `coop`
            c / s.
        search: `one_by_one` evicts the value of the least heuristic and searches again until the request fits;
            `window` evicts the neighbouring values of the least sum that make enough room, in one search;
            `window_per_byte` those of the least sum divided by the room that they make.
        fit: the free block for a request: the `leftmost` one, or the `best`, which is the smallest.
        partition: values of cheap operators go to the right end of their block, all others to the left end; under
            `leftmost` the cheap ones take the rightmost block. An operator is cheap if its cost a byte is below that of
            all operators so far.
        in_place: an operator in place writes into the memory of the old version, also when it runs again. Otherwise the
            new version gets memory of its own (copy on write).
        constants_at_ends: values that cannot be made again go to that end of the pool that is nearer.
        small_apart: requests of at most budget / 65536 go to the first budget / 256 bytes while there is room, so that
            they do not divide the rest.
    """

    name: str
    heuristic: Heuristic
    search: Search = "one_by_one"
    fit: Fit = "best"
    partition: bool = False
    in_place: bool = False
    constants_at_ends: bool = False
    small_apart: bool = True

    @property
    def rules(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The rules as kernels take them, int64 [7]."""
        kinds = (get_args(Heuristic), get_args(Search), get_args(Fit))
        _, *given = astuple(self)
        numbers = [kind.index(value) for kind, value in zip(kinds, given, strict=False)]
        return np.array([*numbers, *map(int, given[len(kinds) :])], np.int64)


_DTR: Final = Policy("dtr", "dtr")
_DTE: Final = Policy("dte", "dte")
_WINDOW: Final = Policy("coop-window", "coop", "window")
_COOP: Final = replace(_WINDOW, name="coop", partition=True, in_place=True, constants_at_ends=True)

POLICIES: Final = {
    policy.name: policy
    for policy in (
        _DTR,
        _DTE,
        _COOP,
        replace(_COOP, name="coop-per-byte", search="window_per_byte"),
        _WINDOW,
        replace(_WINDOW, name="coop-partition", partition=True),
        replace(_WINDOW, name="coop-in-place", in_place=True, constants_at_ends=True),
        replace(_DTR, name="dtr-leftmost", fit="leftmost"),
        replace(_DTE, name="dte-leftmost", fit="leftmost"),
        replace(_COOP, name="coop-leftmost", fit="leftmost"),
    )
}


def find_policy(policy: str | Policy) -> Policy:
    """The policy of a name. Raises UnknownStrategyError, which names those that there are, if there is none."""
    if isinstance(policy, Policy):
        return policy
    if policy not in POLICIES:
        raise UnknownStrategyError(f"no policy of rematerialisation {policy!r}; there are {', '.join(POLICIES)}")
    return POLICIES[policy]
