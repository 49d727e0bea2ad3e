"""States of ONNX decoders: which are found, how a file is changed to keep them in place, and how they are planned."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import edgemem
from edgemem.cli.main import main
from edgemem.errors import ModelError, UnsupportedError
from edgemem.formats import Bindings, load_model
from edgemem.model.states import NAMED_PAIRS, StatePair, decode_pairs, encode_pairs, grown_axis, named_pairs
from edgemem.planning.verification import right_plan
from edgemem_converters.onnx.model import OnnxConverter
from models.decoder import Sizes, decoder

if TYPE_CHECKING:
    from pathlib import Path

SIZES = {"batch": 1, "sequence": 2, "past": 6, "total": 8}


def opened(model: onnx.ModelProto, path: Path, dims: dict[str, int] | None = None) -> OnnxConverter:
    onnx.save(model, path / "decoder.onnx")
    made = load_model(path / "decoder.onnx", Bindings(dims or {}))
    assert isinstance(made, OnnxConverter)
    return made


@pytest.mark.parametrize(
    ("form", "growth", "operator", "axis"),
    [
        ("concat", "appended", "Concat", 2),
        ("concat_bsnh", "appended", "Concat", 1),
        ("attention", "appended", "Attention", 2),
        ("gqa", "in_place", "com.microsoft::GroupQueryAttention", 2),
    ],
)
def test_states_are_found_by_their_operators(form: Any, growth: Any, operator: str, axis: int, tmp_path: Path) -> None:
    model = decoder(form)
    # Their names do not matter then.
    text = model.SerializeToString().replace(b"past_key_values.", b"some_cache_here.").replace(b"present.", b"another.")
    pairs = opened(onnx.ModelProto.FromString(text), tmp_path).states({})
    kinds = [f"{layer}.{kind}" for layer in range(2) for kind in ("key", "value")]
    assert pairs == tuple(StatePair(f"some_cache_here.{k}", f"another.{k}", axis, growth, operator) for k in kinds)


def test_tensor_scatter_is_a_state_in_place(tmp_path: Path) -> None:
    values = {"past": [1, 2, 9, 4], "present": [1, 2, 9, 4], "new": [1, 2, 1, 4]}
    infos = {n: helper.make_tensor_value_info(n, TensorProto.FLOAT, d) for n, d in values.items()}
    at = helper.make_tensor_value_info("at", TensorProto.INT64, [1])
    node = helper.make_node("TensorScatter", ["past", "new", "at"], ["present"], axis=2)
    graph = helper.make_graph([node], "g", [infos["past"], infos["new"], at], [infos["present"]])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=10)
    pairs = opened(model, tmp_path).states({})
    assert pairs == (StatePair("past", "present", 2, "in_place", "TensorScatter"),)
    planset = edgemem.plan(tmp_path / "decoder.onnx", states={"past": "present"})
    assert [r.size for r in planset.problem.records if r.kind == "state"] == [2 * 9 * 4 * 4]


@pytest.mark.parametrize(
    ("past", "present"),
    [
        ("past_key_values.0.key", "present.0.key"),
        ("past_key_values.11.value", "present_key_values.11.value"),
        ("past_key_0", "present_key_0"),
        ("past_value_3", "present_value_3"),
        ("past.7", "present.7"),
        ("cache_k_0_in", "cache_k_0_out"),
    ],
)
def test_usual_names_are_paired(past: str, present: str) -> None:
    assert named_pairs(["input_ids", past], ["logits", present]) == {past: present}
    assert named_pairs([past], ["logits"]) == {}
    assert all(past.count("*") == present.count("*") == 1 for past, present in NAMED_PAIRS)


def test_the_axis_that_grows_is_the_one_that_differs() -> None:
    assert grown_axis(["b", 4, "past", 8], ["b", 4, "total", 8]) == 2
    assert grown_axis(["b", "t", 4], ["b", "t", 4]) is None
    assert grown_axis(["b", "t", 4], ["x", "y", 4]) is None
    assert grown_axis([1], [1, 2]) is None


def test_patterns_choose_and_wrong_ones_are_refused(tmp_path: Path) -> None:
    model = opened(decoder(), tmp_path)
    assert [p.past for p in model.states({"past_key_values.*.key": "present.*.key"})] == [
        "past_key_values.0.key",
        "past_key_values.1.key",
    ]
    for patterns, message in (
        ({"past.*": "present.*"}, "no graph input matches the state 'past.\\*'; there are 'input_ids'"),
        ({"past_key_values.*": "present.0.key"}, "one \\* on both sides"),
        ({"past_key_values.*": "next.*"}, "no graph output 'next.0.key'"),
        ({"past_key_values.0.key": "present.0.value"}, "comes back as 'present.0.key', not as 'present.0.value'"),
        ({"input_ids": "logits"}, "does not tell what axis grows"),
    ):
        with pytest.raises(ModelError, match=message):
            model.states(patterns)


def test_a_note_survives_and_a_damaged_one_is_an_error(tmp_path: Path) -> None:
    pairs = (StatePair("a", "b", 2, "in_place", "ScatterND"), StatePair("c", "d", 0, "replaced"))
    assert decode_pairs(encode_pairs(pairs)) == pairs
    good: list[dict[str, Any]] = json.loads(encode_pairs(pairs))
    damaged: list[Any] = [None, 1, [1], [{}], [{**good[0], "axis": -1}], [{**good[0], "growth": "x"}]]
    damaged += [[{**good[0], "past": 1}], [{**good[0], "more": 1}], [good[0], good[0]], [{**good[0], "axis": True}]]
    for note in damaged:
        with pytest.raises(ModelError, match="note of its states"):
            decode_pairs(json.dumps(note))
    with pytest.raises(ModelError, match="note of its states"):
        decode_pairs(b"\xff")
    model = opened(decoder(), tmp_path)
    assert model.noted_states() == ()
    assert all(pair.growth == "in_place" for pair in model.with_states(model.states({})).noted_states())


@pytest.mark.parametrize("form", ["concat", "concat_bsnh"])
@pytest.mark.parametrize("mask", [True, False])
def test_the_changed_model_is_right_by_the_reference(form: Any, *, mask: bool, tmp_path: Path) -> None:
    """By onnx's own evaluator, which shares nothing with ONNX Runtime."""
    before = opened(decoder(form, mask=mask), tmp_path)
    after = onnx.ModelProto.FromString(before.with_states(before.states({})).content())
    onnx.checker.check_model(after, full_check=True)
    rng = np.random.default_rng(3)
    shape = [2, 4, 2, 8] if form == "concat_bsnh" else [2, 2, 4, 8]
    axis = 1 if form == "concat_bsnh" else 2
    room = [(0, 5) if k == axis else (0, 0) for k in range(4)]
    feeds: dict[str, Any] = {"input_ids": rng.integers(0, 40, (2, 3))}
    if mask:
        feeds["attention_mask"] = np.ones((2, 7), np.int64)
    caches = {
        f"past_key_values.{k}.{v}": rng.standard_normal(shape).astype("f") for k in (0, 1) for v in ("key", "value")
    }
    wide = {name: np.pad(value, room, constant_values=np.nan) for name, value in caches.items()}
    more = {} if mask else {"past_rows": np.zeros((4, 0), "f")}
    expected: Any = ReferenceEvaluator(onnx.load(tmp_path / "decoder.onnx")).run(None, {**feeds, **caches})
    made: Any = ReferenceEvaluator(after).run(None, {**feeds, **wide, **more})
    assert np.allclose(made[0], expected[0], atol=1e-6)
    for new, old in zip(made[1:], expected[1:], strict=True):
        assert np.array_equal(np.take(new, range(7), axis), old)
        assert np.isnan(np.take(new, range(7, 9), axis)).all()


