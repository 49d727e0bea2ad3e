"""The TFLite converter on files made by hand: what it reads, and that it changes nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from flatbuffers.number_types import UOffsetTFlags

from edgemem import api
from edgemem.errors import InvalidPlanError, ModelError, UnknownShapeError, UnsupportedError
from edgemem.formats import Bindings, load
from edgemem.planning.model_plan import plan_graph
from edgemem.plans import Settings
from edgemem.records.lifetime import lifetimes
from edgemem.targets import BUILT_IN
from edgemem_converters.tflite.model import TfliteConverter
from edgemem_converters.tflite.reader import read
from edgemem_converters.tflite.writer import split, write
from tests.tflite_models import ADD_OPTIONS, IF, WHILE, M, O, S, T, build, floats

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.plans import PlanSet


def chain(**kw: bytes) -> M:
    """x -> ABS -> NEG -> y, with a constant added on the way."""
    tensors = [T("x"), T("a"), T("w", data=floats(1, 2, 3, 4)), T("b"), T("y")]
    ops = [O("ABS", (0,), (1,)), O("ADD", (1, 2), (3,), ADD_OPTIONS), O("NEG", (3,), (4,))]
    return M([S(tensors, ops, (0,), (4,))], metadata=dict(kw))


def branches() -> M:
    main = S(
        [T("c", "bool", (1,)), T("x"), T("y"), T("z")],
        [O("IF", (0, 1), (2,), (IF, (1, 2))), O("NEG", (2,), (3,))],
        (0, 1),
        (3,),
    )
    arms = [S([T("i"), T("m"), T("o")], [O(k, (0,), (1,)), O("ABS", (1,), (2,))], (0,), (2,)) for k in ("NEG", "EXP")]
    return M([main, *arms])


def opened(model: M | bytes, bindings: Bindings | None = None) -> TfliteConverter:
    return TfliteConverter.from_bytes(model if isinstance(model, bytes) else build(model), bindings)


def planned(model: TfliteConverter) -> PlanSet:
    return api.plan(model, strategy="offsets/greedy_by_size")


def metadata(data: bytes) -> dict[str, bytes]:
    """By flatbuffers' own table reader, not by ours."""
    from flatbuffers import encode
    from flatbuffers.table import Table

    root = Table(data, encode.Get(UOffsetTFlags.packer_type, data, 0))

    def vector(table: Table, field: int) -> list[Table]:
        o = table.Offset(4 + 2 * field)
        if not o:
            return []
        start = table.Vector(o)
        return [Table(data, table.Indirect(start + 4 * i)) for i in range(table.VectorLen(o))]

    buffers = vector(root, 4)
    found = {}
    for entry in vector(root, 6):
        name = entry.String(entry.Offset(4) + entry.Pos).decode()
        buffer = buffers[encode.Get(UOffsetTFlags.packer_type, data, entry.Offset(6) + entry.Pos)]
        o = buffer.Offset(4)
        start = buffer.Vector(o)
        assert start % 16 == 0
        assert name not in found
        found[name] = data[start : start + buffer.VectorLen(o)]
    return found


def offsets(data: bytes) -> list[int]:
    values: list[int]
    version, subgraph, count, *values = np.frombuffer(metadata(data)["OfflineMemoryAllocation"], "<i4").tolist()
    assert (version, subgraph, count) == (1, 0, len(values))
    return values


# --- reading --------------------------------------------------------------------------------------------------------


def test_a_chain_of_operators() -> None:
    graph = opened(chain()).graph()
    assert [op.type for op in graph.ops] == ["ABS", "ADD", "NEG"]
    assert [(t.name, t.kind, t.size) for t in graph.tensors] == [
        ("x", "activation", 16),
        ("a", "activation", 16),
        ("w", "constant", 16),
        ("b", "activation", 16),
        ("y", "activation", 16),
    ]
    assert (graph.inputs, graph.outputs, graph.layout) == ((0,), (4,), "nhwc")


