"""What a caller feeds a decoder beside tokens, against plain ONNX Runtime with the file as it was exported."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import edgemem
from edgemem.errors import RuntimeBindError
from edgemem.formats import load_model
from edgemem_converters.onnx.model import OnnxConverter
from models.decoder import decoder
from tests.decoders import plain_session

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numpy.typing import NDArray

IDS = np.random.default_rng(0).integers(0, 40, (3, 9))
LEFT, RIGHT = ((np.arange(9) >= np.array([[0], [5], [8]])).astype(np.int64) for _ in range(2))
RIGHT = RIGHT[:, ::-1].copy()
NO_TOKEN = 10_000  # the model's table ends before it, so that ONNX Runtime raises


def files(model: onnx.ModelProto, folder: Path) -> tuple[Any, Any]:
    """A session of the model as it is, and one of the model with its caches in place."""
    onnx.save(model, folder / "decoder.onnx")
    opened = load_model(folder / "decoder.onnx")
    assert isinstance(opened, OnnxConverter)
    opened.with_states(opened.states({})).save(folder / "placed.onnx")
    return plain_session(model), plain_session(str(folder / "placed.onnx"))


def logits_of(session: Any, ids: NDArray[Any], mask: NDArray[Any], **others: NDArray[Any]) -> NDArray[Any]:
    """The logits of all tokens, in one run without caches."""
    feeds = {"input_ids": ids, "attention_mask": mask, **others}
    for value in session.get_inputs():
        if value.name == "position_ids" and value.name not in feeds:
            counted = [[int(row[:k].sum()) if row[k] else 0 for k in range(len(row))] for row in mask]
            feeds[value.name] = np.array(counted, np.int64)
        elif value.name.startswith("past"):
            form = [len(ids), *(d if isinstance(d, int) else 0 for d in value.shape[1:])]
            feeds[value.name] = np.zeros(form, np.float32)
    made: NDArray[Any] = session.run(None, feeds)[0]
    return made


def close(made: NDArray[Any], known: NDArray[Any]) -> bool:
    """Runs of other lengths add in another order."""
    return bool(np.abs(made - known).max() <= 1e-5 * np.abs(known).max())


def greedy(session: Any, ids: NDArray[Any], mask: NDArray[Any], count: int) -> NDArray[np.int64]:
    """Tokens, with all of them decoded again for each; a prompt ends with its last token that is not masked."""
    made = np.zeros((len(ids), 0), np.int64)
    last = [np.flatnonzero(row)[-1] for row in mask]
    for _ in range(count):
        logits = logits_of(session, ids, mask)
        token = np.array([[row[k].argmax()] for row, k in zip(logits, last, strict=True)])
        made = np.concatenate((made, token), axis=1)
        ids, mask = np.concatenate((ids, token), axis=1), np.concatenate((mask, np.ones_like(token)), axis=1)
        last = [mask.shape[1] - 1] * len(ids)
    return made


@pytest.mark.parametrize("form", ["concat", "concat_bsnh"])
@pytest.mark.parametrize("mask", [LEFT, RIGHT], ids=["left", "right"])
@pytest.mark.parametrize("positions", [True, False])
@pytest.mark.parametrize("chunk", [1, 4, 64])
def test_a_prompt_is_padded_by_its_mask(
    form: Any, mask: NDArray[Any], *, positions: bool, chunk: int, tmp_path: Path
) -> None:
    """The mask is given once, whatever the number of runs, and holds for the tokens behind the prompt."""
    exported, placed = files(decoder(form, positions=positions), tmp_path)
    tokens = greedy(exported, IDS, mask, 8)
    first = logits_of(exported, IDS, mask)[range(3), [np.flatnonzero(row)[-1] for row in mask]]
    for session in (exported, placed):
        with edgemem.DecoderState(session, 64, batch=3, chunk=chunk) as state:
            state.fill(0xFF)
            assert np.array_equal(state.generate(IDS, 8, {"attention_mask": mask}), tokens)
            state.reset()
            assert close(state.step(IDS, {"attention_mask": mask}), first)
            forks = [state.fork(), state.fork()]
            for fork in forks:
                rest = np.concatenate([fork.step(tokens[:, k : k + 1]).argmax(-1)[:, None] for k in range(7)], axis=1)
                assert np.array_equal(rest, tokens[:, 1:])


def test_padded_sequences_decode_as_each_does_alone(tmp_path: Path) -> None:
    exported, placed = files(decoder(positions=True), tmp_path)
    alone = [
        edgemem.DecoderState(exported, 64).generate(row[keep == 1], 8)[0] for row, keep in zip(IDS, LEFT, strict=True)
    ]
    for session in (exported, placed):
        state = edgemem.DecoderState(session, 64, batch=3, chunk=4)
        assert np.array_equal(state.generate(IDS, 8, {"attention_mask": LEFT}), alone)


def test_a_mask_of_each_step_is_of_all_rows(tmp_path: Path) -> None:
    exported, placed = files(decoder(positions=True), tmp_path)
    more = np.array([[1, 1, 0, 1], [0, 1, 1, 1], [1, 1, 1, 1]])
    mask = np.concatenate((LEFT, more), axis=1)
    ids = np.concatenate((IDS, IDS[:, :4]), axis=1)
    known = logits_of(exported, ids, mask)
    for session in (exported, placed):
        state = edgemem.DecoderState(session, 64, batch=3, chunk=2)
        state.step(IDS, {"attention_mask": LEFT})
        made = state.logits(IDS[:, :4], {"attention_mask": mask.astype(bool)})
        assert close(made[more == 1], known[:, 9:][more == 1])


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        (
            {"attention_mask": np.ones((2, 4))},
            r"is for 7 tokens, those in the caches and the new ones: give \[2, 7\], not",
        ),
        ({"attention_mask": np.ones((2, 3))}, r"give \[2, 7\], not \[2, 3\]"),
        ({"attention_mask": np.ones((3, 7))}, r"give \[2, 7\], not \[3, 7\]"),
        ({"attention_mask": np.full((2, 7), 2)}, "other values than 0 and 1"),
        ({"attention_mask": np.full((2, 7), -np.inf)}, "other values than 0 and 1"),
        ({"position_ids": np.zeros((2, 7), np.int64)}, "'position_ids', .* is for 7 tokens, and there are 3 new ones"),
        ({"position_ids": np.zeros(3, np.int64)}, r"'position_ids' is \['batch', 'sequence'\], and \[3\] was given"),
        ({"position_ids": np.full((2, 3), 0.5)}, "takes int64, and some of its numbers are none"),
        ({"input_ids": np.zeros((2, 4), np.int64)}, "'input_ids', .* is for 4 tokens, and there are 3 new ones"),
        ({"token_type_ids": np.zeros((2, 4))}, "no input 'token_type_ids'"),
    ],
)
def test_what_does_not_fit_the_tokens_is_an_error(feeds: Any, message: str, tmp_path: Path) -> None:
    for session in files(decoder(positions=True), tmp_path):
        state = edgemem.DecoderState(session, 64, batch=2, chunk=2)
        state.step(IDS[:2, :4])
        known = state.fork().step(IDS[:2, 4:7])
        for call in (state.step, state.logits):
            with pytest.raises(RuntimeBindError, match=message):
                call(IDS[:2, 4:7], feeds)
        with pytest.raises(RuntimeBindError, match=message):
            state.generate(IDS[:2, 4:7], 1, feeds)
        assert state.length == 4
        assert np.array_equal(state.step(IDS[:2, 4:7]), known)


def _with_types(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with a value added to each token's by its type."""
    graph = model.graph
    place = next(k for k, n in enumerate(graph.node) if n.op_type == "Gather" and n.input[1] == "input_ids")
    node = graph.node[place]
    table = np.random.default_rng(9).standard_normal((3, 32)).astype(np.float32)
    graph.initializer.append(numpy_helper.from_array(table, "types"))
    made, node.output[0] = node.output[0], "without_types"
    graph.node.insert(place + 1, helper.make_node("Gather", ["types", "token_type_ids"], ["of_types"]))
    graph.node.insert(place + 2, helper.make_node("Add", ["without_types", "of_types"], [made]))
    graph.input.append(helper.make_tensor_value_info("token_type_ids", TensorProto.INT64, ["batch", "sequence"]))
    return model


