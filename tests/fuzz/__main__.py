"""The command line of the fuzzers: `python -m tests.fuzz --help`."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from tests.fuzz.cases import TARGETS, load_target, outcome
from tests.fuzz.watch import Engine, Limits, fuzz


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--target", default="all", choices=("all", *TARGETS))
    parser.add_argument("--minutes", type=float, default=1.0, help="for each target (default 1)")
    parser.add_argument("--cases", type=int, default=2**31 - 1, help="end after so many cases of a target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--engine",
        choices=("random", "atheris"),
        default="atheris" if find_spec("atheris") else "random",
        help="atheris follows which lines were reached (pip install atheris); default where it is installed",
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="of processor time for a case (default 10)")
    parser.add_argument("--memory", type=int, default=1024, help="MiB for a case (default 1024)")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path(tempfile.gettempdir()) / "edgemem-fuzz",
        help="folder for what is found (default: edgemem-fuzz in the folder for temporary files)",
    )
    parser.add_argument("--repeat", type=Path, help="run one case again, in this process")
    return parser.parse_args()


def main() -> int:
    given = _arguments()
    if given.repeat:
        begin = time.process_time()
        print(outcome(load_target(given.target), given.repeat.read_bytes()))
        print(f"{time.process_time() - begin:.2f} s")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # which ends the process that runs cases, too
    found = 0
    engine: Engine = given.engine
    limits = Limits(given.seconds, given.memory << 20)
    for name in TARGETS if given.target == "all" else (given.target,):
        made = fuzz(
            name,
            given.out,
            seconds=60 * given.minutes,
            cases=given.cases,
            engine=engine,
            seed=given.seed,
            limits=limits,
        )
        minutes, peak = made.seconds / 60, made.peak / 2**20
        print(f"{name}: {made.cases:,} cases in {minutes:.1f} minutes ({engine}), {made.restarts} restarts", flush=True)
        print(f"  slowest {made.slowest:.2f} s, {peak:.0f} MiB at most, {len(made.findings)} findings", flush=True)
        for path in made.findings:
            print(f"  {path}")
        found += len(made.findings)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