def test_branches_are_bodies_with_names_of_their_own() -> None:
    graph = opened(branches()).graph()
    branch = graph.ops[0]
    assert branch.ordered
    assert [[t.name for t in body.tensors] for body in branch.bodies] == [
        ["IF_0.0/i", "IF_0.0/m", "IF_0.0/o"],
        ["IF_0.1/i", "IF_0.1/m", "IF_0.1/o"],
    ]


def test_a_loop_has_a_condition_and_a_body() -> None:
    main = S([T("i"), T("o")], [O("WHILE", (0,), (1,), (WHILE, (1, 2)))], (0,), (1,))
    cond = S([T("i"), T("c", "bool", (1,))], [O("CUSTOM_TEST", (0,), (1,))], (0,), (1,), "cond")
    body = S([T("i"), T("o")], [O("NEG", (0,), (1,))], (0,), (1,), "body")
    loop = opened(M([main, cond, body])).graph().ops[0]
    assert [b.name for b in loop.bodies] == ["cond", "body"]
    assert loop.bodies[0].ops[0].type == "CUSTOM_TEST"


def test_a_subgraph_that_two_operators_run_has_two_sets_of_names_in_one_place() -> None:
    main = S(
        [T("c", "bool", (1,)), T("x"), T("y"), T("z"), T("e")],
        [O("IF", (0, 1), (2,), (IF, (1, 1))), O("EXP", (2,), (4,)), O("IF", (0, 4), (3,), (IF, (1, 1)))],
        (0, 1),
        (3,),
    )
    model = opened(M([main, S([T("i", shape=(1, 64)), T("o")], [O("NEG", (0,), (1,))], (0,), (1,))]))
    names = [t.name for op in model.graph().ops for body in op.bodies for t in body.tensors]
    assert len(set(names)) == len(names) == 8
    offsets = model.with_plan(b"", planned(model)).offline()
    assert offsets["IF_0.0/o"] == offsets["IF_0.1/o"] == offsets["IF_2.0/o"] == offsets["IF_2.1/o"]
    apart = lifetimes(model.graph(), BUILT_IN["tflm"], apart=True)
    planset = replace(api.plan(apart.problem, strategy="offsets/naive"), target=BUILT_IN["tflm"], steps=apart.steps)
    with pytest.raises(UnsupportedError, match="two operators run subgraph 1"):
        model.with_plan(b"", planset)


def test_empty_and_doubled_names_get_their_index() -> None:
    tensors = [T(""), T("a"), T("a"), T("a#1"), T("y")]
    ops = [O("ABS", (i,), (i + 1,)) for i in range(4)]
    graph = opened(M([S(tensors, ops, (0,), (4,))])).graph()
    assert [t.name for t in graph.tensors] == ["#0", "a#1", "a#2", "a#1#3", "y"]


def test_weights_that_are_decompressed_at_the_start_are_constants() -> None:
    tensors = [
        T("x"),
        T("half", "float16", data=bytes(8)),
        T("full"),
        T("dense"),
        T("s"),
        T("live", "int8"),
        T("f"),
    ]
    ops = [
        O("DENSIFY", (1,), (2,)),
        O("DEQUANTIZE", (2,), (3,)),
        O("ADD", (0, 3), (4,), ADD_OPTIONS),
        O("QUANTIZE", (4,), (5,)),
        O("DEQUANTIZE", (5,), (6,)),
    ]
    model = opened(M([S(tensors, ops, (0,), (6,))]))
    kinds = {t.name: t.kind for t in model.graph().tensors}
    assert [kinds[n] for n in ("half", "full", "dense")] == ["constant"] * 3
    assert [kinds[n] for n in ("s", "live", "f")] == ["activation"] * 3
    assert len(model.graph().ops) == 5  # an order is of the file's operators


