"""Which graph input is which value of the run before: names of one state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

__all__ = ["match_states", "near"]


def match_states(
    states: Mapping[str, str], inputs: Collection[str], written: Collection[str]
) -> tuple[tuple[str, str], ...]:
    """The states as pairs (graph input, value that is this input in the next run).

    Args:
        states: input -> value. Both may have one `*`, which stands for the same text in both: "past.*" and
            "present.*" are "past.0" and "present.0", "past.1" and "present.1", and so on.
        inputs: names of the graph's inputs.
        written: names of the values that its operators write.

    Raises:
        ModelError: a name that is no input or no value written, a pattern that no input matches, a `*` on one side
            only, or a tensor in two states.
    """
    pairs: dict[str, str] = {}
    for past, present in states.items():
        if past.count("*") > 1 or past.count("*") != present.count("*"):
            raise ModelError(f"state {past!r} = {present!r}: give one * on both sides, or none")
        found = _matches(past, present, inputs) if "*" in past else [(past, present)]
        if not found:
            raise ModelError(f"no graph input matches the state {past!r}{near(past, inputs)}")
        for source, value in found:
            if source not in inputs:
                raise ModelError(f"the state {source!r} is no graph input{near(source, inputs)}")
            if value not in written:
                raise ModelError(
                    f"no operator writes {value!r}, which the state {source!r} is to be in the next run"
                    f"{near(value, written)}"
                )
            if source in pairs or value in pairs.values():
                raise ModelError(f"{source!r} or {value!r} is in two states; name each tensor once")
            pairs[source] = value
    return tuple(pairs.items())


def _matches(past: str, present: str, inputs: Collection[str]) -> list[tuple[str, str]]:
    head, _, tail = past.partition("*")
    return [
        (name, present.replace("*", name[len(head) : len(name) - len(tail)]))
        for name in inputs
        if len(name) >= len(head) + len(tail) and name.startswith(head) and name.endswith(tail)
    ]


def near(name: str, known: Collection[str]) -> str:
    """The end of a message about an unknown name: those that are like it, or some that there are."""
    from difflib import get_close_matches  # only for an error

    like = get_close_matches(name, known, n=3, cutoff=0.5) or list(known)[:5]
    return f"; near names: {', '.join(map(repr, like))}" if like else "; there are none"