@pytest.mark.parametrize("chunk", [1, 4, 64])
def test_types_and_positions_of_tokens_are_cut_for_each_run(chunk: int, tmp_path: Path) -> None:
    exported, placed = files(_with_types(decoder(positions=True)), tmp_path)
    rng = np.random.default_rng(5)
    per_token = {"token_type_ids": rng.integers(0, 3, (3, 9)), "position_ids": rng.integers(0, 99, (3, 9))}
    known = logits_of(exported, IDS, np.ones_like(IDS), **per_token)
    for session in (exported, placed):
        state = edgemem.DecoderState(session, 64, batch=3, chunk=chunk)
        assert close(state.logits(IDS, per_token), known)
        with pytest.raises(RuntimeBindError, match=r"'token_type_ids'; give its value in `feeds`, at every step"):
            state.step(IDS[:, :1])
        with pytest.raises(RuntimeBindError, match="in `feeds` is for the prompt alone; decode with `step`"):
            state.generate(IDS[:, :1], 2, {name: value[:, :1] for name, value in per_token.items()})
        assert state.length == 9


@pytest.mark.parametrize("chunk", [1, 4, 64])
def test_a_mask_of_pairs_of_tokens_is_cut_and_asks_for_positions(chunk: int, tmp_path: Path) -> None:
    exported, placed = files(decoder(mask="pairs", positions=True), tmp_path)
    seen = np.tril(np.ones((9, 9), bool)) & LEFT[:, None, None].astype(bool)
    pairs = np.where(seen, 0, -1e9).astype(np.float32)
    places = np.maximum(LEFT.cumsum(1) - 1, 0)
    known = logits_of(exported, IDS, pairs, position_ids=places)
    for session in (exported, placed):
        state = edgemem.DecoderState(session, 64, batch=3, chunk=chunk)
        with pytest.raises(RuntimeBindError, match="does not tell the positions of tokens"):
            state.step(IDS, {"attention_mask": pairs})
        with pytest.raises(RuntimeBindError, match=r"an input 'attention_mask'; give its value in `feeds`, at every"):
            state.step(IDS)
        with pytest.raises(RuntimeBindError, match="is for 8 tokens, and there are 0 in the caches and 9 new ones"):
            state.step(IDS, {"attention_mask": pairs[..., :8], "position_ids": places})
        made = state.logits(IDS, {"attention_mask": pairs, "position_ids": places})
        assert close(made[LEFT == 1], known[LEFT == 1])