def test_variables_resources_and_strings() -> None:
    tensors = [T("x"), T("state", variable=True), T("handle", "resource", ()), T("read"), T("text", "string"), T("y")]
    ops = [
        O("VAR_HANDLE", (), (2,), shared_name="v"),
        O("READ_VARIABLE", (2,), (3,)),
        O("ADD", (0, 1), (5,), ADD_OPTIONS),
        O("ASSIGN_VARIABLE", (2, 5), ()),
        O("SOME_CUSTOM", (3,), (4,)),
    ]
    model = opened(M([S(tensors, ops, (0,), (5,))]))
    graph = model.graph()
    assert {t.name: t.kind for t in graph.tensors if t.kind != "activation"} == {
        "state": "variable",
        "handle": "opaque",
        "text": "opaque",
    }
    assert [op.type for op in graph.ops if op.ordered] == ["VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"]
    vector = offsets(model.with_plan(b"p", planned(model)).content())
    assert [vector[i] for i in (1, 2, 4)] == [-1, -1, -1]
    assert min(vector[i] for i in (0, 3, 5)) >= 0
    with pytest.raises(ModelError, match="side effects"):
        model.with_order((1, 0, 2, 3, 4))


def test_four_bit_tensors_are_packed() -> None:
    ops = [O("ABS", (0,), (1,)), O("NEG", (1,), (2,))]
    tensors = [T("x", "int4", (3, 3)), T("a", "int2", (3, 3)), T("y", "uint4", (1,))]
    assert [t.size for t in opened(M([S(tensors, ops, (0,), (2,))])).graph().tensors] == [5, 3, 1]


def test_unknown_operators_keep_a_name() -> None:
    model = M([S([T("x"), T("a"), T("y")], [O("BUILTIN_999", (0,), (1,)), O("Magic", (1,), (2,))], (0,), (2,))])
    assert [op.type for op in opened(model).graph().ops] == ["BUILTIN_999", "Magic"]


def test_the_shape_stands_where_the_signature_leaves_it_open() -> None:
    open_batch = M([S([T("x", signature=(-1, 4)), T("y", signature=(-1, 4))], [O("ABS", (0,), (1,))], (0,), (1,))])
    assert [t.shape for t in opened(open_batch).graph().tensors] == [(1, 4), (1, 4)]


@pytest.mark.parametrize("shape", [(0, 4), None, (-1, 4)])
def test_a_shape_without_a_figure_is_an_error(shape: tuple[int, ...] | None) -> None:
    tensors = [T("x", shape=shape, signature=(-1, 4)), T("y")]
    with pytest.raises(UnknownShapeError, match="'x'") as caught:
        opened(M([S(tensors, [O("ABS", (0,), (1,))], (0,), (1,))])).graph()
    assert caught.value.tensors == ("x",)


def test_sizes_that_nobody_chose_are_asked_for() -> None:
    def of(shape: tuple[int, ...], signature: tuple[int, ...], bindings: Bindings | None = None) -> TfliteConverter:
        tensors = [T("x", shape=shape, signature=signature), T("y", shape=shape, signature=signature)]
        return opened(M([S(tensors, [O("ABS", (0,), (1,))], (0,), (1,))]), bindings)

    with pytest.raises(UnknownShapeError, match=r"(?m)'x' open.*--input-shape x=1,N,N,3$") as caught:
        planned(of((1, 1, 1, 3), (-1, -1, -1, 3)))
    assert caught.value.tensors == ("x",)
    with pytest.raises(UnknownShapeError, match=r"(?m)--input-shape x=N$"):
        planned(of((1,), (-1,)))
    # A batch of 1, a size that the converter knew, and what the user says is such: named in the plan.
    for shape, signature in (((1, 4), (-1, 4)), ((1, 43844, 1), (-1, -1, 1)), ((3, 4), (-1, -1))):
        assert planned(of(shape, signature)).input_shapes == {"x": shape}
    for name in ("x", "0"):
        chosen = of((1, 1, 1, 3), (-1, -1, -1, 3), Bindings(input_shapes={name: (1, 1, 1, 3)}))
        assert planned(chosen).input_shapes == {name: (1, 1, 1, 3)}
    assert planned(of((1, 1, 1, 3), ())).input_shapes == {}
    # What was planned before is what its plan says.
    model = of((1, 1, 1, 3), (-1, -1, -1, 3))
    assert api.verify(plan_graph(model.graph(), BUILT_IN["tflm"], Settings()), model) == ()