def test_what_cannot_be_changed_is_refused_and_says_what_happens_instead(tmp_path: Path) -> None:
    attention = opened(decoder("attention"), tmp_path)
    with pytest.raises(UnsupportedError, match=r"written by Attention.*two buffers"):
        attention.with_states(attention.states({}))
    model = decoder(sizes=Sizes(layers=1))
    model.graph.node.append(helper.make_node("ReduceMax", ["past_key_values.0.key"], ["largest"], keepdims=0))
    model.graph.output.append(helper.make_tensor_value_info("largest", TensorProto.FLOAT, []))
    read = opened(model, tmp_path)
    with pytest.raises(UnsupportedError, match=r"also read by 'ReduceMax'.*unused rows"):
        read.with_states(read.states({}))
    model = decoder(sizes=Sizes(layers=1))
    model.graph.node.append(helper.make_node("Identity", ["present.0.key"], ["again"]))
    model.graph.output.append(helper.make_tensor_value_info("again", TensorProto.FLOAT, None))
    twice = opened(model, tmp_path)
    with pytest.raises(UnsupportedError, match="'again' is the same value"):
        twice.with_states(twice.states({}))


@pytest.mark.parametrize("form", ["concat", "gqa"])
def test_a_plan_has_one_state_of_the_capacity_for_each_pair(form: Any, tmp_path: Path) -> None:
    dims = SIZES if form == "concat" else {"batch": 1, "sequence": 2, "past": 8, "total": 8}
    model = opened(decoder(form), tmp_path, dims)
    placed = model.with_states(model.states({}))
    if form == "concat":
        assert placed.bindings.dims == {"batch": 1, "sequence": 2, "total": 8, "capacity": 8}
    states = {pair.past: pair.present for pair in placed.noted_states()}
    planset = edgemem.plan(placed, states=states)
    records = [r for r in planset.problem.records if r.kind == "state"]
    assert [r.tensors for r in records] == list(states.items())
    assert {r.size for r in records} == {2 * 8 * 8 * 4}
    assert {(r.first_op, r.last_op) for r in records} == {(0, len(planset.steps) - 1)}
    assert planset.target is not None
    assert dict(planset.target.states) == states


