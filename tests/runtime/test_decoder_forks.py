"""Forks of a decoder's state: their tokens are those of states that decoded everything, in memory that they share."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest

import edgemem
from edgemem.errors import BudgetExceededError, RuntimeBindError
from edgemem.formats import load_model
from edgemem.runtime.onnxruntime.cache_memory import page_spans, page_total
from edgemem_converters.onnx.model import OnnxConverter
from models.decoder import Sizes, decoder
from tests.decoders import plain_session

if TYPE_CHECKING:
    from numpy.typing import NDArray

SIZES = Sizes(layers=2, heads=4, groups=2, width=64, positions=512)
ROW = 2 * 2 * 2 * 64 * 4  # bytes of a token: caches of a layer x layers x heads x width x bytes of a number
COMMON = np.random.default_rng(3).integers(0, 40, (1, 37))
TAILS = [np.random.default_rng(4 + k).integers(0, 40, (1, 5 + k)) for k in range(3)]


def session_of(form: Any, folder: Path, *, placed: bool) -> tuple[Any, Any]:
    """A session whose caches are placed or not, and one of the model as it was exported."""
    model = decoder(form, SIZES)
    onnx.save(model, folder / "decoder.onnx")
    if placed:
        opened = load_model(folder / "decoder.onnx")
        assert isinstance(opened, OnnxConverter)
        opened.with_states(opened.states({})).save(folder / "placed.onnx")
    return plain_session(str(folder / "placed.onnx") if placed else model), plain_session(model)


def alone(session: Any, *tokens: NDArray[Any]) -> NDArray[Any]:
    """The logits of the last of these tokens, by a state that nothing is shared with."""
    with edgemem.DecoderState(session, 200) as state:
        return [state.step(part) for part in tokens][-1]


@pytest.mark.parametrize("placed", [True, False])
@pytest.mark.parametrize("form", ["concat", "concat_bsnh"])
def test_forks_go_on_as_if_each_had_decoded_all_tokens(form: Any, *, placed: bool, tmp_path: Path) -> None:
    session, plain = session_of(form, tmp_path, placed=placed)
    state = edgemem.DecoderState(session, 200)
    state.fill(0xFF)
    state.step(COMMON)
    forks = [state.fork() for _ in TAILS]
    assert all(fork.length == COMMON.shape[1] for fork in forks)
    for tail, fork in zip(TAILS, forks, strict=True):
        assert np.array_equal(fork.step(tail), alone(plain, COMMON, tail))
    assert np.array_equal(state.step([7]), alone(plain, COMMON, np.array([[7]])))
    grandchild = forks[0].fork()  # of tokens of its own behind those that it shares
    state.reset()
    forks[1].close()
    for fork in (forks[0], grandchild):
        assert np.array_equal(fork.step([9]), alone(plain, COMMON, TAILS[0], np.array([[9]])))
    assert np.array_equal(state.step(COMMON), alone(plain, COMMON))
    assert np.array_equal(forks[2].step([1, 2]), alone(plain, COMMON, TAILS[2], np.array([[1, 2]])))


def test_forks_of_a_planned_session_and_of_a_state_without_tokens(tmp_path: Path) -> None:
    session_of("concat", tmp_path, placed=True)
    plain = plain_session(decoder("concat", SIZES))
    with edgemem.InferenceSession(str(tmp_path / "placed.onnx"), cache=False) as session:
        state = edgemem.DecoderState(session, 200, chunk=40)
        state.warm_up()
        other = state.fork()
        state.step(COMMON)
        fork = state.fork()
        for tail in TAILS:
            again = fork.fork()
            assert np.array_equal(again.step(tail), alone(plain, COMMON, tail))
        assert np.array_equal(other.step(TAILS[0]), alone(plain, TAILS[0]))


def test_forks_share_a_temporary_file_where_there_is_no_memfd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create", raising=False)
    session, plain = session_of("concat", tmp_path, placed=True)
    state = edgemem.DecoderState(session, 200)
    state.step(COMMON)
    forks = [state.fork() for _ in TAILS]
    for tail, fork in zip(TAILS, forks, strict=True):
        assert np.array_equal(fork.step(tail), alone(plain, COMMON, tail))


def test_the_report_says_what_is_shared(tmp_path: Path) -> None:
    session, _ = session_of("concat", tmp_path, placed=True)
    state = edgemem.DecoderState(session, 200)
    state.step(COMMON)
    assert state.report.shared == 0
    fork = state.fork()
    fork.step([1, 2])
    assert fork.report.used == 39 * ROW
    assert fork.report.shared == state.report.shared == 37 * ROW
    assert f"{37 * ROW / 1024:.2f} KiB of it shared" in str(fork.report)
    fork.reset()
    assert fork.report.shared == 0
    state.close()
    with pytest.raises(RuntimeBindError, match="closed"):
        state.fork()


@pytest.mark.parametrize("placed", [True, False])
def test_a_budget_holds_for_all_forks_and_its_error_says_what_is_needed(*, placed: bool, tmp_path: Path) -> None:
    """Each of 8 buffers of a head of a cache takes whole pages: 16 rows of 256 bytes are one."""
    session, plain = session_of("concat", tmp_path, placed=placed)
    limit = 1 << 20
    root = edgemem.DecoderState(session, 200, max_bytes=limit)
    states, said = [], None
    for _ in range(40):
        state = root.fork()
        try:
            made = state.step(COMMON)
        except BudgetExceededError as e:
            said = e
            break
        assert np.array_equal(made, alone(plain, COMMON))
        states.append(state)
    assert said is not None
    one = 37 * ROW if placed else 2 * 37 * ROW
    assert len(states) * one <= limit < said.required <= limit + 3 * one
    assert said.available == limit
    assert "a state of 37 tokens takes" in str(said)
    assert "max_bytes is 1.00 MiB: close or reset other states" in str(said)
    assert state.length == 0
    with pytest.raises(BudgetExceededError):
        state.step(COMMON)
    states.pop().close()
    assert np.array_equal(state.step(COMMON), alone(plain, COMMON))  # what the closed one had is free
    del states
    assert np.array_equal(root.step(COMMON), alone(plain, COMMON))  # so is what nobody refers to


def test_a_common_prompt_counts_once(tmp_path: Path) -> None:
    session, plain = session_of("concat", tmp_path, placed=True)
    prompt = np.tile(COMMON, 4)
    root = edgemem.DecoderState(session, 200, max_bytes=4 * 148 * ROW)
    root.step(prompt)
    forks = [root.fork() for _ in range(12)]  # 12 prompts would be 3 times the budget
    for number, fork in enumerate(forks):
        assert np.array_equal(fork.step([number]), alone(plain, prompt, np.array([[number]])))
    with edgemem.DecoderState(session, 200, max_bytes=148 * ROW * 3 // 2) as small:
        small.step(prompt)
        with pytest.raises(BudgetExceededError, match="sharing the tokens of a state takes"):
            small.fork()
        assert np.array_equal(small.step([0]), alone(plain, prompt, np.array([[0]])))


def test_pages_of_spans_are_those_of_every_byte() -> None:
    rng = np.random.default_rng(5)
    for _ in range(200):
        cuts = np.sort(rng.integers(0, 12 * mmap.PAGESIZE, 2 * rng.integers(1, 9)))
        spans = cuts.reshape(-1, 2)
        pages = {byte // mmap.PAGESIZE for begin, end in spans.tolist() for byte in range(begin, end, 64)}
        pages |= {(end - 1) // mmap.PAGESIZE for begin, end in spans.tolist() if begin < end}
        made = page_spans([spans[:2], spans[2:]])
        assert {k for b, e in made.tolist() for k in range(b // mmap.PAGESIZE, e // mmap.PAGESIZE)} == pages
        assert page_total([spans]) == len(pages) * mmap.PAGESIZE
        assert (made[1:, 0] > made[:-1, 1]).all()


_MEMORY = """
import sys
import numpy as np
from pathlib import Path
import edgemem
from tests.decoders import plain_session

