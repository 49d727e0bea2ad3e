"""How long bodies need what they take in and give back, and what of it is one piece of memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from edgemem.model.control import OPERATOR, Copy, events_of
from edgemem.model.graph import Graph, Op, Tensor
from edgemem.proof import Cause, verify_planset
from edgemem.records.lifetime import lifetimes
from edgemem.targets import BUILT_IN, Target
from tests.unit.test_rehearsal import by_hand

TFLM = replace(BUILT_IN["tflm"], aliasing="none")


def graph_of(
    name: str, tensors: str, inputs: str, outputs: str, *ops: tuple[str, str, str, tuple[Graph, ...]], number: int = -1
) -> Graph:
    """A graph of operators (type, inputs, outputs, bodies) over tensors of 16 bytes, named after it and a letter."""
    made = tuple(Tensor(f"{name}{letter}", "float32", (4,)) for letter in tensors)
    listed = tuple(
        Op(f"{kind}{k}", kind, tuple(map(tensors.index, reads)), tuple(map(tensors.index, writes)), bodies)
        for k, (kind, reads, writes, bodies) in enumerate(ops)
    )
    return Graph(
        name, made, listed, tuple(map(tensors.index, inputs)), tuple(map(tensors.index, outputs)), number=number
    )


def spans(graph: Graph, target: Target = TFLM, *, apart: bool = False) -> dict[str, tuple[int, int]]:
    records = lifetimes(graph, target, apart=apart).problem.records
    return {" ".join(r.tensors): (r.first_op, r.last_op) for r in records}


def loop(condition: Graph, body: Graph) -> Graph:
    """x, y -> NEG, NEG -> WHILE -> NEG of its first output."""
    before = (("NEG", "x", "a", ()), ("NEG", "y", "b", ()))
    return graph_of("", "xyabcdz", "xy", "z", *before, ("WHILE", "ab", "cd", (condition, body)), ("NEG", "c", "z", ()))


LESS = graph_of("C", "ijlo", "ij", "o", ("NEG", "i", "l", ()), ("LESS", "l", "o", ()))


def test_a_while_loop() -> None:
    body = graph_of("B", "ijkmn", "ij", "mn", ("ADD", "ij", "k", ()), ("NEG", "k", "m", ()), ("NEG", "k", "n", ()))
    # 0, 1: NEG. 2, 3: the condition. 4, 5, 6: the body. 7: WHILE. 8: NEG.
    assert spans(loop(LESS, body)) == {
        "x": (0, 0),
        "y": (0, 1),
        "a": (0, 7),
        "b": (1, 7),
        "c Bi": (2, 8),  # nothing is copied from c to Bi, and c stays until the body is done
        "d Cj Bj": (2, 7),  # the condition does not read its j
        "z": (8, 8),
        "Ci": (2, 2),  # a is copied there first, and c later
        "Cl": (2, 3),
        "Co": (3, 3),
        "Bk": (4, 6),
        "Bm": (5, 6),
        "Bn": (6, 6),
    }
    apart = spans(loop(LESS, body), apart=True)
    assert (apart["c"], apart["Bi"], apart["Bj"], apart["Cj"]) == ((2, 8), (4, 4), (4, 4), (2, 2))


def test_states_that_change_places_keep_memory_of_their_own() -> None:
    body = graph_of("B", "ijk", "ij", "ji", ("NEG", "i", "k", ()))
    found = spans(loop(LESS, body))
    # d is written from j before, or after, i is read: so neither may lie on an output.
    assert (found["Bi"], found["Bj"], found["c"]) == ((4, 4), (4, 4), (2, 6))
    kept = graph_of("B", "ijk", "ij", "kj", ("NEG", "i", "k", ()))
    assert {"c Bi", "d Cj Bj"} <= set(spans(loop(LESS, kept)))


def test_a_condition_without_operators() -> None:
    flag = graph_of("C", "ij", "ij", "j")
    body = graph_of("B", "ijmn", "ij", "mn", ("NEG", "i", "m", ()), ("NEG", "j", "n", ()))
    found = spans(loop(flag, body))
    assert found["Cj"] == (2, 2)  # the first step of the body: it is read before that
    assert found["c Ci Bi"] == (2, 5)


def branches(then: Graph, other: Graph) -> Graph:
    """f, x -> NEG -> IF -> NEG."""
    return graph_of(
        "", "fxaby", "fx", "y", ("NEG", "x", "a", ()), ("IF", "fa", "b", (then, other)), ("NEG", "b", "y", ())
    )


def test_branches() -> None:
    then = graph_of("T", "ikm", "i", "m", ("NEG", "i", "k", ()), ("NEG", "k", "m", ()))
    other = graph_of("E", "im", "i", "m", ("NEG", "i", "m", ()))
    # 0: NEG. 1, 2: then. 3: else. 4: IF. 5: NEG.
    assert spans(branches(then, other)) == {
        "f": (0, 4),
        "x": (0, 0),
        "a Ti Ei": (0, 4),
        "Tk": (1, 2),
        "Tm Em": (2, 4),
        "b": (4, 5),
        "y": (5, 5),
    }


def test_branches_in_branches_take_in_the_same_original() -> None:
    arms = tuple(graph_of(name, "im", "i", "m", ("NEG", "i", "m", ())) for name in "UV")
    then = graph_of("T", "gim", "gi", "m", ("IF", "gi", "m", arms))
    other = graph_of("E", "gim", "gi", "m", ("NEG", "i", "m", ()))
    before, after = ("NEG", "x", "a", ()), ("NEG", "b", "y", ())
    found = spans(graph_of("", "fgxaby", "fgx", "y", before, ("IF", "fga", "b", (then, other)), after))
    # 0: NEG. 1, 2: the arms. 3: the inner IF. 4: else. 5: IF. 6: NEG.
    assert found == {
        "f": (0, 5),
        "g Tg Eg": (0, 5),
        "x": (0, 0),
        "a Ti Ei Ui Vi": (0, 5),
        "Um Vm": (1, 3),
        "Tm Em": (3, 5),
        "b": (5, 6),
        "y": (6, 6),
    }


def test_branches_that_give_back_what_they_take_in() -> None:
    then = graph_of("T", "i", "i", "i")
    other = graph_of("E", "im", "i", "m", ("NEG", "i", "m", ()))
    assert spans(branches(then, other)) == {
        "f": (0, 2),
        "x": (0, 0),
        "a Ti Ei": (0, 2),
        "Em": (1, 1),
        "b": (1, 3),
        "y": (3, 3),
    }


def test_a_graph_that_two_operators_run_is_in_one_place() -> None:
    def arm(name: str) -> Graph:
        return graph_of(name, "im", "i", "m", ("NEG", "i", "m", ()), number=1)

    first, then = ("IF", "fx", "a", (arm("P"), arm("Q"))), ("IF", "fa", "b", (arm("R"), arm("S")))
    graph = graph_of("", "fxab", "fx", "b", first, then, number=0)
    assert spans(graph) == {
        "f": (0, 5),
        "x": (0, 2),
        "Pi Qi Ri Si": (0, 4),
        "Pm Qm Rm Sm": (0, 4),
        "a": (0, 5),
        "b": (3, 5),
    }
    assert spans(graph, apart=True)["Sm"] == (4, 4)


def test_pinned_tensors_share_their_memory_with_none() -> None:
    then = graph_of("T", "im", "i", "m", ("NEG", "i", "m", ()))
    other = graph_of("E", "im", "i", "m", ("NEG", "i", "m", ()))
    found = spans(branches(then, other), replace(TFLM, pins={"Ti": 256, "Em": 512}))
    assert {"Ti", "a Ei", "Tm", "Em"} <= set(found)


def test_which_tensors_a_copy_is_between() -> None:
    body = graph_of("B", "ij", "ij", "ij")
    (_, op, _) = branches(graph_of("T", "i", "i", "i"), graph_of("E", "i", "i", "i")).ops
    enter, _, leave, *_ = events_of(op)
    assert isinstance(enter, Copy)
    assert isinstance(leave, Copy)
    assert (enter.source, enter.to, enter.pairs(op)) == ((OPERATOR, "inputs"), (0, "inputs"), ((1, 0),))
    assert leave.pairs(op) == ((0, 0),)
    unknown = replace(loop(LESS, body).ops[2], type="Loop")
    assert all(not event.pairs(unknown) for event in events_of(unknown) if isinstance(event, Copy))


MOVES = {"": True, "Bi": False, "c Bi": False, "Bk": False, "Bn": False, "Bm": True}  # Bm is what c becomes


@pytest.mark.parametrize("move", MOVES)
def test_the_proof_knows_what_is_not_copied(move: str) -> None:
    """c and Bi in one place are right, but not c and Bj, or anything else on c while the loop runs."""
    body = graph_of("B", "ijkmn", "ij", "mn", ("ADD", "ij", "k", ()), ("NEG", "k", "m", ()), ("NEG", "k", "n", ()))
    graph = loop(LESS, body)
    rows = [(record, 16 * at) for at, record in enumerate(lifetimes(graph, TFLM).problem.records)]
    place = {" ".join(record.tensors): offset for record, offset in rows}
    if move == "Bi":  # with d and Bj instead of c
        swapped = {"c Bi": ("c", "Bj"), "d Cj Bj": ("d", "Cj", "Bi")}
        rows = [(replace(r, tensors=swapped.get(" ".join(r.tensors), r.tensors)), at) for r, at in rows]
    elif move:
        on = "d Cj Bj" if move == "c Bi" else "c Bi"
        rows = [(r, place[on] if " ".join(r.tensors) == move else at) for r, at in rows]
    # What the rehearsal finds counts here: the usage intervals of these records overlap.
    found = verify_planset(by_hand(graph, TFLM, rows), graph)
    assert (not {v.cause for v in found} & {Cause.OVERWRITTEN, Cause.CLOBBERED_INPUT}) is MOVES[move]
