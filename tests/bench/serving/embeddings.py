"""An embedding server: a sentence encoder under requests of random lengths and batches, on several threads.

python tests/bench/serving/embeddings.py [--requests 20000] [--clients 8] [--threads 2] [--cap 1.0] [--quick]

Every way has a process of its own (embeddings_child.py), and the same requests in the same order: most sentences are
short, few are long, as in hours of traffic. The anonymous memory above that of the loaded session, after a malloc_trim,
is read ten times on the way; the resident memory, of which pages of libraries are a part, at the end. `need` is what is
alive at once in a run of the largest request. `capped` is a session with max_bytes, so that runs take turns; `arenas`
has an arena for each processor. `shrunk` is as `arenas`, of the model as `edgemem shrink` changes it for any request:
the heads of attention run one after the other.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[3]))

import edgemem
from tests.bench.serving import subjects
from tests.bench.serving.checks import Checks
from tests.bench.serving.children import child_output
from tests.bench.serving.embeddings_child import MOST_BATCH, MOST_LENGTH
from tests.bench.serving.encoder import encoder

WAYS = ("plain", "tuned", "arenas", "capped", "shrunk")
STEPS = "optimize=all,split=11:13:4/1+33:35:4/1"  # of its graph, the ones that `edgemem shrink` finds
MOST_OF_NEED = 1.1
FLAT_MIB = 1.0  # between the middle and the end


def main() -> None:
    """Print the table and what holds."""
    parser = subjects.arguments(__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--cap", type=float, default=1.0, help="max_bytes of the capped way, in needs")
    args = parser.parse_args()
    if args.quick:
        args.requests, args.clients = 400, 4
    checks = Checks()
    rows: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory(prefix="edgemem-") as folder:
        path = encoder(Path(folder) / "encoder.onnx")
        dims = {"batch": f"1..{MOST_BATCH}", "sequence": f"1..{MOST_LENGTH}"}
        edgemem.shrink(path, dims=dims, steps=STEPS, outputs="identical").save(shrunk := Path(folder) / "shrunk.onnx")
        need = int(child_output("embeddings_child.py", path, "need", args.threads, 0, 0, 0))
        print(f"need {need / 2**20:.2f} MiB, {args.requests:,} requests, {args.clients} clients")
        print("anonymous memory above the loaded session, MiB")
        print("way      a second  " + " ".join(f"{10 * k:>6}%" for k in range(1, 11)) + "  resident   peak")
        for way in WAYS:
            row = rows[way] = json.loads(
                child_output(
                    "embeddings_child.py",
                    shrunk if way == "shrunk" else path,
                    way,
                    args.threads,
                    args.requests,
                    args.clients,
                    int(need * args.cap),
                )
            )
            grown = " ".join(f"{size / 2**20:7.1f}" for size in row["grown"])
            rest = f"{row['resident'] / 2**20:10.1f}{row['peak'] / 2**20:7.1f}"
            print(f"{way:8} {row['rate']:8.0f}  {grown}{rest}", flush=True)
    digests = {row["digest"] for row in rows.values()}
    checks.holds("every way: the same bits", len(digests) == 1)
    grown = rows["capped"]["grown"]
    checks.at_most("capped: anonymous growth / need", grown[-1] / need, MOST_OF_NEED)
    checks.at_most("capped: anonymous growth from the middle to the end, MiB", (grown[-1] - grown[4]) / 2**20, FLAT_MIB)
    checks.at_most("shrunk: anonymous growth / need", rows["shrunk"]["grown"][-1] / need, MOST_OF_NEED)
    for way in ("arenas", "capped", "shrunk"):
        checks.at_least(f"{way}: rate / tuned", rows[way]["rate"] / rows["tuned"]["rate"], 1.0)
    checks.end()


if __name__ == "__main__":
    main()
