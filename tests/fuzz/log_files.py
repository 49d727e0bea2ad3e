"""Operator logs as DTR's prototype writes them: lines that are damaged, moved, or say what no program does."""

from __future__ import annotations

import atexit
import gzip
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgemem.formats import load_operator_log
from tests.fuzz.cases import Target
from tests.fuzz.mutation import INTERESTING, mutate_bytes

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

__all__ = ["TARGET"]


def _run(data: bytes) -> None:
    path = _PLACE / ("run.log.gz" if data.startswith(b"\x1f\x8b") else "run.log")
    path.write_bytes(data)
    load_operator_log(path)


def _seeds() -> list[bytes]:
    def memory(name: str, size: int = 64) -> dict[str, str]:
        return {"INSTRUCTION": "MEMORY", "NAME": name, "MEMORY": str(size)}

    def alias(name: str, of: int = -1) -> dict[str, str]:
        return {"INSTRUCTION": "ALIAS", "NAME": name, "ALIAS": str(of)}

    def call(results: list[str], arguments: list[str]) -> dict[str, Any]:
        return {"INSTRUCTION": "CALL", "NAME": "op", "TIME": "10", "ARGS": arguments, "RESULT": results}

    lines: list[dict[str, Any]] = [
        {"INSTRUCTION": "CONSTANT", "NAME": "a"},
        memory("a"),
        {"INSTRUCTION": "ANNOTATE", "ANNOTATION": "START"},
        call(["b"], ["a"]),
        *(memory("b", 128), alias("b")),
        call(["c"], ["b"]),
        *(memory("c", 0), alias("c", 0)),
        {"INSTRUCTION": "MUTATE", "NAME": "add_", "TIME": "5", "ARGS": ["b", "a"], "MUTATE": [0]},
        {"INSTRUCTION": "COPY", "DST": "d", "SRC": "b"},
        {"INSTRUCTION": "COPY_FROM", "DST": "d", "SRC": "a"},
        *({"INSTRUCTION": "RELEASE", "NAME": name} for name in "cb"),
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    return [text, gzip.compress(text)]


def _mutate(chance: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    if data.startswith(b"\x1f\x8b"):
        return mutate_bytes(chance, data, others) if chance.random() < 0.7 else gzip.compress(b"\n" * 10**4)
    lines = data.split(b"\n")
    at, kind = chance.randrange(len(lines)), chance.random()
    if kind < 0.2:
        return mutate_bytes(chance, data, others)
    if kind < 0.4:
        lines.insert(chance.randrange(len(lines)), lines.pop(at))
    elif kind < 0.5:
        lines[at:at] = [lines[at]] * chance.choice((1, 2, 500))
    else:
        lines[at] = _changed(chance, lines[at])
    return b"\n".join(lines)


def _changed(chance: random.Random, line: bytes) -> bytes:
    """Another value under a key of a line."""
    try:
        entries = json.loads(line)
        key = chance.choice(list(entries))
    except (ValueError, TypeError, IndexError):
        return line
    number = chance.choice(INTERESTING)
    given: tuple[Any, ...] = (
        number,
        str(number),
        [number],
        ["a"] * chance.choice((0, 1, 3)),
        "a",
        "b",
        "START",
        None,
        {},
        [0, 0],
    )
    entries[key] = chance.choice(given)
    return json.dumps(entries).encode()


_FOLDER = tempfile.TemporaryDirectory(prefix="edgemem-fuzz-log-")
atexit.register(_FOLDER.cleanup)
_PLACE = Path(_FOLDER.name)

TARGET = Target(_run, _seeds, _mutate)
