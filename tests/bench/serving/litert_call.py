"""What a call of edgemem's interpreter costs beside one of LiteRT's, both in one process and by turns.

    python tests/bench/serving/litert_call.py [--rounds 2000] [MODEL.tflite ...]

One row a model and choice of kernels: the median microseconds of `invoke()`, their ratio, and the median of the
differences round by round (which of the two goes first changes each round). Without arguments: generated models.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[3]))

from ai_edge_litert.interpreter import Interpreter as LiteRT
from ai_edge_litert.interpreter import OpResolverType

import edgemem

KERNELS = {"builtin": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES, "XNNPACK": OpResolverType.BUILTIN}
_ROUND_S = 0.0002  # about how long each takes in a round: short, so that most rounds are not interrupted


def _prepared(make: Any, model: Path, kernels: str) -> Any:
    interpreter = make(str(model), experimental_op_resolver_type=KERNELS[kernels])
    interpreter.allocate_tensors()
    for details in interpreter.get_input_details():
        value = interpreter.get_tensor(details["index"])
        value[...] = 1
        interpreter.set_tensor(details["index"], value)
    interpreter.invoke()
    return interpreter


def _time_us(interpreter: Any, calls: int) -> float:
    invoke = interpreter.invoke
    begin = time.perf_counter_ns()
    for _ in range(calls):
        invoke()
    return (time.perf_counter_ns() - begin) / calls / 1e3


def _row(model: Path, kernels: str, rounds: int) -> None:
    plain, ours = _prepared(LiteRT, model, kernels), _prepared(edgemem.Interpreter, model, kernels)
    calls = max(1, int(_ROUND_S * 1e6 / _time_us(plain, 5)))
    times: tuple[list[float], list[float]] = ([], [])
    for number in range(rounds):
        order = ((0, plain), (1, ours))
        for which, interpreter in order if number % 2 else reversed(order):
            times[which].append(_time_us(interpreter, calls))
    theirs, mine = (statistics.median(column) for column in times)
    difference = statistics.median(b - a for a, b in zip(*times, strict=True))
    ratio = statistics.median(b / a for a, b in zip(*times, strict=True))
    places = len(ours.layout.places) if ours.layout is not None else 0
    print(f"{model.stem:28}{kernels:>9}{places:7}{theirs:12.2f}{mine:12.2f}{ratio:9.3f}{difference:12.2f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=2000)
    arguments = parser.parse_args()
    print(f"{'model':28}{'kernels':>9}{'placed':>7}{'LiteRT us':>12}{'edgemem us':>12}{'ratio':>9}{'difference':>12}")
    with tempfile.TemporaryDirectory() as name:
        models = arguments.models
        if not models:
            from tests.runtime.litert_models import MODELS

            for model in ("many", "lstm", "variables", "where"):
                models.append(Path(name, f"{model}.tflite"))
                models[-1].write_bytes(MODELS[model]())
        for model in models:
            for kernels in KERNELS:
                _row(model, kernels, arguments.rounds)


if __name__ == "__main__":
    main()
