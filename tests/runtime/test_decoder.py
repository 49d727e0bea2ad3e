"""Decoders whose caches lie in buffers of fixed capacity, against the same decoders run with arrays."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest

import edgemem
from edgemem.errors import RuntimeBindError
from edgemem.formats import load_model
from edgemem.model.states import StatePair
from edgemem_converters.onnx.model import OnnxConverter
from models.decoder import Sizes, decoder
from tests.decoders import greedy, plain_session

if TYPE_CHECKING:
    from numpy.typing import NDArray

PROMPT = np.random.default_rng(1).integers(0, 40, (1, 7))
FORMS = ("concat", "concat_bsnh", "gqa", "attention")


def in_place(model: onnx.ModelProto, path: Path) -> str:
    """The file that holds the model with its states in place."""
    source = path / "decoder.onnx"
    onnx.save(model, source)
    opened = load_model(source)
    assert isinstance(opened, OnnxConverter)
    opened.with_states(opened.states({})).save(path / "placed.onnx")
    return str(path / "placed.onnx")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("chunk", [1, 3, 64])
def test_two_buffers_in_turn_give_the_same_tokens(form: Any, chunk: int) -> None:
    session = plain_session(decoder(form))
    state = edgemem.DecoderState(session, 300, chunk=chunk)
    assert state.report.mode == "in turn"
    tokens, logits = greedy(session, PROMPT, 200)
    assert np.array_equal(state.generate(PROMPT, 199), tokens[:, :199])
    assert np.allclose(state.step(tokens[:, 198:199]), logits, atol=1e-5)
    assert state.length == 7 + 199


@pytest.mark.parametrize("form", ["concat", "concat_bsnh", "gqa"])
@pytest.mark.parametrize("chunk", [1, 3, 64])
def test_one_buffer_gives_the_same_tokens(form: Any, chunk: int, tmp_path: Path) -> None:
    model = decoder(form)
    state = edgemem.DecoderState(plain_session(in_place(model, tmp_path)), 300, chunk=chunk)
    assert state.report.mode == "in place"
    tokens, logits = greedy(plain_session(model), PROMPT, 200)
    assert np.array_equal(state.generate(PROMPT, 199), tokens[:, :199])
    assert np.allclose(state.step(tokens[:, 198:199]), logits, atol=1e-5)


@pytest.mark.parametrize("form", ["concat", "concat_bsnh"])
def test_a_placed_model_takes_buffers_with_room_and_caches_without_unused_rows(form: Any, tmp_path: Path) -> None:
    """As docs/llm.md says: the loop of a program that was written for the exported file runs the placed one."""
    model = decoder(form)
    before, after = plain_session(model), plain_session(in_place(model, tmp_path))
    axis = 2 if form == "concat" else 1
    inputs = [value for value in after.get_inputs() if value.name.startswith("past_key_values")]

    def caches(rows: int) -> dict[str, NDArray[np.float32]]:
        forms = ([1, *(rows if k == axis else value.shape[k] for k in (1, 2, 3))] for value in inputs)
        return {v.name: np.full(form, np.nan, np.float32) for v, form in zip(inputs, forms, strict=True)}

    def feed(tokens: NDArray[Any], done: int) -> dict[str, Any]:
        return {"input_ids": tokens, "attention_mask": np.ones((1, done + tokens.shape[1]), np.int64)}

    count, past = PROMPT.shape[1], caches(0)
    known = before.run(None, feed(PROMPT, 0) | past)
    for rows in (count, count + 5):
        for old, new in zip(known, after.run(None, feed(PROMPT, 0) | caches(rows)), strict=True):
            assert np.array_equal(old, new.take(range(count), axis) if new.ndim == 4 else new)
    for done, tokens in ((0, PROMPT), (count, PROMPT[:, :1]), (count + 1, PROMPT[:, 2:5])):
        results = [session.run(None, feed(tokens, done) | past) for session in (before, after)]
        assert all(np.array_equal(old, new) for old, new in zip(*results, strict=True))
        past = dict(zip(past, results[0][1:], strict=True))
        assert all(value.shape[axis] == done + tokens.shape[1] for value in past.values())
    with pytest.raises(Exception, match="ScatterND"):
        after.run(None, feed(PROMPT, 0) | caches(count - 1))


@pytest.mark.parametrize("form", ["concat", "concat_bsnh"])
@pytest.mark.parametrize("mask", [True, False])
def test_scattered_rows_give_the_same_logits_bit_for_bit(form: Any, *, mask: bool, tmp_path: Path) -> None:
    model = decoder(form, mask=mask)
    prompt = np.random.default_rng(2).integers(0, 40, (3, 5))
    session = plain_session(in_place(model, tmp_path))
    names = {i.name for i in session.get_inputs()}
    assert ("past_rows" in names) != mask
    placed = edgemem.DecoderState(session, 50, batch=3)
    placed.fill(0xFF)  # NaN in every row that no token is in
    turned = edgemem.DecoderState(plain_session(model), 50, batch=3)
    for tokens in (prompt, prompt[:, :1], prompt[:, 1:3]):
        assert np.array_equal(placed.logits(tokens), turned.logits(tokens))


def test_a_planned_session_decodes_the_same_tokens(tmp_path: Path) -> None:
    model = decoder()
    path = in_place(model, tmp_path)
    tokens, _ = greedy(plain_session(model), PROMPT, 60)
    with edgemem.InferenceSession(path, cache=tmp_path / "cache") as session:
        state = edgemem.DecoderState(session, 100, chunk=4)
        assert np.array_equal(state.generate(PROMPT, 60), tokens)


@pytest.mark.parametrize("placed", [True, False])
def test_prefill_and_decode_share_one_arena_after_a_warm_up(*, placed: bool, tmp_path: Path) -> None:
    """As large as the larger of the two needs, and no run is recorded or leaves the plan."""
    model = decoder()
    path = in_place(model, tmp_path) if placed else str(tmp_path / "decoder.onnx")
    onnx.save(model, tmp_path / "decoder.onnx")
    tokens, _ = greedy(plain_session(model), PROMPT, 60)
    arenas = {}
    for chunk in (1, 32):
        with edgemem.InferenceSession(path, cache=False) as session:
            state = edgemem.DecoderState(session, 100, chunk=chunk)
            state.warm_up()
            assert state.length == 0
            before = session.memory
            assert np.array_equal(state.generate(PROMPT, 60), tokens)
            after = session.memory
            assert (after.replans, after.bails) == (before.replans, before.bails)
            assert after.replayed - before.replayed == after.runs - before.runs >= 60
            assert after.arena == before.arena
            arenas[chunk] = after.planned
            with pytest.raises(RuntimeBindError, match="there are tokens in the caches"):
                state.warm_up()
    assert arenas[32] > arenas[1]
    with edgemem.InferenceSession(path, cache=False) as session:
        edgemem.DecoderState(session, 100, chunk=32).warm_up()
        assert session.memory.arena == session.memory.planned


@pytest.mark.parametrize("placed", [True, False])
def test_a_prompt_that_fills_the_caches_is_inside_the_plan_of_a_warm_up(*, placed: bool, tmp_path: Path) -> None:
    path = in_place(decoder(), tmp_path)
    path = path if placed else str(tmp_path / "decoder.onnx")
    with edgemem.InferenceSession(path, cache=False) as session:
        state = edgemem.DecoderState(session, 96, chunk=32)
        state.warm_up()
        before = session.memory
        state.step(np.arange(96) % 40)
        after = session.memory
        assert (after.replans, after.bails) == (before.replans, before.bails)
        assert after.replayed - before.replayed == 3


def test_several_sequences_share_a_session(tmp_path: Path) -> None:
    model = decoder()
    session = plain_session(in_place(model, tmp_path))
    prompts = [np.random.default_rng(k).integers(0, 40, (1, 4 + k)) for k in range(3)]
    states = [edgemem.DecoderState(session, 40) for _ in prompts]
    made: list[list[int]] = [[] for _ in prompts]
    following: list[NDArray[Any]] = list(prompts)
    for _ in range(10):
        for k, state in enumerate(states):
            following[k] = state.step(following[k]).argmax(-1)[None]
            made[k].append(int(following[k][0, 0]))
    for prompt, tokens in zip(prompts, made, strict=True):
        assert tokens == greedy(plain_session(model), prompt, 10)[0][0].tolist()


@pytest.mark.parametrize("placed", [True, False])
def test_a_full_cache_is_an_error_and_a_reset_one_starts_anew(*, placed: bool, tmp_path: Path) -> None:
    model = decoder()
    state = edgemem.DecoderState(plain_session(in_place(model, tmp_path) if placed else model), 9)
    first = state.step(PROMPT)
    state.step([3])
    with pytest.raises(RuntimeBindError, match="hold 9 tokens, 8 of them are taken, and 2 more do not fit; make"):
        state.step([1, 2])
    assert state.length == 8
    state.reset()
    assert state.report.used == 0
    assert np.array_equal(state.step(PROMPT), first)
    state.close()
    state.close()
    with pytest.raises(RuntimeBindError, match="closed"):
        state.step([1])


def test_logits_of_a_step_belong_to_the_caller(tmp_path: Path) -> None:
    state = edgemem.DecoderState(plain_session(in_place(decoder(), tmp_path)), 20)
    first = state.step(PROMPT)
    kept = first.copy()
    state.step([5])
    assert np.array_equal(first, kept)


def test_the_report_says_how_and_why(tmp_path: Path) -> None:
    model = decoder()
    turned = edgemem.DecoderState(plain_session(model), 20)
    assert "edgemem plan MODEL --state" in turned.report.reason
    turned.step(PROMPT)
    rows = 2 * 2 * 8 * 4 * 2  # caches of a layer x heads x width x bytes x layers
    assert turned.report.used == 2 * 7 * rows
    placed = edgemem.DecoderState(plain_session(in_place(model, tmp_path)), 20)
    placed.step(PROMPT)
    assert placed.report.used == 7 * rows
    assert placed.report.reserved == 20 * rows
    assert str(placed.report).startswith("4 caches in place (one buffer each): 7 of 20 tokens, ")


def test_pairs_may_be_named_and_wrong_ones_are_errors() -> None:
    session = plain_session(decoder(sizes=Sizes(layers=1)))
    named = {"past_key_values.0.key": "present.0.key", "past_key_values.0.value": "present.0.value"}
    tokens, _ = greedy(session, PROMPT, 5)
    assert np.array_equal(edgemem.DecoderState(session, 20, states=named).generate(PROMPT, 5), tokens)
    with pytest.raises(RuntimeBindError, match=r"no input 'x', or no output"):
        edgemem.DecoderState(session, 20, states={"x": "present.0.key"})
    with pytest.raises(RuntimeBindError, match=r"no state 'x'"):
        edgemem.DecoderState(session, 20, states=[StatePair("x", "present.0.key", 2, "appended")])
    with pytest.raises(RuntimeBindError, match="no input 'positions'"):
        edgemem.DecoderState(session, 20).step(PROMPT, {"positions": 1})
    with pytest.raises(RuntimeBindError, match="whole numbers, not float64"):
        edgemem.DecoderState(plain_session(decoder()), 9).step([[1.5]])
    with pytest.raises(RuntimeBindError, match="0 tokens or more to decode, not -1"):
        edgemem.DecoderState(plain_session(decoder()), 9).generate(PROMPT, -1)
    with pytest.raises(RuntimeBindError, match=r"tokens are \[1, n\]"):
        edgemem.DecoderState(session, 20).step(np.zeros((2, 3), np.int64))


def test_a_note_that_promises_too_much_ends_in_an_error_of_the_runtime() -> None:
    """Rows of a Concat are no rows of a buffer; ONNX Runtime checks the bound sizes."""
    session = plain_session(decoder(sizes=Sizes(layers=1)))
    pairs = [StatePair(f"past_key_values.0.{k}", f"present.0.{k}", 2, "in_place") for k in ("key", "value")]
    with pytest.raises(Exception, match=r"shape|dimension"):
        edgemem.DecoderState(session, 20, states=pairs).step(PROMPT)


def test_a_capacity_beyond_all_memory_is_an_error() -> None:
    session = plain_session(decoder(sizes=Sizes(layers=1), mask=False))
    with pytest.raises(RuntimeBindError, match="cannot reserve"):
        edgemem.DecoderState(session, 1 << 58)


_GROWTH = """
import sys
import numpy as np
from pathlib import Path
import edgemem
from tests.decoders import plain_session

def rss():
    line = next(l for l in Path("/proc/self/status").read_text().splitlines() if l.startswith("VmRSS"))
    return int(line.split()[1]) * 1024

state = edgemem.DecoderState(plain_session(sys.argv[1]), int(sys.argv[2]), chunk=8)
state.step([1]); state.reset(); state.step([1])
before = rss()
for _ in range(255):
    state.step([2])
print(rss() - before, state.report.used, state.report.reserved)
"""


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("placed", [True, False])
def test_memory_comes_with_tokens_and_not_with_capacity(*, placed: bool, tmp_path: Path) -> None:
    model = decoder(sizes=Sizes(layers=8, heads=8, groups=8, width=64, positions=300))
    path = in_place(model, tmp_path)
    file = path if placed else str(tmp_path / "decoder.onnx")
    made = subprocess.run(
        [sys.executable, "-c", _GROWTH, file, "100000"],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    growth, used, reserved = map(int, made.stdout.split())
    assert used == (1 if placed else 2) * 256 * 8 * 2 * 8 * 64 * 4
    assert reserved > 100 * used
    assert used * 0.9 < growth < used * 1.35
