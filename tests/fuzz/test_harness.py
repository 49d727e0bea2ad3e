"""The harness itself: what should not be is kept, one file a case, and the run goes on."""

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING

import pytest

from tests.fuzz import cases
from tests.fuzz.findings import record
from tests.fuzz.mutation import mutate_bytes, mutate_text
from tests.fuzz.watch import Limits, fuzz

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the peak of a process")
def test_a_crash_a_hang_and_too_much_memory_end_a_process_and_not_the_run(tmp_path: Path) -> None:
    # With this seed every sort of case comes soon.
    made = fuzz("faulty", tmp_path, seconds=300, cases=5, seed=11, limits=Limits(seconds=0.3, memory=1 << 28))
    kinds = {path.name.split("-")[1]: path for path in made.findings}
    assert set(kinds) == {"foreign", "crash", "hang", "memory"}
    for kind, path in kinds.items():
        assert path.with_suffix(".bin").read_bytes() == kind.encode()
        assert path.read_text().startswith(f"{kind}: ")
    assert "KeyError: 'something'" in kinds["foreign"].read_text()
    assert "Segmentation fault" in kinds["crash"].read_text()
    assert "faulty.py" in kinds["hang"].read_text()
    assert "MemoryError" in kinds["memory"].read_text()
    assert made.cases == 5
    assert made.restarts >= 3


def test_a_few_cases_of_each_sort_are_kept(tmp_path: Path) -> None:
    text = 'Traceback\n  File "/x/edgemem/api.py", line 3, in load\nKeyError: {}'
    kept = [record(tmp_path, "onnx", "foreign", text.format(k), bytes([k])) for k in range(5)]
    assert [path is not None for path in kept] == [True] * 3 + [False] * 2
    assert record(tmp_path, "onnx", "foreign", text.replace("3", "4"), b"") is not None
    assert record(tmp_path, "onnx", "crash", text, b"") is not None


def test_cases_depend_on_the_seed_alone() -> None:
    def some(seed: int) -> list[bytes]:
        chance = random.Random(seed)
        made = [mutate_bytes(chance, b"0123456789abcdef", [b"other"]) for _ in range(50)]
        return made + [mutate_text(chance, b"a,b\nc = 4\n", [b"x"], ("word",)) for _ in range(50)]

    assert some(1) == some(1) != some(2)
    assert len(set(some(1))) > 80


@pytest.mark.parametrize("name", cases.TARGETS)
def test_targets_say_what_they_are(name: str) -> None:
    target = cases.load_target(name)
    assert target.seeds() == target.seeds()
    chance = random.Random(0)
    assert all(isinstance(target.mutate(chance, data, [data]), bytes) for data in target.seeds())
