"""A short run of every fuzzer with the same cases every time. `python -m tests.fuzz` looks further."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.cases import MOST_BYTES, TARGETS, load_target, outcome

# Cases of each target: about two seconds of work.
CASES = {
    "onnx": 300,
    "tflite": 1000,
    "plan": 4000,
    "embedded": 80,
    "csv": 700,
    "toml": 1000,
    "snapshot": 500,
    "trace": 100,
    "log": 400,
    "report": 3000,
    "cache": 200,
    "kernels": 8000,
}


@pytest.mark.full
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", TARGETS)
def test_nothing_but_allowed_errors_comes_of_it(name: str) -> None:
    target, chance = load_target(name), random.Random(name)
    kept = list(target.seeds())
    known = {outcome(target, data) for data in kept}
    assert known
    for _ in range(CASES[name]):
        data = target.mutate(chance, chance.choice(kept), kept)[:MOST_BYTES]
        found = outcome(target, data)
        if found not in known:
            known.add(found)
            kept.append(data)
    # Cases reach something else than the first check, and some are read to the end.
    assert "ok" in known
    assert len(known) > 10 or not target.allowed, known
