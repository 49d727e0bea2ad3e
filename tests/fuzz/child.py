"""The process that runs cases, and may crash, hang or run out of memory. `watch.py` starts it."""

from __future__ import annotations

import argparse
import faulthandler
import gc
import hashlib
import os
import random
import resource
import time
import warnings
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tests.fuzz.board import Board, State
from tests.fuzz.cases import MOST_BYTES, Target, load_target, outcome
from tests.fuzz.findings import describe, record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.fuzz.findings import Kind

__all__ = ["OUT_OF_MEMORY", "Runner"]

OUT_OF_MEMORY: Final = 99  # exit code: what is left of the process is of no use
_MOST_KEPT: Final = 1000  # cases that others are made of


class Runner:
    """Runs cases of one target, shows them on the board, and records those that should not be."""

    def __init__(self, name: str, target: Target, board: Board, folder: Path, seconds: float) -> None:
        self.name = name
        self.target = target
        self.folder = folder
        self._board = board
        self._seconds = seconds
        self._state = State()
        self._resident = _most_resident()

    def run(self, data: bytes) -> str:
        """What came of a case: `outcome`, or what is wrong with it."""
        begin = time.process_time()
        self._state = replace(self._state, started=time.monotonic(), cpu=begin, running=1, length=len(data))
        self._board.write(self._state, data)
        found = self._judged(data)
        took = time.process_time() - begin
        if took > self._seconds:
            self._record("slow", f"{took:.1f} seconds of processor time; {found}", data)
        cases, slowest = self._state.cases + 1, max(self._state.slowest, took)
        peak = _most_resident() - self._resident if cases % 64 == 0 else self._state.peak
        self._state = replace(self._state, cases=cases, slowest=slowest, peak=peak, running=0)
        self._board.write(self._state)
        return found

    def _judged(self, data: bytes) -> str:
        try:
            return outcome(self.target, data)
        except MemoryError as e:
            self._record("memory", describe(e), data)
            os._exit(OUT_OF_MEMORY)
        except Exception as e:  # noqa: BLE001 - it is what is looked for
            self._record("foreign", describe(e), data)
            return f"foreign {type(e).__name__}"

    def _record(self, kind: Kind, detail: str, data: bytes) -> None:
        record(self.folder, self.name, kind, detail, data)


def _most_resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _limit_memory(more: int) -> None:
    """Let the process map `more` bytes than it has now; what goes beyond is a MemoryError. Linux alone tells them."""
    about = Path("/proc/self/statm")
    if not about.exists():
        return
    pages = int(about.read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + more
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))


def _at_random(runner: Runner, seeds: Sequence[bytes], seed: int, cases: int) -> None:
    """Cases are made of those before that had an outcome of their own."""
    chance = random.Random(seed)
    kept = list(seeds)
    known: set[str] = set()
    for number in range(cases):
        data = runner.target.mutate(chance, chance.choice(kept), kept)[:MOST_BYTES]
        found = runner.run(data)
        if found not in known:
            known.add(found)
            if len(kept) < len(seeds) + _MOST_KEPT:
                kept.append(data)
            else:
                kept[len(seeds) + number % _MOST_KEPT] = data
        if number % 256 == 0:
            gc.collect()


def _by_coverage(runner: Runner, seeds: Sequence[bytes], seed: int, cases: int, corpus: Path) -> None:
    """Cases are made of those that reached other lines of Python before. Does not return."""
    atheris: Any = import_module("atheris")
    corpus.mkdir(parents=True, exist_ok=True)
    for data in seeds:
        (corpus / hashlib.sha256(data).hexdigest()[:16]).write_bytes(data)

    def mutate(data: bytes, max_size: int, number: int) -> bytes:
        return runner.target.mutate(random.Random(number), bytes(data), seeds)[:max_size]

    handlers = [f"-handle_{name}=0" for name in ("segv", "abrt", "bus", "ill", "fpe", "int", "term")]
    limits = ["-rss_limit_mb=0", "-malloc_limit_mb=0", "-timeout=100000", f"-max_len={MOST_BYTES}", "-len_control=0"]
    place = f"-artifact_prefix={os.environ['TMPDIR']}/"
    flags = [place, f"-runs={cases}", f"-seed={seed % 2**31 or 1}", "-verbosity=0", *handlers, *limits]
    atheris.Setup(["fuzz", *flags, str(corpus)], runner.run, custom_mutator=mutate)
    atheris.Fuzz()


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", required=True)
    parser.add_argument("--board", required=True, type=Path)
    parser.add_argument("--folder", required=True, type=Path)
    parser.add_argument("--engine", required=True, choices=("random", "atheris"))
    parser.add_argument("--seed", required=True, type=int)
    parser.add_argument("--cases", required=True, type=int)
    parser.add_argument("--memory", required=True, type=int)
    parser.add_argument("--seconds", required=True, type=float)
    given = parser.parse_args(arguments)
    faulthandler.enable()
    warnings.simplefilter("error")
    if given.engine == "atheris":
        atheris: Any = import_module("atheris")
        with warnings.catch_warnings(), atheris.instrument_imports(include=["edgemem", "edgemem_converters"]):
            warnings.simplefilter("ignore")
            target = load_target(given.target)
    else:
        target = load_target(given.target)
    seeds = target.seeds()
    for data in seeds:  # what is imported late is imported now
        outcome(target, data)
    runner = Runner(given.target, target, Board(given.board), given.folder, given.seconds)
    _limit_memory(given.memory)
    if given.engine == "atheris":
        _by_coverage(runner, seeds, given.seed, given.cases, given.folder / "corpus" / given.target)
    else:
        _at_random(runner, seeds, given.seed, given.cases)


if __name__ == "__main__":
    main()
