"""Relations of the records of a graph, under targets with a kernel profile or with slots."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from edgemem import api
from edgemem.model.graph import Graph, Op, Tensor
from edgemem.records.lifetime import lifetimes
from edgemem.records.nests import Nests
from edgemem.targets import BUILT_IN, Target

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy as np
    from numpy.typing import NDArray

    from edgemem.model.graph import Attribute
    from edgemem.records.problem import Problem

TFLM = BUILT_IN["tflm"]
ANY = replace(TFLM, aliasing="elementwise")  # elementwise operators are in place, whatever the kernels
OVERLAP = replace(TFLM, kernels="tflm-reference")
SLOTS = replace(TFLM, slots=True)
BOTH = replace(OVERLAP, slots=True)


class Net:
    """A graph over float32 tensors [1, rows, 4], which are named by letters; capital letters are constants."""

    def __init__(self, inputs: str = "x", **rows: int) -> None:
        self.rows = rows
        self.names: dict[str, int] = {}
        self.ops: list[Op] = []
        self.inputs = self.index(inputs)

    def index(self, names: str) -> tuple[int, ...]:
        return tuple(self.names.setdefault(name, len(self.names)) for name in names)

    def op(self, kind: str, reads: str, writes: str, **attributes: Attribute) -> Net:
        self.ops.append(
            Op(f"{kind}{len(self.ops)}", kind, self.index(reads), self.index(writes), attributes=attributes)
        )
        return self

    def slice(self, source: str, result: str, row: int) -> Net:
        return self.op("SLICE", source, result, begin=(0, row, 0), size=(1, self.rows[result], 4))

    def join(self, pieces: str, result: str) -> Net:
        return self.op("CONCATENATION", pieces, result, axis=1)

    def graph(self, outputs: str) -> Graph:
        tensors = tuple(
            Tensor(name, "float32", (1, self.rows.get(name, 1), 4), "constant" if name.isupper() else "activation")
            for name in self.names
        )
        return Graph("g", tensors, tuple(self.ops), self.inputs, self.index(outputs))


def problem_of(net: Net, target: Target, outputs: str = "y") -> Problem:
    return lifetimes(net.graph(outputs), target).problem


def _named(problem: Problem, rows: NDArray[np.int64] | None) -> Mapping[str, int]:
    names = ["".join(record.tensors) for record in problem.records]
    return {f"{names[i]} {names[j]}": number for i, j, number in ([] if rows is None else rows.tolist())}


def overlaps(problem: Problem) -> Mapping[str, int]:
    return _named(problem, problem.overlap)


def within(problem: Problem) -> Mapping[str, int]:
    return _named(problem, problem.within)


def test_other_targets_have_no_relations() -> None:
    net = Net(x=4, a=2, b=2).op("RELU", "x", "a").slice("a", "b", 0).join("b", "y")
    for target in (*BUILT_IN.values(), Target("textures", texels=True, kernels="tflm-reference", slots=True)):
        problem = lifetimes(net.graph("y"), target).problem
        assert problem.overlap is None
        assert problem.within is None
        assert problem.roles is None


def test_an_input_that_dies_is_related_to_the_output() -> None:
    net = Net(x=4, a=4, b=4, y=4).op("RELU", "x", "a").op("RELU", "a", "b").op("ADD", "ab", "y")
    problem = problem_of(net, OVERLAP)
    assert overlaps(problem) == {"x a": 0, "a y": 0, "b y": 0}  # a is read again after b is made
    assert [record.tensors for record in problem.records] == [("x",), ("a",), ("b",), ("y",)]


def test_what_is_kept_or_read_twice_is_not_related() -> None:
    net = Net(x=4, a=4, y=4).op("RELU", "x", "a").op("ADD", "aa", "y")
    assert overlaps(problem_of(net, OVERLAP)) == {"x a": 0}
    assert overlaps(problem_of(net, OVERLAP, outputs="ay")) == {"x a": 0}
    assert overlaps(problem_of(net, replace(OVERLAP, inputs="whole_run"))) == {}
    assert overlaps(problem_of(net, replace(OVERLAP, inputs="outside"))) == {}


def test_two_names_of_one_memory_are_one_input() -> None:
    net = Net(x=4, a=4, b=4, y=4).op("RELU", "x", "a").op("RESHAPE", "a", "b").op("ADD", "ab", "y")
    problem = problem_of(net, OVERLAP)
    assert [record.tensors for record in problem.records] == [("x",), ("a", "b"), ("y",)]
    assert overlaps(problem) == {"x ab": 0}


def test_a_view_is_an_input_at_the_place_of_its_tensor() -> None:
    net = Net(x=4, a=4, b=4, y=4).op("RELU", "x", "a").op("RESHAPE", "a", "b").op("RELU", "b", "y")
    assert overlaps(problem_of(net, OVERLAP)) == {"x ab": 0, "ab y": 0}


def test_operators_without_a_distance_do_not_write_in_place() -> None:
    net = Net(x=4, a=4, b=4, y=4).op("Conv", "x", "a").op("Neg", "a", "b").op("Conv", "b", "y")
    problem = problem_of(net, OVERLAP)
    assert overlaps(problem) == {}
    assert [record.tensors for record in problem.records] == [("x",), ("a",), ("b",), ("y",)]
    assert [record.tensors for record in problem_of(net, ANY).records] == [("x",), ("a", "b"), ("y",)]


def test_a_pinned_record_has_no_relations() -> None:
    net = Net(x=4, a=4, y=4).op("RELU", "x", "a").op("RELU", "a", "y")
    assert overlaps(problem_of(net, replace(OVERLAP, pins={"a": 64}))) == {}


def test_slices_lie_in_their_input_and_pieces_in_their_concatenation() -> None:
    net = Net(x=8, a=4, b=4, c=4, d=4, y=8).slice("x", "a", 0).slice("x", "b", 4)
    net.op("Conv", "a", "c").op("Conv", "b", "d").join("cd", "y")
    problem = problem_of(net, SLOTS)
    assert within(problem) == {"a x": 0, "b x": 64, "c y": 0, "d y": 64}
    assert problem.overlap is None


def test_a_kept_tail_is_free() -> None:
    net = Net(x=8, t=2, c=4, y=6).slice("x", "t", 6).op("Conv", "x", "c").join("tc", "y")
    assert within(problem_of(net, SLOTS)) == {"c y": 32}


def test_a_place_that_is_no_multiple_of_the_alignment_is_a_copy() -> None:
    net = Net(x=8, a=4, y=4).slice("x", "a", 1).op("Conv", "a", "y")
    assert within(problem_of(net, SLOTS)) == {"a x": 16}
    assert within(problem_of(net, replace(SLOTS, alignment=32))) == {}


def test_slices_that_share_bytes_are_both_inside() -> None:
    net = Net(x=8, a=4, b=4, c=4, y=4).slice("x", "a", 0).slice("x", "b", 2)
    net.op("Conv", "a", "c").op("Conv", "bc", "y")
    assert within(problem_of(net, SLOTS)) == {"a x": 0, "b x": 32}
    # A result is not written in the place of a, which would change b.
    net = Net(x=8, a=4, b=4, c=4, y=4).slice("x", "a", 0).slice("x", "b", 2).op("Neg", "a", "c").op("Conv", "bc", "y")
    assert within(problem_of(net, SLOTS)) == {"a x": 0, "b x": 32}
    one_by_one = Net(x=8, a=4, b=4, c=4, d=4, y=4).slice("x", "a", 0).op("Conv", "a", "c").slice("x", "b", 2)
    one_by_one.op("Conv", "b", "d").op("Conv", "cd", "y")
    assert within(problem_of(one_by_one, SLOTS)) == {"a x": 0, "b x": 32}


def test_what_is_written_again_has_no_record_inside() -> None:
    """a would hold the old values of x's memory, and the operator in place writes new ones."""
    net = Net(x=8, w=8, a=4, v=8, c=8, y=8).op("Conv", "x", "w").slice("w", "a", 0).op("Neg", "w", "v")
    net.op("Conv", "va", "y")
    slots = replace(ANY, slots=True)
    assert [r.tensors for r in lifetimes(net.graph("y"), slots).problem.records][:3] == [("x",), ("w", "v"), ("a",)]
    assert within(problem_of(net, slots)) == {}
    # What is written before the slice is cut does no harm.
    net = Net(x=8, w=8, a=4, v=8, y=8).op("Conv", "x", "w").op("Neg", "w", "v").slice("v", "a", 0)
    net.op("Conv", "va", "y")
    assert within(problem_of(net, slots)) == {"a wv": 0}