@pytest.mark.full
@pytest.mark.parametrize("state", ["past_key_values.*=present.*", "auto"])
def test_the_command_writes_a_file_whose_states_are_in_place(state: str, tmp_path: Path) -> None:
    onnx.save(decoder(), tmp_path / "decoder.onnx")
    sizes = [part for name, value in SIZES.items() for part in ("--dim", f"{name}={value}")]
    planned = tmp_path / "planned.onnx"
    command = ["plan", str(tmp_path / "decoder.onnx"), *sizes, "--state", state, "-o", str(planned)]
    made = CliRunner().invoke(main, command)
    assert made.exit_code == 0, made.output
    line = "4 states, 2.00 KiB, kept in place from run to run: past_key_values.0.key = present.0.key, ..."
    assert line in made.output
    assert line in CliRunner().invoke(main, ["show", str(planned)]).output
    assert right_plan(planned)[0].planset.target is not None
    assert CliRunner().invoke(main, ["verify", str(planned)]).exit_code == 0


def test_a_changed_file_keeps_its_note_when_it_is_planned_again(tmp_path: Path) -> None:
    model = opened(decoder("concat_bsnh"), tmp_path)
    placed = model.with_states(model.states({}))
    placed.save(tmp_path / "placed.onnx")
    sizes = ["--dim", "batch=1", "--dim", "sequence=2", "--dim", "total=8", "--dim", "capacity=9"]
    command = ["plan", str(tmp_path / "placed.onnx"), *sizes, "--state", "auto", "-o", str(tmp_path / "again.onnx")]
    made = CliRunner().invoke(main, command)
    assert made.exit_code == 0, made.output
    again = load_model(tmp_path / "again.onnx")
    assert isinstance(again, OnnxConverter)
    assert again.noted_states() == placed.noted_states()
    assert {pair.axis for pair in again.noted_states()} == {1}