@pytest.mark.parametrize("chunk", [1, 2, 3, 64])
@pytest.mark.parametrize("begin", [0, 4])
def test_whatever_a_step_raises_the_caches_hold_what_they_held(chunk: int, begin: int, tmp_path: Path) -> None:
    """ONNX Runtime raises in the middle of a step, after some of its runs have written rows."""
    exported, placed = files(decoder(positions=True), tmp_path)
    wrong = IDS.copy()
    wrong[1, 8] = NO_TOKEN
    shorter: Mapping[str, Any] = {"attention_mask": np.concatenate((np.ones((3, begin)), LEFT), axis=1)}
    for session in (exported, placed):
        state = edgemem.DecoderState(session, 64, batch=3, chunk=chunk)
        if begin:
            state.step(IDS[:, :begin])
            state.fork()
        for feeds in (None, shorter):
            for call in (state.step, state.logits):
                with pytest.raises(Exception, match="out of data bounds"):
                    call(wrong, feeds)
                assert state.length == begin
            with pytest.raises(Exception, match="out of data bounds"):
                state.generate(wrong, 3, feeds)
            assert state.length == begin
        known = edgemem.DecoderState(exported, 64, batch=3)
        if begin:
            known.step(IDS[:, :begin])
        fork = state.fork()
        assert close(fork.step(IDS), known.step(IDS))
        assert close(state.logits(IDS[:, :1])[:, 0], again(exported, begin))


def again(session: Any, begin: int) -> NDArray[Any]:
    """The logits of the first token again behind the first `begin` ones, by plain ONNX Runtime."""
    ids = np.concatenate((IDS[:, :begin], IDS[:, :1]), axis=1)
    return logits_of(session, ids, np.ones_like(ids))[:, -1]


def test_tokens_for_which_there_is_no_room_are_refused_before_the_first(tmp_path: Path) -> None:
    for session in files(decoder(), tmp_path):
        state = edgemem.DecoderState(session, 12, batch=3)
        with pytest.raises(RuntimeBindError, match="hold 12 tokens, 0 of them are taken, and 13 more do not fit"):
            state.generate(IDS, 5)
        assert state.length == 0
        assert state.generate(IDS, 4).shape == (3, 4)


def test_a_warm_up_that_fails_leaves_no_tokens() -> None:
    state = edgemem.DecoderState(plain_session(_with_types(decoder())), 12, batch=3)
    with pytest.raises(RuntimeBindError, match="'token_type_ids'"):
        state.warm_up()
    assert state.length == 0