def test_a_slice_is_not_written_over_in_place() -> None:
    net = Net(x=8, a=4, b=4, y=4).slice("x", "a", 0).op("Neg", "a", "b").op("Conv", "bx", "y")
    assert within(problem_of(net, SLOTS)) == {"a x": 0}
    # With a profile the two are related instead, which the parent's use forbids in any plan.
    net = Net(x=8, a=4, b=4, y=4).slice("x", "a", 0).op("RELU", "a", "b").op("Conv", "bx", "y")
    assert overlaps(problem_of(net, BOTH)) == {"a b": 0}


def test_chains_of_slots() -> None:
    net = Net(x=8, a=4, b=2, c=2, d=2, w=4, y=8, e=4).slice("x", "a", 4).slice("a", "b", 2)
    net.op("Conv", "b", "c").op("Conv", "b", "d").join("cd", "w").op("Conv", "x", "e").join("we", "y")
    assert within(problem_of(net, SLOTS)) == {"a x": 64, "b a": 32, "c w": 0, "d w": 32, "w y": 0, "e y": 64}


def test_a_tensor_of_two_concatenations_lies_in_the_first() -> None:
    net = Net(x=4, a=4, b=4, w=8, y=8).op("Conv", "x", "a").op("Conv", "x", "b").join("ab", "w").join("ba", "y")
    assert within(problem_of(net, SLOTS, outputs="wy")) == {"a w": 0, "b w": 64}


