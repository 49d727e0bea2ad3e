"""Decoding token by token with a cache that grows: a planned session against ONNX Runtime, step by step.

python tests/bench/serving/decode.py [--models FOLDER] [--tokens 200] [--threads 1] [--quick] [NAME ...]

Both sessions run every step in one process, and which goes first changes with each step. The cache is fed as numpy
arrays, as a program without IO bindings does. The results of every step are compared bit for bit.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[3]))

import numpy as np

from tests.bench.serving import served, sessions, subjects
from tests.bench.serving.checks import Checks
from tests.bench.serving.decoders import decoder

NAMES = ("decoder_gpt2_124m", "decoder_llama_135m")
WARM = 8  # tokens that do not count
SLOWER, PLANS = 1.02, 12


def decode(name: str, path: Path, tokens: int, threads: int, cache: Path, checks: Checks) -> None:
    """One model: a line of figures, and its checks."""
    plain, planned = sessions.plain(path, threads), sessions.planned(path, threads, cache=cache)
    feeds = start(plain)
    names = [o.name for o in plain.get_outputs()]
    seconds: dict[str, list[float]] = {"plain": [], "planned": []}
    equal = True
    for step in range(tokens):
        results: dict[str, Any] = {}
        ways = [("plain", plain), ("planned", planned)]
        for way, session in ways if step % 2 else reversed(ways):
            began = time.perf_counter()
            results[way] = session.run(None, feeds)
            seconds[way].append(time.perf_counter() - began)
        equal &= sessions.same(results["plain"], results["planned"])
        feeds = following(feeds, dict(zip(names, results["plain"], strict=True)))
        del results
    sessions.wait_for_plan(planned)
    files = sum(f.is_file() for f in cache.rglob("*"))
    memory = planned.memory
    counted = {way: times[WARM:] for way, times in seconds.items()}
    ratio = served.time_ratio(counted["plain"], counted["planned"])
    middle = median(b / a for a, b in zip(counted["plain"], counted["planned"], strict=True))
    each = {way: sum(times) / len(times) * 1e3 for way, times in counted.items()}
    print(
        f"\n{name}: {tokens} tokens, {threads} threads; ms a token {each['plain']:.2f} plain, {each['planned']:.2f} "
        f"planned; median of the ratios {middle:.3f}; first token {seconds['plain'][0] * 1e3:.1f} / "
        f"{seconds['planned'][0] * 1e3:.1f} ms; worst {max(counted['planned']) * 1e3:.1f} ms; "
        f"{memory.replayed} of {memory.runs} runs replayed, {memory.bails} left their plan"
    )
    checks.holds(f"{name}: equal results at every step", equal)
    checks.at_most(f"{name}: time of a token after the first {WARM} against ONNX Runtime's", ratio, SLOWER)
    checks.at_most(f"{name}: plans made", memory.replans + 1.0, PLANS)
    checks.at_most(f"{name}: files in the cache", float(files), PLANS)
    planned.close()


def start(session: Any) -> sessions.Feeds:
    """The first step: one token, an empty past."""
    feeds = sessions.feeds_for(session, {"sequence": 1, "past": 0, "past_sequence": 0, "total": 1})
    return {name: value if "past" not in name else value[:, :, :0] for name, value in feeds.items()}


def following(feeds: sessions.Feeds, results: sessions.Feeds) -> sessions.Feeds:
    """The next step: the likeliest token, with the present as its past."""
    made = dict(feeds)
    made["input_ids"] = results["logits"][:, -1:].argmax(-1).astype(np.int64)
    for name in feeds:
        present = name.replace("past_key_values", "present").replace("past", "present")
        if present != name:
            made[name] = results[present]
    if "attention_mask" in feeds:
        made["attention_mask"] = np.ones((1, feeds["attention_mask"].shape[1] + 1), np.int64)
    if "position_ids" in feeds:
        made["position_ids"] = feeds["position_ids"] + 1
    return made


def main() -> None:
    """Print a paragraph a model."""
    parser = subjects.arguments(__doc__)
    parser.add_argument("name", nargs="*")
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="edgemem-") as folder:
        work = Path(folder)
        files = subjects.exported(args.models, args.name or NAMES)
        if args.models is None:
            files = {"built": decoder(work / "built.onnx", layers=2 if args.quick else 8)}
        for name, path in files.items():
            cache = work / f"cache-{name}"
            cache.mkdir()
            decode(name, path, 40 if args.quick else args.tokens, args.threads, cache, checks)
    checks.end()


if __name__ == "__main__":
    main()
