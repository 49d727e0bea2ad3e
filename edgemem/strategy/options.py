"""The options of strategies: a tuple of choices, the default first, or a number in a range."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from edgemem.plans import OptionValue

__all__ = [
    "SEED",
    "THREADS",
    "TIME_LIMIT",
    "Number",
    "Option",
    "as_data",
    "default_of",
    "normal",
    "parsed",
    "summary",
    "values_of",
]


@dataclass(frozen=True, slots=True)
class Number:
    """A number within `least` and `most`, both inclusive.

    Attributes:
        kind: int, or float (integers are valid, too).
        default: None means no number; a user cannot give None.
        what: its name in messages, such as "a number of seconds".
        short: its name in tables.
    """

    kind: type[int | float]
    default: int | float | None
    least: int
    most: int
    what: str
    short: str


Option: TypeAlias = "tuple[OptionValue, ...] | Number"

# Options that every search has under the same names, so that `edgemem.plan` can set them.
SEED = Number(int, 1, 0, 2**63 - 1, "a whole number", "N")
TIME_LIMIT = Number(float, None, 0, 10**9, "a number of seconds", "SECONDS")
THREADS = Number(int, 1, 1, 256, "a whole number", "N")


def default_of(option: Option) -> OptionValue | None:
    return option.default if isinstance(option, Number) else option[0]


def values_of(option: Option) -> tuple[OptionValue | None, ...]:
    """The values to try: all choices, and of numbers only the default."""
    return (option.default,) if isinstance(option, Number) else option


def parsed(option: Option, text: str) -> OptionValue:
    """The value of a text; the text itself if it is not a value of the option, which `normal` then refuses."""
    if not isinstance(option, Number):
        return next((value for value in option if str(value).lower() == text.lower()), text)
    try:
        return option.kind(text)
    except ValueError:
        return text


def normal(option: Option, value: OptionValue) -> OptionValue:
    """The value in its type. Raises ValueError with the end of a sentence about the option: "is one of 1, 2"."""
    if not isinstance(option, Number):
        if value not in option:
            raise ValueError(f"is one of {', '.join(map(str, option))}, not {value!r}")
        return value
    right = isinstance(value, int | option.kind) and not isinstance(value, bool)
    if not right or not option.least <= value <= option.most:  # type: ignore[operator]  # NaN is not in the range
        raise ValueError(f"is {option.what} from {option.least} to {option.most}, not {value!r}")
    return option.kind(value)


def summary(option: Option) -> str:
    """For a table, the default first."""
    if isinstance(option, Number):
        return f"{'none' if option.default is None else option.default}|{option.short}"
    return "|".join(map(str, option))


def as_data(option: Option) -> Any:
    """For JSON: the list of choices, or an object."""
    if isinstance(option, Number):
        kind = "integer" if option.kind is int else "number"
        return {"type": kind, "default": option.default, "least": option.least, "most": option.most}
    return list(option)