def test_constant_strings_are_constants() -> None:
    words = T("words", "string", (2,), data=bytes(16))
    tensors = [T("x", "int32"), words, T("y", "string"), T("table", "resource", (1,))]
    ops = [O("HASHTABLE_IMPORT", (3, 1, 1), ()), O("HASHTABLE_FIND", (3, 0, 1), (2,))]
    table = O("HASHTABLE", (), (3,))
    graph = opened(M([S(tensors, [table, *ops], (0,), (2,))])).graph()
    assert [t.kind for t in graph.tensors] == ["activation", "constant", "opaque", "opaque"]


def test_what_vela_has_compiled_is_refused_with_the_reason() -> None:
    tensors = [T("x"), T("scratch", "uint8", (1, 64)), T("commands", "uint8", data=bytes(4)), T("y")]
    model = opened(M([S(tensors, [O("ethos-u", (2, 2, 1, 1, 0), (3,))], (0,), (3,))]))
    with pytest.raises(UnsupportedError, match=r"compiled for an Arm Ethos-U.*before Vela"):
        model.graph()


def test_sizes_that_depend_on_data_are_not_guessed() -> None:
    tensors = [T("x"), T("w", "int64", (1, 2), signature=(-1, 2)), T("n", "int64", (1, 2), signature=(-1, 2)), T("y")]
    ops = [O("WHERE", (0,), (1,)), O("NEG", (1,), (2,)), O("ABS", (0,), (3,))]
    kinds = [t.kind for t in opened(M([S(tensors, ops, (0,), (3,))])).graph().tensors]
    assert kinds == ["activation", "opaque", "opaque", "activation"]


def test_bindings_that_do_not_apply() -> None:
    with pytest.raises(ModelError, match="no symbolic dimensions"):
        opened(chain(), Bindings(dims={"N": 2}))
    with pytest.raises(ModelError, match="no input 'q'; there are 'x'"):
        opened(chain(), Bindings(input_shapes={"q": (1, 4)})).graph()
    same = opened(chain(), Bindings(input_shapes={"x": (1, 4)}))
    assert same.graph() == opened(chain()).graph()  # nothing to resize, so LiteRT is not asked


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"", "identifier"), (b"PK\x03\x04" + bytes(40), "identifier"), (b"\xff\xff\xff\x7fTFL3", "outside")],
)
def test_what_is_no_tflite_file(data: bytes, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        opened(data)


def test_a_newer_schema_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="version 4"):
        opened(build(replace(chain(), version=4)))


