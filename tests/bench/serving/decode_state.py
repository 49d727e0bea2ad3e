"""Memory of a decoder's caches, and milliseconds a token: ONNX Runtime as it is used against DecoderState.

    python tests/bench/serving/decode_state.py decoder.onnx [--tokens 200] [--prompt 256] [--threads 1] [--planned]

    numpy      past and present are arrays that session.run takes and gives
    ortvalue   they are OrtValues that run_with_ort_values takes and gives
    in turn    DecoderState on the file as it was exported: two buffers of fixed capacity
    in place   DecoderState on the file that `edgemem plan --state auto` wrote: one buffer

`cache` is the growth of the process's resident memory from after the first token of a short prompt to its peak in a
decode loop of the long one, in a fresh process each. Times are of loops that take turns token by token, in one process.
With --planned the last two run in edgemem.InferenceSession, after a warm-up, instead of onnxruntime.InferenceSession.
"""

from __future__ import annotations

import argparse
import gc
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

import edgemem
from edgemem.runtime.onnxruntime.decoder import DecoderState

WAYS = ("numpy", "ortvalue", "in turn", "in place")
MIB = 1 << 20


def session_of(path: Path, threads: int, *, planned: bool) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    made = edgemem.InferenceSession if planned else onnxruntime.InferenceSession
    return made(str(path), options, providers=["CPUExecutionProvider"])


class Plain:
    """Greedy decoding as one writes it: what a run gave as present is the next run's past."""

    def __init__(self, session: Any, *, values: bool) -> None:
        self.session, self.values = session, values
        pasts = [i for i in session.get_inputs() if i.name.startswith("past")]
        self.names = [i.name for i in pasts]
        self.outputs = [o.name for o in session.get_outputs()]
        empty = [np.zeros((1, i.shape[1], 0, i.shape[3]), np.float32) for i in pasts]
        self.past = [onnxruntime.OrtValue.ortvalue_from_numpy(v) if values else v for v in empty]
        self.length = 0

    def step(self, ids: np.ndarray) -> np.ndarray:
        self.length += ids.shape[1]
        feeds: dict[str, Any] = {"input_ids": ids, "attention_mask": np.ones((1, self.length), np.int64)}
        if self.values:
            feeds = {name: onnxruntime.OrtValue.ortvalue_from_numpy(value) for name, value in feeds.items()}
        feeds |= dict(zip(self.names, self.past, strict=True))
        if self.values:
            made = self.session.run_with_ort_values(self.outputs, feeds)
            logits = made[0].numpy()
        else:
            made = self.session.run(self.outputs, feeds)
            logits = made[0]
        self.past = made[1:]
        return np.asarray(logits[:, -1])


def stepper(way: str, path: Path, args: argparse.Namespace, session: Any = None) -> Any:
    if way in ("numpy", "ortvalue"):
        return Plain(session or session_of(path, args.threads, planned=False), values=way == "ortvalue")
    session = session or session_of(path, args.threads, planned=args.planned)
    state = DecoderState(session, args.prompt + args.tokens + 8, chunk=64)
    if args.planned:
        state.warm_up()
    return state


def status(key: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))


def prompt_of(count: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (1, count))


def memory(way: str, path: Path, args: argparse.Namespace) -> dict[str, Any]:
    session = session_of(path, args.threads, planned=args.planned and way not in ("numpy", "ortvalue"))
    state = stepper(way, path, args, session)
    for _ in range(8):
        state.step(prompt_of(1))
    del state
    gc.collect()
    state = stepper(way, path, args, session)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = status("VmRSS:")
    ids, tokens = prompt_of(args.prompt), []
    for begin in range(0, args.prompt, 64):
        logits = state.step(ids[:, begin : begin + 64])
    for _ in range(args.tokens):
        tokens.append(int(logits.argmax()))
        logits = state.step(np.array([[tokens[-1]]]))
    return {"growth": status("VmHWM:") - before, "rss": status("VmRSS:") - before, "tokens": tokens}


def times(paths: dict[str, Path], args: argparse.Namespace) -> dict[str, list[float]]:
    sessions = {
        key: session_of(paths[key[0]], args.threads, planned=key[1])
        for key in {(w, args.planned and w.startswith("in ")) for w in ("numpy", "in turn", "in place")}
    }

    def session(way: str) -> Any:
        return sessions["numpy" if way == "ortvalue" else way, args.planned and way.startswith("in ")]

    states = {way: stepper(way, paths[way], args, session(way)) for way in WAYS}
    spent: dict[str, list[float]] = {way: [] for way in WAYS}
    prompt = prompt_of(args.prompt)
    last = (args.prompt - 1) // 64 * 64  # where the last chunk begins
    for begin in range(0, last, 64):
        for way in WAYS:
            states[way].step(prompt[:, begin : begin + 64])
    following = dict.fromkeys(WAYS, prompt[:, last:])
    for number in range(args.tokens):
        order = WAYS[number % 4 :] + WAYS[: number % 4]
        for way in order:
            started = time.perf_counter()
            logits = states[way].step(following[way])
            spent[way].append(time.perf_counter() - started)
            following[way] = logits.argmax(-1).reshape(1, 1)
    return spent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model", type=Path)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--planned", action="store_true")
    parser.add_argument("--no-times", action="store_true")
    parser.add_argument("--child")
    args = parser.parse_args()
    if args.child:
        print(json.dumps(memory(args.child, args.model, args)))
        return
    with tempfile.TemporaryDirectory() as folder:
        placed = Path(folder) / "placed.onnx"
        sys.stderr.write("planning\n")
        command = [sys.executable, "-m", "edgemem", "plan", str(args.model), "--state", "auto", "-o", str(placed)]
        sizes = ["batch=1", "sequence=1", "total=64"]
        command += [part for size in sizes for part in ("--dim", size)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        paths = {way: placed if way == "in place" else args.model for way in WAYS}
        made = {}
        for way in WAYS:
            sys.stderr.write(f"{way}\n")
            own = [sys.executable, __file__, str(paths[way]), "--child", way, *sys.argv[2:]]
            made[way] = json.loads(subprocess.run(own, check=True, capture_output=True, text=True).stdout)
        spent = {} if args.no_times else times(paths, args)
    with_rows = session_sizes(args.model, args.prompt + args.tokens)
    print(f"{args.model.name}: {args.prompt} + {args.tokens} tokens, caches {with_rows / MIB:.1f} MiB at the end")
    print(f"{'':10}{'cache MiB':>11}{'of numpy':>10}{'of ortvalue':>13}{'ms/token':>10}{'of numpy':>10}  tokens")
    for way in WAYS:
        growth = made[way]["growth"]
        ratios = [growth / made[other]["growth"] for other in ("numpy", "ortvalue")]
        same = "same" if made[way]["tokens"] == made["numpy"]["tokens"] else "OTHER"
        line = f"{way:10}{growth / MIB:11.1f}{ratios[0]:10.2f}{ratios[1]:13.2f}"
        if spent:
            ratio = np.median(np.array(spent[way][8:]) / np.array(spent["numpy"][8:]))
            line += f"{np.median(spent[way][8:]) * 1e3:10.2f}{ratio:10.3f}"
        print(f"{line}  {same}")


def session_sizes(path: Path, rows: int) -> int:
    session = session_of(path, 1, planned=False)
    return sum(int(i.shape[1] * i.shape[3]) * rows * 4 for i in session.get_inputs() if i.name.startswith("past"))


if __name__ == "__main__":
    main()
