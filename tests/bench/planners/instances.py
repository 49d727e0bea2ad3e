"""Instances: files, and instances generated from a name: `guillotine:1000,removed=2%,seed=3`.

Pieces of a puzzle may be pinned where they were cut: `guillotine:350,pinned=12`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from edgemem import api
from edgemem.errors import ModelError
from edgemem.formats import RecordFile
from tests.bench.planners.puzzles import HEIGHT, PUZZLES, RANDOM

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from edgemem.records.problem import Problem

__all__ = ["DEFAULT", "MOST", "Instance", "instance"]

# All of them take less than half a minute with the default strategies.
DEFAULT = (
    "guillotine:300",
    "guillotine:1000",
    "guillotine:1000,removed=2%",
    "pinwheels:300,removed=5%",
    "pinwheels:1000",
    "sparse:1000",
    "dense:1000",
    "sparse:10000",
)
MOST = 10_000_000

_GENERATED = re.compile(rf"({'|'.join((*PUZZLES, *RANDOM))}):([^,]*)((?:,[^,]*)*)")
_COUNT = re.compile(r"\d+(e\d)?")
_SHARE = re.compile(r"(\d+(?:\.\d+)?)(%?)")
_SYNTAX = f"{'|'.join((*PUZZLES, *RANDOM))}:COUNT[,removed=SHARE%][,pinned=N][,seed=N]"


@dataclass(frozen=True, slots=True)
class Instance:
    """A problem with a name.

    Attributes:
        name: as given; of a file, the name without its folders.
        problem: generates or reads the problem. Raises ModelError as `edgemem.load` and `edgemem.plan` do.
        optimum: the smallest arena in bytes if the construction gives it, else None.
        at_most: bytes of an arena that the construction gives a plan for; equal to `optimum` where that is known.
    """

    name: str
    problem: Callable[[], Problem]
    optimum: int | None = None
    at_most: int | None = None


def instance(
    text: str,
    *,
    dims: Mapping[str, int] | None = None,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    target: str | None = None,
) -> Instance:
    """The instance with this name. Its problem is not read or generated yet.

    Args:
        text: a file of usage records (.csv), a model (its records), or
            `KIND:COUNT[,removed=SHARE%][,pinned=N][,seed=N]`.
            A file takes precedence over a generated instance of the same name.
        dims: values for symbolic dimensions of a model, by name; ignored for other instances.
        input_shapes: shapes of a model's inputs, by name.
        target: the rules under which a model's records are computed; the format's own by default.

    Raises:
        ModelError: it is neither a file nor the name of an instance; says which part is wrong.
    """
    path = Path(text)
    if path.is_file():
        return Instance(path.name, partial(_read, path, dims, input_shapes, target))
    if match := _GENERATED.fullmatch(text):
        return _generated(text, *match.groups())
    if not path.suffix or ":" in text:
        raise ModelError(f"{text!r} is neither a file nor an instance; those made here are {_SYNTAX}")
    raise ModelError(f"no file {text}")


def _read(
    path: Path, dims: Mapping[str, int] | None, shapes: Mapping[str, Sequence[int]] | None, target: str | None
) -> Problem:
    opened = api.load(path)
    if isinstance(opened, RecordFile):
        return opened.problem()
    if dims or shapes:
        opened = api.load(path, dims=dims, input_shapes=shapes)
    return api.plan(opened, strategy="shared_objects/naive", target=target).problem


def _generated(text: str, kind: str, count: str, tail: str) -> Instance:
    if not _COUNT.fullmatch(count) or not 0 < int(float(count)) <= MOST:
        raise ModelError(f"{text!r}: {count!r} is no number of records from 1 to {MOST:,}")
    records, seed, removed, pinned = int(float(count)), 1, 0.0, 0
    for part in filter(None, tail.split(",")):
        key, _, value = part.partition("=")
        if key == "seed" and value.isdecimal():
            seed = int(value)
        elif key == "removed" and kind in PUZZLES and (share := _SHARE.fullmatch(value)):
            removed = float(share[1]) / (100 if share[2] else 1)
        elif key == "pinned" and kind in PUZZLES and value.isdecimal():
            pinned = int(value)
        else:
            raise ModelError(
                f"{text!r}: {part!r} is not part of an instance: {_SYNTAX} (removed, pinned: puzzles only)"
            )
    if removed >= 1:
        raise ModelError(f"{text!r}: a share below 100% can be removed")
    if kind in RANDOM:
        return Instance(text, partial(RANDOM[kind], records, seed))
    make = partial(PUZZLES[kind], records, seed, removed=removed, pinned=pinned)
    return Instance(text, make, optimum=None if removed else HEIGHT, at_most=HEIGHT)