def test_a_file_is_found_by_its_suffix(tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(build(chain()))
    assert isinstance(load(path), TfliteConverter)
    (tmp_path / "bad.tflite").write_bytes(b"no")
    with pytest.raises(ModelError, match=r"bad\.tflite: not a TFLite file"):
        load(tmp_path / "bad.tflite")


# --- writing --------------------------------------------------------------------------------------------------------


def test_the_old_file_stands_untouched_behind_the_plan() -> None:
    original = build(chain(mine=b"keep me"))
    model = opened(original)
    content = model.with_plan(b"the plan", planned(model)).content()
    assert content.endswith(original)
    assert (len(content) - len(original)) % 64 == 0
    found = metadata(content)
    assert found["edgemem.plan"] == b"the plan"
    assert found["mine"] == b"keep me"
    assert opened(content).plan() == b"the plan"
    assert opened(content).graph() == model.graph()


def test_offsets_are_the_plans(tmp_path: Path) -> None:
    model = opened(branches())
    planset = planned(model)
    best = planset.best_offsets
    assert best is not None
    place = {
        name: offset
        for record, offset in zip(planset.problem.records, best.offsets.tolist(), strict=True)
        for name in record.tensors
    }
    model.with_plan(b"p", planset).save(tmp_path / "m.tflite")
    vector = offsets((tmp_path / "m.tflite").read_bytes())
    names = ["c", "x", "y", "z", *(f"IF_0.{k}/{n}" for k in (0, 1) for n in "imo")]
    assert vector == [place[n] for n in names]
    assert max(vector) > 0


def test_planning_twice_is_planning_once() -> None:
    model = opened(chain(mine=b"1"))
    planset = planned(model)
    once = model.with_plan(b"new", planset)
    twice = opened(model.with_plan(b"an older and longer plan" * 9, planset).content()).with_plan(b"new", planset)
    assert twice.content() == once.content()
    assert once.with_plan(b"new", planset).content() == once.content()


def test_a_plan_is_replaced_in_a_file_that_another_tool_rewrote() -> None:
    # As if the planned file had been unpacked and packed again: the entries are there, the prefix is not.
    rewritten = build(chain(**{"edgemem.plan": b"old", "OfflineMemoryAllocation": b"old", "z": b"z"}))
    model = opened(rewritten)
    assert model.plan() == b"old"
    content = model.with_plan(b"new", planned(model)).content()
    assert metadata(content)["edgemem.plan"] == b"new"
    assert len(offsets(content)) == 5
    assert metadata(content)["z"] == b"z"


def test_a_planned_file_that_was_tampered_with_is_taken_as_it_is() -> None:
    model = opened(chain())
    content = bytearray(model.with_plan(b"the plan", planned(model)).content())
    length = int.from_bytes(content[16:24], "little")
    content[length - 1] ^= 1  # in the padding, where nothing refers to
    assert split(bytes(content)) == (bytes(content), {})
    assert opened(bytes(content)).plan() == b"the plan"


def test_removing_what_was_added_gives_the_old_file() -> None:
    original = build(chain(a=b"1", b=b"22"))
    changed = write(original, {"a": None, "c": b"3" * 100})
    assert metadata(changed) == {"b": b"22", "c": b"3" * 100}
    assert split(changed) == (original, {"a": None, "c": b"3" * 100})
    assert metadata(write(original, {"a": None, "b": None})) == {}
    assert write(original, {"never there": None}) == original


def test_data_behind_the_flatbuffer_move_with_it() -> None:
    weights = [floats(*range(k, k + 4)) for k in (1, 5)]
    tensors = [T("x"), T("w", behind=weights[0]), T("a"), T("v", behind=weights[1]), T("y")]
    ops = [O("ADD", (0, 1), (2,), ADD_OPTIONS), O("ADD", (2, 3), (4,), ADD_OPTIONS)]
    original = build(M([S(tensors, ops, (0,), (4,))]))
    model = opened(original)
    assert [t.kind for t in model.graph().tensors] == [*("activation", "constant") * 2, "activation"]
    once = model.with_plan(b"p", planned(model)).content()
    for data in (original, once):
        buffers = [b for b in read(data).buffers if b.size == 16]
        assert [data[b.start : b.start + b.size] for b in buffers[:2]] == weights
        assert all(b.start % 16 == 0 for b in buffers)
    assert split(once)[0] == original
    assert opened(once).with_plan(b"p", planned(model)).content() == once


def test_a_file_compiled_for_an_accelerator_is_not_moved() -> None:
    model = opened(M([S([T("x"), T("y")], [O("DISPATCH_OP", (0,), (1,))], (0,), (1,))]))
    with pytest.raises(UnsupportedError, match="accelerator"):
        model.with_plan(b"p", planned(model)).content()


def test_a_file_that_only_lists_the_operator_of_compiled_files_is_planned() -> None:
    model = opened(M([S([T("x"), T("y")], [O("ABS", (0,), (1,))], (0,), (1,))], unused=("DISPATCH_OP",)))
    assert opened(model.with_plan(b"p", planned(model)).content()).plan() == b"p"


def test_operators_change_places_and_drop_the_plan() -> None:
    tensors = [T("x"), T("a"), T("b"), T("y")]
    ops = [O("ABS", (0,), (1,)), O("NEG", (0,), (2,)), O("ADD", (1, 2), (3,), ADD_OPTIONS)]
    original = build(M([S(tensors, ops, (0,), (3,))]))
    model = opened(original)
    swapped = opened(model.with_plan(b"old", planned(model)).content()).with_order((1, 0, 2))
    assert [op.type for op in swapped.graph().ops] == ["NEG", "ABS", "ADD"]
    assert swapped.plan() is None
    assert len(swapped.content()) == len(original)
    assert swapped.with_order((1, 0, 2)).content() == original
    assert model.with_order((0, 1, 2)) is model
    with pytest.raises(ModelError, match="before anything writes it"):
        model.with_order((2, 0, 1))
    again = swapped.with_plan(b"new", planned(swapped)).content()
    assert [op.type for op in opened(again).graph().ops] == ["NEG", "ABS", "ADD"]
    foreign = opened(build(M([S(tensors, ops, (0,), (3,))], metadata={"OfflineMemoryAllocation": b"x"})))
    assert metadata(foreign.with_order((1, 0, 2)).content()) == {}  # it would be wrong without a word


def test_offsets_that_tensorflow_lite_micro_cannot_use() -> None:
    model = opened(chain())
    planset = planned(model)
    best = planset.best_offsets
    assert best is not None
    for offset, message in ((8, "multiples of 16"), (2**31, "below 2 GiB")):
        wrong = replace(best, offsets=np.full_like(best.offsets, offset))
        with pytest.raises(InvalidPlanError, match=message):
            model.with_plan(b"p", replace(planset, offsets=(wrong,)))
    loose = api.plan(model, strategy="offsets/greedy_by_size", alignment=4)
    assert list(metadata(model.with_plan(b"p", loose).content())) == ["edgemem.plan", "edgemem.summary"]
    objects = api.plan(model, strategy="shared_objects/greedy_by_size")
    again = opened(model.with_plan(b"o", planset).content()).with_plan(b"p", objects)
    assert sorted(metadata(again.content())) == ["edgemem.plan", "edgemem.summary"]
    with pytest.raises(InvalidPlanError, match="does not have"):
        opened(branches()).with_plan(b"p", planset)


# --- what may share, as LiteRT has it -------------------------------------------------------------------------------


def records(tensors: list[T], ops: list[O], outputs: tuple[int, ...], target: str) -> set[tuple[str, ...]]:
    graph = opened(M([S(tensors, ops, (0,), outputs)])).graph()
    rules = BUILT_IN[target] if target in BUILT_IN else replace(BUILT_IN["tflm"], aliasing=target)
    return {r.tensors for r in lifetimes(graph, rules).problem.records}


def test_litert_overwrites_only_what_has_one_reader() -> None:
    tensors = [T("x"), T("a"), T("b"), T("c"), T("y")]
    ops = [
        O("EXP", (0,), (1,)),
        O("NEG", (1,), (2,)),
        O("ADD", (1, 2), (3,), ADD_OPTIONS),
        O("EXP", (3,), (4,)),
    ]
    # ADD is the last to read `a`, but not the only one; `b` is read by nothing else.
    assert ("b", "c") in records(tensors, ops, (4,), "litert")
    assert ("a", "c") in records(tensors, ops, (4,), "elementwise")


def test_litert_shares_nothing_as_small_as_a_number() -> None:
    ops = [O("EXP", (0,), (1,)), O("ADD", (1, 1), (2,), ADD_OPTIONS), O("EXP", (2,), (3,))]
    shapes = [T(n, shape=(1,)) for n in "xaby"]
    assert ("a",) in records(shapes, ops, (3,), "litert")
    assert ("a", "b") in records(shapes, ops, (3,), "elementwise")


def test_litert_views_outputs_and_never_releases_what_nothing_reads() -> None:
    tensors = [T("x"), T("a"), T("v"), T("n"), T("y")]
    ops = [O("EXP", (0,), (1,)), O("SQUEEZE", (1,), (2,)), O("EXP", (2,), (3,)), O("EXP", (2,), (4,))]
    graph = opened(M([S(tensors, ops, (0,), (1, 4))])).graph()
    lives = {r.name: (r.first_op, r.last_op, r.tensors) for r in lifetimes(graph, BUILT_IN["litert"]).problem.records}
    assert lives["a"] == (0, 3, ("a", "v"))
    assert lives["n"] == (2, 3, ("n",))
    lives = {r.name: (r.first_op, r.last_op, r.tensors) for r in lifetimes(graph, BUILT_IN["tflm"]).problem.records}
    assert lives["n"] == (2, 2, ("n",))
