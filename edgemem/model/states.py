"""Which graph input is which output of the run before: the caches of a decoder.

run t       past [.., t, ..] ──────► present [.., t + s, ..]        appended: the new rows come behind the old ones
run t + 1   past [.., t + s, ..] ◄── the same values

every run   past [.., capacity, ..] ─► present [.., capacity, ..]   in_place: rows are written into one buffer
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from edgemem.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

__all__ = ["NAMED_PAIRS", "Growth", "StatePair", "decode_pairs", "encode_pairs", "grown_axis", "named_pairs"]

Growth: TypeAlias = Literal["appended", "in_place", "replaced"]

_GROWTHS: Final = ("appended", "in_place", "replaced")

# Names that exporters give to a cache and its next value; `*` stands for the same text in both.
NAMED_PAIRS: Final[tuple[tuple[str, str], ...]] = (
    ("past_key_values.*", "present.*"),
    ("past_key_values.*", "present_key_values.*"),
    ("past_key_values_*", "present_key_values_*"),
    ("past.*", "present.*"),
    ("past_*", "present_*"),
    ("cache_*_in", "cache_*_out"),
    ("cache_*", "new_cache_*"),
    ("cache_*", "cache_*_out"),
)


@dataclass(frozen=True, slots=True)
class StatePair:
    """A cache: one graph input and the graph output that is this input in the next run.

    Attributes:
        past: the graph input.
        present: the graph output.
        axis: the dimension that counts tokens, from 0.
        growth: the output is the input with new rows behind it (`appended`); it is the input with rows written into it,
            and both may be one buffer (`in_place`); or it is another value of the same shape (`replaced`).
        operator: the type of the operator that writes the output.
    """

    past: str
    present: str
    axis: int
    growth: Growth
    operator: str = ""


def named_pairs(inputs: Collection[str], outputs: Collection[str]) -> dict[str, str]:
    """Input -> output for names that `NAMED_PAIRS` pairs; an input that matches several is paired by the first."""
    pairs: dict[str, str] = {}
    for past, present in NAMED_PAIRS:
        head, _, tail = past.partition("*")
        for name in inputs:
            if name in pairs or len(name) < len(head) + len(tail):
                continue
            if name.startswith(head) and name.endswith(tail):
                value = present.replace("*", name[len(head) : len(name) - len(tail)])
                if value in outputs and value not in pairs.values():
                    pairs[name] = value
    return pairs


def grown_axis(past: Sequence[object], present: Sequence[object]) -> int | None:
    """The one dimension in which two declared shapes differ, or None. Unknown dimensions (None) differ from all."""
    if len(past) != len(present):
        return None
    apart = [k for k, (a, b) in enumerate(zip(past, present, strict=True)) if a is None or a != b]
    return apart[0] if len(apart) == 1 else None


def encode_pairs(pairs: Iterable[StatePair]) -> bytes:
    """The pairs as JSON, for a file's metadata."""
    return json.dumps([asdict(pair) for pair in pairs], separators=(",", ":")).encode()


def decode_pairs(data: bytes | str) -> tuple[StatePair, ...]:
    """What `encode_pairs` wrote. Raises ModelError for anything else."""
    try:
        rows = json.loads(data)
        pairs = tuple(_pair(row) for row in rows)
    except (ValueError, TypeError, KeyError, RecursionError):
        raise ModelError("the file's note of its states is damaged; plan the model again with --state") from None
    names = [name for pair in pairs for name in (pair.past, pair.present)]
    if len(set(names)) < len(names):
        raise ModelError("the file's note of its states names a value twice; plan the model again with --state")
    return pairs


def _pair(row: Any) -> StatePair:
    pair = StatePair(**row)
    texts = (pair.past, pair.present, pair.operator)
    if any(type(t) is not str for t in texts) or type(pair.axis) is not int or not 0 <= pair.axis < 64:
        raise ValueError
    if pair.growth not in _GROWTHS:
        raise ValueError
    return pair