def test_stripes_of_one_layer_have_one_role() -> None:
    net = Net(x=8, a=4, b=4, c=4, d=4, t=2, w=6, e=4, f=4, y=8, p=4, q=4).slice("x", "a", 0).slice("x", "b", 4)
    net.op("PAD", "aP", "p").op("CONV_2D", "pW", "c").op("CONV_2D", "cV", "e")
    net.slice("c", "t", 2).op("PAD", "bQ", "q").op("CONV_2D", "qW", "d").join("td", "w").op("CONV_2D", "wV", "f")
    net.join("ef", "y")
    problem = problem_of(net, SLOTS)
    assert problem.roles is not None
    roles: dict[int, str] = {}
    for record, role in zip(problem.records, problem.roles.tolist(), strict=True):
        roles[role] = roles.get(role, "") + record.name
    alone = roles.pop(-1)
    assert sorted(roles.values()) == ["ab", "cd", "ef", "pq"]
    assert sorted(alone) == ["t", "w", "x", "y"]


def test_other_weights_are_another_role() -> None:
    net = Net(x=8, a=4, b=4, c=4, d=4, y=8).slice("x", "a", 0).slice("x", "b", 4)
    net.op("CONV_2D", "aW", "c").op("CONV_2D", "bV", "d").join("cd", "y")
    roles = problem_of(net, SLOTS).roles
    assert roles is not None
    assert len([role for role in roles.tolist() if role >= 0]) == 2  # the slices


def test_tensors_of_bodies_have_no_relations() -> None:
    body = Net("p", p=4, q=4).op("RELU", "p", "q").graph("q")
    inner = replace(body, tensors=tuple(replace(t, name=f"body/{t.name}") for t in body.tensors))
    net = Net(x=4, a=4, b=4, y=4).op("RELU", "x", "a").op("IF", "a", "b").op("RELU", "b", "y")
    net.ops[1] = replace(net.ops[1], bodies=(inner, inner))
    graph = replace(net.graph("y"))
    names = {name for pair in overlaps(lifetimes(graph, OVERLAP).problem) for name in pair.split()}
    assert names <= {"x", "a", "y", "b"}
    assert not any("body" in name for name in names)


@pytest.mark.parametrize(("kind", "is_in_place"), [("RELU", True), ("Neg", False)])
def test_operators_in_bodies_write_in_place_if_their_distance_permits_it(kind: str, *, is_in_place: bool) -> None:
    body = Net("p", p=4, q=4, r=4, s=4).op("Conv", "p", "q").op(kind, "q", "r").op("Conv", "r", "s").graph("s")
    bodies = [replace(body, tensors=tuple(replace(t, name=f"{k}/{t.name}") for t in body.tensors)) for k in range(2)]
    net = Net(x=4, y=4).op("IF", "x", "y")
    net.ops[0] = replace(net.ops[0], bodies=tuple(bodies))
    graph = net.graph("y")
    planset = api.plan(graph, target=OVERLAP)
    assert any({"0/q", "0/r"} <= set(record.tensors) for record in planset.problem.records) == is_in_place
    assert any({"0/q", "0/r"} <= set(record.tensors) for record in lifetimes(graph, ANY).problem.records)
    assert not any({"0/q", "0/r"} <= set(record.tensors) for record in lifetimes(graph, TFLM).problem.records)


