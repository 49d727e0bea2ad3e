"""How far plans of training are from the lower bound, and how long planning takes.

python tests/bench/training/planner.py [--auto] [NAME ...]

Prints a Markdown table for the setups of tests/training_traces: events of one iteration, records of its static
requests, the bound, and for each strategy the arena / bound with the processor seconds of one core. With --auto also
what `auto` makes of it (`edgemem.planning.make_plans`), and its seconds by the clock.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import Final

sys.path.append(str(Path(__file__).resolve().parents[3]))

from edgemem.planning import make_plans
from edgemem.strategy.catalogue import registered
from edgemem.trace.cycle import Cycle
from tests.training_traces.traces import SETUPS, training_trace

ALIGNMENT: Final = 512
STRATEGIES: Final[dict[str, dict[str, str]]] = {
    "greedy_by_size": {},
    "search": {"effort": "fast"},
    "spatio_temporal": {},
    "spatio_temporal rules=paper": {"rules": "paper"},
}


def main() -> None:
    """A line for each setup."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="setups; all by default")
    parser.add_argument("--auto", action="store_true", help="run auto as well")
    given = parser.parse_args()
    by_name = {strategy.name: strategy for strategy in registered("offsets")}
    heads = ["setup", "events", "records", "bound MiB", *STRATEGIES, *(["auto"] if given.auto else [])]
    print("| " + " | ".join(heads) + " |")
    print("|---|" + "--:|" * (len(heads) - 1))
    for name in given.names or SETUPS:
        cycle = Cycle.of(training_trace(SETUPS[name]), by_stream=True)
        problem, _ = cycle.problem(ALIGNMENT)
        bound = cycle.lower_bound(ALIGNMENT)
        cells = [name, f"{cycle.length:,}", f"{len(problem):,}", f"{bound / (1 << 20):,.0f}"]
        for label, options in STRATEGIES.items():
            begin = time.process_time()
            found = by_name[label.partition(" ")[0]].solve(problem, **options)
            seconds = time.process_time() - begin
            cells.append(f"{int((found.values + problem.size).max()) / bound:.4f} in {seconds:.2f} s")
        if given.auto:
            begin = time.perf_counter()
            best = make_plans(problem, families=("offsets",)).best_offsets
            assert best is not None
            cells.append(f"{best.size / bound:.4f} {best.strategy} in {time.perf_counter() - begin:.1f} s")
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