def test_grouped_query_attention_pads_on_the_right_alone(tmp_path: Path) -> None:
    """It takes the number of a sequence's tokens from the mask, and reads the first rows of its caches."""
    exported, placed = files(decoder("gqa", positions=True), tmp_path)
    alone = [
        edgemem.DecoderState(exported, 64).generate(row[keep == 1], 8)[0] for row, keep in zip(IDS, RIGHT, strict=True)
    ]
    state = edgemem.DecoderState(placed, 64, batch=3)
    assert np.array_equal(state.generate(IDS, 8, {"attention_mask": RIGHT}), alone)
    state.reset()
    with pytest.raises(RuntimeBindError, match="pad a prompt on the right"):
        state.step(IDS, {"attention_mask": LEFT})
    with pytest.raises(RuntimeBindError, match="in one run"):
        edgemem.DecoderState(placed, 64, batch=3, chunk=4).step(IDS, {"attention_mask": RIGHT})
    state.step(IDS, {"attention_mask": RIGHT})
    with pytest.raises(RuntimeBindError, match="one token at a time"):
        state.step(IDS[:, :2])


def test_grouped_query_attention_of_a_batch_takes_single_tokens_behind_others(tmp_path: Path) -> None:
    exported, placed = files(decoder("gqa"), tmp_path)
    state = edgemem.DecoderState(placed, 64, batch=3, chunk=16)
    with pytest.raises(RuntimeBindError, match="behind others for a batch of 1 alone; make the state with chunk=1"):
        state.warm_up()
    state.step(IDS)
    with pytest.raises(RuntimeBindError, match="make the state with chunk=1"):
        state.step(IDS[:, :2])
    state = edgemem.DecoderState(placed, 64, batch=3, chunk=1)
    state.warm_up()
    state.step(IDS)
    assert close(state.step(IDS[:, :2]), edgemem.DecoderState(exported, 64, batch=3).step(np.c_[IDS, IDS[:, :2]]))


@pytest.mark.parametrize("chunk", [1, 4, 64])
def test_embeddings_are_given_in_feeds_and_cut(chunk: int, tmp_path: Path) -> None:
    known = edgemem.DecoderState(plain_session(decoder()), 64, batch=3).step(IDS)
    model = decoder()
    look_up = next(node for node in model.graph.node if "input_ids" in node.input and node.op_type == "Gather")
    table = next(numpy_helper.to_array(t) for t in model.graph.initializer if t.name == look_up.input[0])
    made = look_up.output[0]
    model.graph.node.remove(look_up)
    for node in model.graph.node:
        for k, name in enumerate(node.input):
            node.input[k] = "inputs_embeds" if name in (made, "input_ids") else name
    embeds = helper.make_tensor_value_info("inputs_embeds", TensorProto.FLOAT, ["batch", "sequence", table.shape[1]])
    model.graph.input[0].CopyFrom(embeds)
    for session in files(model, tmp_path):
        state = edgemem.DecoderState(session, 64, batch=3, chunk=chunk)
        assert close(state.step(np.zeros_like(IDS), {"inputs_embeds": table[IDS]}), known)
        for wrong in (IDS, table[IDS]):
            with pytest.raises(RuntimeBindError, match=r"takes no tokens but 'inputs_embeds'.* give these in `feeds`"):
                state.step(wrong)


class _Interrupt(BaseException):
    """As a signal handler raises one, at any line."""


def _raising_at(number: int) -> Any:
    """A trace function that raises at the nth line of the decoder's own code."""
    seen = iter(range(number))

    def trace(frame: Any, event: str, _: Any) -> Any:
        if "onnxruntime/decoder" not in frame.f_code.co_filename:
            return None
        if event == "line" and next(seen, None) is None:
            raise _Interrupt
        return trace

    return trace


@pytest.mark.parametrize("begin", [0, 3])
def test_an_interrupt_at_any_line_leaves_the_caches_as_they_were(begin: int, tmp_path: Path) -> None:
    feeds = {"attention_mask": np.concatenate((np.ones((3, begin)), LEFT), axis=1)}
    for session in files(decoder(positions=True), tmp_path):
        state = edgemem.DecoderState(session, 64, batch=3, chunk=4)
        if begin:
            state.step(IDS[:, :begin])
        known = state.fork().step(IDS, feeds)
        for number in range(10_000):
            before = sys.gettrace()
            sys.settrace(_raising_at(number))
            try:
                made = state.step(IDS, feeds)
            except _Interrupt:
                made = None
            finally:
                sys.settrace(before)
            if made is not None:
                break
            assert state.length == begin
            if number % 7 == 0:
                assert np.array_equal(state.fork().step(IDS, feeds), known)
        assert number > 100
        assert made is not None
        assert np.array_equal(made, known)
        assert state.length == begin + 9