def pss():
    line = next(l for l in Path("/proc/self/smaps_rollup").read_text().splitlines() if l.startswith("Pss:"))
    return int(line.split()[1]) * 1024

session = plain_session(sys.argv[1])
root = edgemem.DecoderState(session, 2000, chunk=64)
prompt = np.ones((1, 960), np.int64)
root.step(prompt)
with root.fork() as warm:
    warm.step([1])
states = [root.fork() if sys.argv[2] == "fork" else edgemem.DecoderState(session, 2000, chunk=64) for _ in range(8)]
before = pss()
for state in states:
    state.step([1] if sys.argv[2] == "fork" else prompt)
print(pss() - before)
"""


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="no /proc here")
def test_eight_forks_take_the_memory_of_their_own_tokens(tmp_path: Path) -> None:
    model = decoder("concat", Sizes(layers=4, heads=8, groups=8, width=64, positions=2048))
    onnx.save(model, tmp_path / "decoder.onnx")
    opened = load_model(tmp_path / "decoder.onnx")
    assert isinstance(opened, OnnxConverter)
    opened.with_states(opened.states({})).save(tmp_path / "placed.onnx")
    took = {}
    for how in ("fork", "anew"):
        command = [sys.executable, "-c", _MEMORY, str(tmp_path / "placed.onnx"), how]
        made = subprocess.run(
            command, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[2], env=dict(os.environ)
        )
        took[how] = int(made.stdout)
    prompt = 960 * 4 * 2 * 8 * 64 * 4
    assert took["anew"] > 7.5 * prompt
    assert took["fork"] < 1.2 * prompt