def test_a_state_that_its_update_reads_elsewhere_too_is_refused(tmp_path: Path) -> None:
    """ScatterND would overwrite rows that it is still to read as updates."""
    past = helper.make_tensor_value_info("past", TensorProto.FLOAT, [4, 8])
    present = helper.make_tensor_value_info("present", TensorProto.FLOAT, [4, 8])
    at = helper.make_tensor_value_info("at", TensorProto.INT64, [4, 1])
    node = helper.make_node("ScatterND", ["past", "at", "past"], ["present"])
    model = helper.make_model(
        helper.make_graph([node], "g", [past, at], [present]), opset_imports=[helper.make_opsetid("", 17)]
    )
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(UnsupportedError, match="while it still reads it"):
        edgemem.plan(tmp_path / "m.onnx", states={"past": "present"})


@pytest.mark.full
def test_a_range_of_the_past_is_one_of_the_cache_length(tmp_path: Path) -> None:
    onnx.save(decoder(), tmp_path / "decoder.onnx")
    ranged = Bindings.of({"batch": 1, "sequence": 1, "past": "0..31", "total": "past+1"})
    model = load_model(tmp_path / "decoder.onnx", ranged)
    assert isinstance(model, OnnxConverter)
    made = model.with_states(model.states({})).bindings
    assert made == Bindings.of({"batch": 1, "sequence": 1, "total": "1..32", "capacity": 32})
    sizes = ["--dim", "batch=1", "--dim", "sequence=1", "--dim", "past=0..31", "--dim", "total=past+1"]
    command = ["plan", str(tmp_path / "decoder.onnx"), *sizes, "--state", "auto", "-o", str(tmp_path / "p.onnx")]
    planned = CliRunner().invoke(main, command)
    assert planned.exit_code == 0, planned.output
    assert CliRunner().invoke(main, ["verify", str(tmp_path / "p.onnx")]).exit_code == 0


def test_a_sum_of_numbers_is_no_range(tmp_path: Path) -> None:
    onnx.save(decoder(), tmp_path / "decoder.onnx")
    sizes = ["--dim", "batch=1", "--dim", "sequence=1", "--dim", "past=31", "--dim", "total=past+sequence"]
    command = ["plan", str(tmp_path / "decoder.onnx"), *sizes, "--state", "auto", "-o", str(tmp_path / "p.onnx")]
    planned = CliRunner().invoke(main, command)
    assert planned.exit_code == 0, planned.output
    assert CliRunner().invoke(main, ["verify", str(tmp_path / "p.onnx")]).exit_code == 0


def test_a_capacity_that_is_too_small_is_an_error(tmp_path: Path) -> None:
    bindings = Bindings.of({"batch": 1, "sequence": 1, "past": 31, "total": 32, "capacity": 20})
    onnx.save(decoder(), tmp_path / "decoder.onnx")
    model = load_model(tmp_path / "decoder.onnx", bindings)
    assert isinstance(model, OnnxConverter)
    with pytest.raises(ModelError, match=r"capacity=20 has no room .* 32 rows; bind capacity to 32 or more"):
        model.with_states(model.states({}))


def test_the_command_refuses_what_does_not_go_together(tmp_path: Path) -> None:
    onnx.save(decoder("attention"), tmp_path / "decoder.onnx")
    plan = ["plan", str(tmp_path / "decoder.onnx")]
    text = CliRunner().invoke(main, [*plan, "--state", "past"])
    assert (text.exit_code, "'past' is not PAST=PRESENT" in text.output) == (2, True)
    wrong = CliRunner().invoke(main, [*plan, "--state", "auto"])
    assert (wrong.exit_code, "leave --state out" in wrong.output) == (1, True)