@pytest.mark.parametrize("profile", ["cmsis-nn-dsp", "cmsis-nn-mve", "esp-nn"])
def test_each_profile_gives_its_own_rows(profile: str) -> None:
    window = {"kernel": (1, 1), "stride": (1, 1), "dilation": (1, 1), "pads": (0, 0, 0, 0)}
    tensors = (
        Tensor("x", "int8", (1, 4, 4, 4)),
        Tensor("w", "int8", (2, 1, 1, 4), "constant"),
        Tensor("y", "int8", (1, 4, 4, 2)),
    )
    op = Op("c", "CONV_2D", (0, 1), (2,), attributes=window)
    graph = Graph("g", tensors, (op,), (0,), (2,))
    found = lifetimes(graph, replace(TFLM, kernels=profile)).problem.overlap
    assert (None if found is None else found.tolist()) == ([[0, 1, 7]] if profile == "cmsis-nn-mve" else None)


def test_a_record_is_in_one_nest_at_one_place() -> None:
    nests = Nests([(0, 9, 64), (1, 3, 32), (2, 5, 32), (4, 6, 16)], 16, {})
    assert nests.put(1, 0, 0)
    assert not nests.put(1, 2, 0)  # it lies in another one
    assert not nests.put(0, 1, 0)  # in itself
    assert not nests.put(2, 0, 24)  # not aligned
    assert not nests.put(2, 0, 48)  # beyond the end
    assert nests.put(3, 2, 16)
    assert nests.put(2, 0, 32)
    assert nests.rows() == ((1, 0, 0), (2, 0, 32), (3, 2, 16))


def test_records_of_one_nest_may_share_bytes() -> None:
    nests = Nests([(0, 2, 64), (1, 5, 32), (2, 6, 32), (2, 4, 32), (2, 3, 16)], 16, {})
    assert nests.put(4, 3, 16)
    assert nests.put(1, 0, 0)
    assert nests.put(2, 0, 16)
    assert nests.put(3, 0, 32)
    assert nests.rows() == ((1, 0, 0), (2, 0, 16), (3, 0, 32), (4, 3, 16))
    # Unless something is written into one of them while the other is in use.
    spans = [(0, 2, 64), (1, 5, 32), (2, 6, 32)]
    for writes, possible in (({1: [4]}, False), ({2: [3]}, False), ({2: [6]}, True)):
        nests = Nests(spans, 16, writes)
        assert nests.put(1, 0, 0)
        assert nests.put(2, 0, 16) == possible
        assert nests.put(2, 0, 32) != possible  # beside it
    inner = Nests([(0, 2, 64), (1, 6, 32), (1, 5, 32), (2, 6, 16)], 16, {3: [6]})
    assert inner.put(1, 0, 16)
    assert inner.put(3, 2, 0)
    assert not inner.put(2, 0, 16)  # 3 would lie in 1


@pytest.mark.full
def test_a_great_many_slices_and_chains_are_nested_at_once() -> None:
    count = 100_000
    slices = Nests([(0, 9, 2 * count)] + [(1, 9, 16)] * count, 1, {})
    assert all(slices.put(i, 0, i) for i in range(1, count))
    chain = Nests([(0, 9, 8)] * count, 1, {})
    assert all(chain.put(i, i + 1, 0) for i in range(count - 1))
    assert not chain.put(count - 1, 0, 0)


def test_records_that_are_never_in_use_together_are_not_nested() -> None:
    assert not Nests([(0, 2, 64), (3, 4, 32)], 16, {}).put(1, 0, 0)


def test_nests_know_what_is_written() -> None:
    spans = [(0, 9, 64), (1, 5, 32), (3, 7, 32)]
    assert not Nests(spans, 16, {0: [4]}).put(1, 0, 0)
    assert not Nests(spans, 16, {1: [2]}).put(1, 0, 0)
    assert Nests(spans, 16, {0: [8]}).put(1, 0, 0)
    nests = Nests(spans, 16, {1: [2, 4]})
    assert nests.put(2, 0, 0)  # and 1 would share its bytes
    assert not nests.put(1, 0, 32)
