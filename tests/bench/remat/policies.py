"""What each policy of rematerialisation makes of operator logs: tables as Figures 4 to 6 and section 4.2 of Coop.

    python tests/bench/remat/policies.py [LOG ...] [--policies dtr,dte,coop] [--page docs/rematerialisation.md]

LOG is a file (.log, .log.gz, .npz); without one, the logs of DTR's prototype in `$EDGEMEM_SHARED/data/dtr_logs`.
The figures are the same on every machine.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT))

from edgemem.remat.policies import POLICIES
from tests.bench.below.page import put, table
from tests.bench.remat.budgets import cutoff_budget, minimum_budget
from tests.bench.remat.log_files import load_operator_log
from tests.bench.remat.simulation import simulate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.bench.remat.operator_log import OperatorLog
    from tests.bench.remat.simulation import Simulation

BUDGETS = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4)
MAIN = ("dtr", "dte", "coop", "coop-per-byte")
PARTS = ("coop-window", "coop-partition", "coop-in-place", "coop")


def overhead(run: Simulation) -> str:
    return f"{run.overhead * 100:.1f}" if run.is_done else {"thrashing": "thrashes"}.get(run.ended, "-")


def fragmentation(run: Simulation) -> str:
    return f"{run.fragmentation * 100:.1f}"


def latency(run: Simulation) -> str:
    return f"{run.evaluations_per_shortage:,.0f}"


def rows(
    logs: dict[str, OperatorLog], policies: Sequence[str], cell: Callable[[Simulation], str], *, borders: bool = False
) -> list[list[str]]:
    """A row for each log and policy, a column for each budget; then the minimum and the cutoff budget."""
    found = []
    for name, log in logs.items():
        for policy in policies:
            cells = [cell(simulate(log, int(log.peak * budget), policy)) for budget in BUDGETS]
            if borders:
                cells += [f"{find(log, policy) / log.peak:.3f}" for find in (minimum_budget, cutoff_budget)]
            found.append([name, f"`{policy}`", *cells])
    return found


def tables(logs: dict[str, OperatorLog], policies: Sequence[str], parts: Sequence[str]) -> dict[str, str]:
    """All tables as Markdown, by name."""
    head = ["log", "policy", *map(str, BUDGETS)]
    return {
        "logs": table(
            ["log", "calls", "values", "ms", "peak, MiB", "in place"],
            [
                [
                    name,
                    f"{len(log.cost):,}",
                    f"{len(log.size):,}",
                    f"{log.total_cost / 1e6:,.0f}",
                    f"{log.peak / 2**20:,.0f}",
                    f"{int((log.takes >= 0).sum()):,}",
                ]
                for name, log in logs.items()
            ],
        ),
        "overhead": table([*head, "minimum", "cutoff"], rows(logs, policies, overhead, borders=True)),
        "fragmentation": table(head, rows(logs, policies, fragmentation)),
        "search": table(head, rows(logs, policies, latency)),
        "parts": table([*head, "minimum", "cutoff"], rows(logs, parts, overhead, borders=True)),
        "leftmost": table(
            [*head, "minimum", "cutoff"],
            rows(logs, ("dtr-leftmost", "dte-leftmost", "coop-leftmost"), overhead, borders=True),
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="*", type=Path)
    parser.add_argument("--policies", default=",".join(MAIN), help="of the tables of all policies")
    parser.add_argument("--page", type=Path, help="write the tables into this page, too")
    given = parser.parse_args()
    folder = Path(os.environ.get("EDGEMEM_SHARED") or ROOT.parent / "shared") / "data" / "dtr_logs"
    paths = given.logs or sorted(folder.glob("*.log.gz"))
    if not paths:
        parser.error(f"no logs in {folder}; name some")
    logs = {path.name.split(".")[0]: load_operator_log(path) for path in paths}
    names = [name.strip() for name in given.policies.split(",")]
    if unknown := set(names) - set(POLICIES):
        parser.error(f"no policies {sorted(unknown)}")
    for name, text in tables(logs, names, PARTS).items():
        put(given.page, f"policies-{name}", text)


if __name__ == "__main__":
    main()