def test_a_state_that_is_made_anew_at_every_run_is_refused(tmp_path: Path) -> None:
    """A rolling window and the state of a GRU: both have the size of their input, and no row is added to it."""
    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array(rng.standard_normal((1, 12, 4)).astype(np.float32), name) for name in "WR"]
    bounds = [numpy_helper.from_array(np.array([v]), n) for n, v in (("start", 2), ("end", 18), ("axis", 1))]

    def value(name: str, *dims: int) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)

    gru = helper.make_node("GRU", ["x", "W", "R", "", "", "h0"], ["y", "hn"], hidden_size=4)
    recurrent = helper.make_graph(
        [gru], "g", [value("x", 3, 1, 4), value("h0", 1, 1, 4)], [value("y", 3, 1, 1, 4), value("hn", 1, 1, 4)], weights
    )
    nodes = [
        helper.make_node("Concat", ["window", "x"], ["all"], axis=1),
        helper.make_node("Slice", ["all", "start", "end", "axis"], ["next"]),
    ]
    rolling = helper.make_graph(
        nodes, "g", [value("x", 1, 2, 8), value("window", 1, 16, 8)], [value("next", 1, 16, 8)], bounds
    )
    for graph, state, by in ((recurrent, "h0=hn", "GRU"), (rolling, "window=next", "Slice")):
        path = tmp_path / "m.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
        made = CliRunner().invoke(main, ["plan", str(path), "--state", state, "--no-record"], terminal_width=80)
        assert made.exit_code == 1
        assert f"is made anew by {by} at every run" in made.output


def test_a_named_state_is_added_to_those_that_are_found_and_one_that_a_note_lacks_is_refused(tmp_path: Path) -> None:
    onnx.save(decoder(sizes=Sizes(layers=1)), tmp_path / "m.onnx")
    sizes = [f"--dim={name}={value}" for name, value in SIZES.items()]
    state = "past_key_values.0.key=present.0.key"
    plan = ["plan", str(tmp_path / "m.onnx"), "--no-record", *sizes]
    both = CliRunner().invoke(main, [*plan, "--state", "auto", "--state", state])
    assert "2 states" in both.output
    noted = str(tmp_path / "noted.onnx")
    assert CliRunner().invoke(main, [*plan, "--state", "auto", "-o", noted]).exit_code == 0
    again = ["plan", noted, "--no-record", *sizes[:2], sizes[3], "--dim", "capacity=8"]
    assert CliRunner().invoke(main, [*again, "--state", state]).exit_code == 0
    made = CliRunner().invoke(main, [*again, "--state", "past_key_values.0.key=present.0.value"])
    assert made.exit_code == 1
    assert "the file has a note of its states, without 'past_key_values.0.key' = 'present.0.value'" in made.output


@pytest.mark.parametrize("total", ["past + sequence", "sequence+past", "past + 2"])
def test_the_capacity_is_a_sum_where_the_model_has_one(total: str, tmp_path: Path) -> None:
    """As exporters name the length after a run."""
    model = decoder(sizes=Sizes(layers=1))
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param == "total":
                dim.dim_param = total if value.name.startswith("present") else "masked"
    dims = {"batch": 1, "sequence": 2, "past": 6, "masked": 8}
    before = opened(model, tmp_path, dims)
    assert before.with_states(before.states({})).bindings.dims["capacity"] == 8


def test_what_an_error_proposes_for_a_dimension_can_be_given_to_a_shell(tmp_path: Path) -> None:
    model = decoder(sizes=Sizes(layers=1))
    for value in (*model.graph.input, *model.graph.output):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param == "total":
                dim.dim_param = "past + sequence"
    onnx.save(model, tmp_path / "m.onnx")
    plan = ["plan", str(tmp_path / "m.onnx"), "--no-record", "--state", "auto"]
    known = ["--dim", "batch=1", "--dim", "sequence=1", "--dim", "past=6"]
    refused = CliRunner().invoke(main, [*plan, *known])
    assert refused.exit_code == 1
    proposed = [shlex.split(each)[0] for each in refused.output.split("--dim ")[1:]]
    assert [each.split("=")[0] for each in proposed][:1] == ["past + sequence"]
    assert CliRunner().invoke(main, [*plan, *known, "--dim", proposed[0].replace("VALUE", "7")]).exit_code == 0
    wrong = CliRunner().invoke(main, [*plan, "--dim", "total=7"])
    assert "no dimension is called 'total'; the model has batch, capacity, past + sequence, sequence" in wrong.output
