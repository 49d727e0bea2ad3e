"""`python -m tests.torch.remat_programs [--only NAME] [--policy P] [--setting S]`: all programs, all budgets.

Each run has a process of its own, so that one that crashes or hangs is a line among others.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pickle
import signal
import sys
import time
import traceback
from collections import Counter
from typing import TYPE_CHECKING, Any

import torch

import edgemem.torch
from tests.torch.remat_programs import families
from tests.torch.remat_programs.judge import EVERYTHING, LEAST, SHARES, Outcome, Subject
from tests.torch.remat_programs.registry import PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Iterator

NONE = "no budget"


def _ran(name: str, tasks: list[tuple[str, str]], seconds: int) -> Iterator[tuple[str, str, Outcome]]:
    """Every task of a program, and what came of it; after one that ends the process, another process goes on."""
    done = 0
    while done < len(tasks):
        reader, writer = os.pipe()
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            os.close(reader)
            for stream in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)  # PyTorch may print there
            with os.fdopen(writer, "wb") as pipe:
                _work(name, tasks[done:], seconds, pipe)
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe, contextlib.suppress(EOFError):
            while True:
                ended = pickle.load(pipe)
                assert not isinstance(ended, str), f"{name} without a budget: {ended}"
                yield from ((tasks[done][0], setting, outcome) for setting, outcome in ended)
                done += 1
        _, status = os.waitpid(child, 0)
        if done < len(tasks):
            by = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "exit"
            kind = "slow" if by == "SIGALRM" else "crash"
            yield *tasks[done], Outcome(kind, f"more than {seconds} s" if kind == "slow" else by)
            done += 1


def _work(name: str, tasks: list[tuple[str, str]], seconds: int, pipe: Any) -> None:
    try:
        signal.alarm(10 * seconds)
        subject = Subject(name)
        measured = subject.measure()
    except Exception:  # noqa: BLE001 - of the program without a budget
        pickle.dump(traceback.format_exc(), pipe)
        return
    for policy, setting in tasks:
        signal.alarm(seconds)
        ended = list(subject.outcomes(policy, (setting,))) if setting != NONE else [(setting, measured)]
        pickle.dump(ended, pipe)
        pipe.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torch.remat_programs", description=__doc__)
    parser.add_argument("--only", default="", help="programs whose name has this in it")
    parser.add_argument("--policy", action="append", choices=["coop", "dtr", "dte"])
    parser.add_argument("--setting", action="append", choices=[*SHARES, EVERYTHING, LEAST])
    parser.add_argument("--seconds", type=int, default=20, help="for one run")
    parser.add_argument("--verbose", action="store_true", help="a line for what is right, too")
    arguments = parser.parse_args()
    families.load()
    torch.set_num_threads(1)
    with edgemem.torch.rematerialize():
        torch.optim.SGD([torch.randn(2)]).step()  # what PyTorch imports for it is imported once
    policies = arguments.policy or ["coop", "dtr", "dte"]
    settings = arguments.setting or [*SHARES, EVERYTHING, LEAST]
    kinds: Counter[str] = Counter()
    tasks = [("-", NONE), *((policy, setting) for policy in policies for setting in settings)]
    names = [name for name in PROGRAMS if arguments.only in name]
    start, bad = time.monotonic(), set()
    for name in names:
        for policy, setting, outcome in _ran(name, tasks, arguments.seconds):
            kinds[outcome.kind] += 1
            if not outcome.right:
                bad.add(name)
            if arguments.verbose or not outcome.right:
                print(
                    f"{name} {policy} {setting}: {outcome.kind} {outcome.detail}".replace("\n", " ")[:400], flush=True
                )
    said = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    print(f"{len(names)} programs, {len(bad)} with failures; runs: {said}; {time.monotonic() - start:.0f} s")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
