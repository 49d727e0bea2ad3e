"""Logs as the prototype of Dynamic Tensor Rematerialization writes them (Kirisame et al. 2021, `simrd`).

Each line is a JSON object:

    {"INSTRUCTION": "CONSTANT", "NAME": "x1"}                    a tensor that no operator made; MEMORY follows
    {"INSTRUCTION": "MEMORY", "NAME": "x1", "MEMORY": "64"}      bytes of a tensor's storage
    {"INSTRUCTION": "CALL", "NAME": "relu", "TIME": "2100",      an operator; MEMORY and ALIAS follow for each result
     "ARGS": ["x1"], "RESULT": ["x2"]}
    {"INSTRUCTION": "ALIAS", "NAME": "x2", "ALIAS": "-1"}        the argument that the result is a view of, or -1
    {"INSTRUCTION": "MUTATE", "NAME": "add_", "TIME": "900",     an operator that changes arguments in place
     "ARGS": ["x2", "x1"], "MUTATE": [0]}
    {"INSTRUCTION": "COPY", "DST": "x3", "SRC": "x2"}            another name for a tensor
    {"INSTRUCTION": "COPY_FROM", "DST": "x3", "SRC": "x1"}       a name is bound to another tensor
    {"INSTRUCTION": "RELEASE", "NAME": "x2"}                     a name goes away
    {"INSTRUCTION": "ANNOTATE", "ANNOTATION": "START"}           what was before is not part of the log

All names and views of one storage see a change of it, as in PyTorch. Operators whose results are all views are no
calls, and their time does not count. What lived before START is a constant. The program holds to the end what has a
name then, such as gradients.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from edgemem.errors import ModelError
from edgemem.system.text import short_repr
from tests.bench.remat.log_lines import json_lines
from tests.bench.remat.operator_log import APPEARS, LETS_GO, RUNS, OperatorLog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.bench.remat.log_lines import Line

__all__ = ["load_dtr_log"]


def load_dtr_log(path: Path) -> OperatorLog:
    """Read a file, as text or compressed with gzip. Raises ModelError, which names the line, if it is no such log."""
    try:
        return _Reader(json_lines(path)).read()
    except ModelError as e:
        raise ModelError(f"{path.name}: {e}") from None


@dataclass(slots=True, eq=False)
class _Storage:
    """Memory that tensors share."""

    value: int  # what is in it now
    size: int
    names: int = 0  # that are bound to it


@dataclass(slots=True, eq=False)
class _Columns:
    """The columns of the log as they grow."""

    names: dict[str, int] = field(default_factory=dict)
    name: list[int] = field(default_factory=list)
    cost: list[int] = field(default_factory=list)
    reads: list[tuple[int, ...]] = field(default_factory=list)
    writes: list[tuple[int, ...]] = field(default_factory=list)
    takes: list[int] = field(default_factory=list)
    size: list[int] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    indices: list[int] = field(default_factory=list)

    def value(self, size: int) -> int:
        """The number of a new value."""
        self.size.append(size)
        return len(self.size) - 1

    def event(self, kind: int, index: int) -> None:
        self.kinds.append(kind)
        self.indices.append(index)

    def call(self, name: str, cost: int, reads: tuple[int, ...], writes: tuple[int, ...] = (), takes: int = -1) -> None:
        self.event(RUNS, len(self.name))
        self.name.append(self.names.setdefault(name, len(self.names)))
        self.cost.append(cost)
        self.reads.append(reads)
        self.writes.append(writes)
        self.takes.append(takes)

    def log(self) -> OperatorLog:
        return OperatorLog.from_columns(
            names=tuple(self.names),
            name=self.name,
            cost=self.cost,
            reads=self.reads,
            writes=self.writes,
            takes=self.takes,
            size=self.size,
            event_kind=self.kinds,
            event_index=self.indices,
        )


class _Reader:
    """Reads line after line; names are bound to storages."""

    def __init__(self, lines: Iterator[Line]) -> None:
        self._lines = lines
        self._bound: dict[str, _Storage] = {}
        self._columns = _Columns()

    def read(self) -> OperatorLog:
        steps = {
            "CONSTANT": self._constant,
            "CALL": self._call,
            "MUTATE": self._mutate,
            "COPY": self._copy,
            "COPY_FROM": self._copy_from,
            "RELEASE": self._release,
            "ANNOTATE": self._annotate,
        }
        for line in self._lines:
            instruction = line.text("INSTRUCTION")
            if instruction not in steps:
                raise line.error(f"the instruction {short_repr(instruction)} does not stand here, or is none")
            steps[instruction](line)
        return self._columns.log()

    def _constant(self, line: Line) -> None:
        storage = self._new(self._memory(line))
        self._columns.event(APPEARS, storage.value)
        self._bind(line, line.text("NAME"), storage)

    def _call(self, line: Line) -> None:
        arguments = [self._find(line, name) for name in line.texts("ARGS")]
        results: list[tuple[str, _Storage]] = []
        made: list[int] = []
        for name in line.texts("RESULT"):
            size = self._memory(line)
            alias = self._following(line, "ALIAS").integer("ALIAS", least=-1)
            if alias >= len(arguments):
                raise line.error(f"a result is a view of argument {alias}, but there are {len(arguments)}")
            if alias < 0:
                made.append(len(results))
            results.append((name, self._new(size) if alias < 0 else arguments[alias]))
        if made or not results:
            writes = tuple(results[at][1].value for at in made)
            self._columns.call(line.text("NAME"), line.integer("TIME"), _values(arguments), writes)
        for name, storage in results:
            self._bind(line, name, storage)

    def _mutate(self, line: Line) -> None:
        arguments = [self._find(line, name) for name in line.texts("ARGS")]
        which = line.integers("MUTATE")
        if not which or max(which) >= len(arguments):
            raise line.error(f"MUTATE names none of the {len(arguments)} arguments, or what is none")
        changed = list(dict.fromkeys(arguments[at] for at in which))
        reads = _values(arguments)
        old = [storage.value for storage in changed]
        for storage in changed:
            storage.value = self._columns.value(storage.size)
        writes = tuple(storage.value for storage in changed)
        self._columns.call(line.text("NAME"), line.integer("TIME"), reads, writes, old[0])
        for value in old[1:]:
            self._columns.event(LETS_GO, value)

    def _copy(self, line: Line) -> None:
        self._bind(line, line.text("DST"), self._find(line, line.text("SRC")))

    def _copy_from(self, line: Line) -> None:
        target, source = line.text("DST"), self._find(line, line.text("SRC"))
        before = self._find(line, target)
        source.names += 1
        self._bound[target] = source
        self._unbind(before)

    def _release(self, line: Line) -> None:
        name = line.text("NAME")
        storage = self._find(line, name)
        del self._bound[name]
        self._unbind(storage)

    def _annotate(self, line: Line) -> None:
        if line.text("ANNOTATION") != "START" or not self._columns.kinds:
            return
        self._columns = _Columns()
        line.budget.make(len(self._bound))  # a log may say START again and again
        for storage in dict.fromkeys(self._bound.values()):
            storage.value = self._columns.value(storage.size)
            self._columns.event(APPEARS, storage.value)

    def _new(self, size: int) -> _Storage:
        return _Storage(self._columns.value(size), size)

    def _find(self, line: Line, name: str) -> _Storage:
        storage = self._bound.get(name)
        if storage is None:
            raise line.error(f"no tensor has the name {short_repr(name)}")
        return storage

    def _bind(self, line: Line, name: str, storage: _Storage) -> None:
        if name in self._bound:
            raise line.error(f"there is a tensor of the name {short_repr(name)} already")
        storage.names += 1
        self._bound[name] = storage

    def _unbind(self, storage: _Storage) -> None:
        storage.names -= 1
        if not storage.names:
            self._columns.event(LETS_GO, storage.value)

    def _memory(self, line: Line) -> int:
        """Bytes of the tensor that a line brought, from the line that follows."""
        return self._following(line, "MEMORY").integer("MEMORY")

    def _following(self, line: Line, instruction: str) -> Line:
        following = next(self._lines, None)
        if following is None or following.text("INSTRUCTION") != instruction:
            raise line.error(f"no {instruction} follows for what it brings")
        return following


def _values(storages: list[_Storage]) -> tuple[int, ...]:
    """What is in these storages, each once."""
    return tuple(dict.fromkeys(storage.value for storage in storages))
