"""What the modules that a planned session needs add to the resident memory of a process with ONNX Runtime.

python tests/bench/serving/imports.py [--rounds 5] [--quick]

Every figure comes from a process of its own (imports_child.py) that has imported numpy and onnxruntime; it makes
a session, runs it once and waits for its plan, with an empty cache. First the model has no plan, so that the session
makes one; then the plan is in its file. The resident memory is read around each module as it is loaded, with its
bytecode in a cache as in an installation. The tables have the median growth of each module without the modules that it
imports itself, and when it was imported: by `edgemem.InferenceSession`, when the session was made, or by the first run
and its plan.
"""

from __future__ import annotations

import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from statistics import median

sys.path.append(str(Path(__file__).resolve().parents[3]))

from edgemem.runtime.onnxruntime.file_recording import add_recording
from tests.bench.serving import subjects
from tests.bench.serving.checks import Checks
from tests.bench.serving.children import child_output
from tests.bench.serving.sessions import feeds_for, plain

MOST_MIB = {"a session that makes its plan": 4.0, "a session that has its plan": 3.0}
SMALLEST_MIB = 0.05  # modules below it are one row


def measure(model: Path, rounds: int, folder: Path) -> dict[tuple[str, str], float]:
    """The median growth in MiB by step and module."""
    found: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for k in range(rounds + 1):
        for line in child_output("imports_child.py", model, folder / f"plans{k}", bytecode=folder).splitlines():
            step, module, size = line.split()
            if k:  # the first process fills the cache of bytecode
                found[step, module].append(int(size) / 2**20)
    return {key: median(sizes) for key, sizes in found.items()}


def show(what: str, found: dict[tuple[str, str], float], checks: Checks) -> None:
    """The table, largest modules first, and the totals."""
    print(what)
    print(f"{'MiB':>8}  step     module")
    for (step, module), size in sorted(found.items(), key=lambda item: -item[1]):
        if size >= SMALLEST_MIB:
            print(f"{size:8.2f}  {step:8} {module}")
    rest = [size for size in found.values() if size < SMALLEST_MIB]
    print(f"{sum(rest):8.2f}           {len(rest)} smaller ones")
    for step in dict.fromkeys(step for step, _ in found):
        sizes = [size for (at, _), size in found.items() if at == step]
        print(f"{sum(sizes):8.2f}  {step:8} {len(sizes)} modules")
    checks.at_most(f"{what}, MiB of all modules", sum(found.values()), MOST_MIB[what])


def main() -> None:
    """Print the table."""
    parser = subjects.arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="edgemem-") as folder:
        model = subjects.built("mobilenet_v2", Path(folder), small=args.quick)
        for what in MOST_MIB:
            show(what, measure(model, 1 if args.quick else args.rounds, Path(folder)), checks)
            add_recording(model, feeds_for(plain(model)), threads=1)
    checks.end()


if __name__ == "__main__":
    main()
