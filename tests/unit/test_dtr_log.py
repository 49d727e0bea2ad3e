"""Logs of DTR's prototype: what each instruction means, and what is refused."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest

from edgemem.errors import ModelError
from edgemem.trace.budget import ReadingBudget
from tests.bench.remat.log_files import load_operator_log
from tests.data import shared_file
from tests.operator_logs import DTR_LOGS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.bench.remat.operator_log import OperatorLog

Line = dict[str, Any]


def constant(name: str, size: int = 64) -> list[Line]:
    return [{"INSTRUCTION": "CONSTANT", "NAME": name}, {"INSTRUCTION": "MEMORY", "NAME": name, "MEMORY": str(size)}]


def call(args: list[str], *results: tuple[str, int] | tuple[str, int, int], name: str = "op") -> list[Line]:
    """Results are name, bytes and the argument that they are a view of."""
    named = [r[0] for r in results]
    lines: list[Line] = [{"INSTRUCTION": "CALL", "NAME": name, "TIME": "10", "ARGS": args, "RESULT": named}]
    for result in results:
        alias = str(result[2]) if len(result) == 3 else "-1"
        lines.append({"INSTRUCTION": "MEMORY", "NAME": result[0], "MEMORY": str(result[1])})
        lines.append({"INSTRUCTION": "ALIAS", "NAME": result[0], "ALIAS": alias})
    return lines


def mutate(args: list[str], *which: int) -> list[Line]:
    return [{"INSTRUCTION": "MUTATE", "NAME": "add_", "TIME": "5", "ARGS": args, "MUTATE": list(which)}]


def copy(target: str, source: str) -> list[Line]:
    return [{"INSTRUCTION": "COPY", "DST": target, "SRC": source}]


def release(*names: str) -> list[Line]:
    return [{"INSTRUCTION": "RELEASE", "NAME": name} for name in names]


START: list[Line] = [{"INSTRUCTION": "ANNOTATE", "ANNOTATION": "START"}]


def read(folder: Path, *parts: list[Line]) -> OperatorLog:
    path = folder / "run.log"
    path.write_text("".join(json.dumps(line) + "\n" for part in parts for line in part))
    return load_operator_log(path)


def events(log: OperatorLog) -> list[tuple[int, int]]:
    return list(zip(log.event_kind.tolist(), log.event_index.tolist(), strict=True))


def test_a_call_reads_and_writes_storages(tmp_path: Path) -> None:
    log = read(tmp_path, START, constant("a"), call(["a", "a"], ("b", 8), ("c", 16), name="f"), release("a", "b"))
    assert log.names == ("f",)
    assert (log.reads.rows(), log.writes.rows(), log.size.tolist()) == (((0,),), ((1, 2),), [64, 8, 16])
    assert events(log) == [(1, 0), (0, 0), (2, 0), (2, 1)]
    assert log.cost.tolist() == [10]


def test_a_view_is_the_storage_itself_and_its_operator_no_call(tmp_path: Path) -> None:
    log = read(tmp_path, constant("a"), call(["a"], ("v", 64, 0)), call(["v"], ("b", 8)), release("a", "b"))
    assert log.reads.rows() == ((0,),)
    assert events(log) == [(1, 0), (0, 0), (2, 1)]  # the view holds the constant
    assert log.total_cost == 10


def test_a_call_may_make_views_and_storages_at_once(tmp_path: Path) -> None:
    log = read(tmp_path, constant("a"), call(["a"], ("v", 64, 0), ("b", 8)), release("a", "v"))
    assert log.writes.rows() == ((1,),)
    assert events(log)[-1] == (2, 0)


def test_a_call_without_results_reads(tmp_path: Path) -> None:
    log = read(tmp_path, constant("a"), call(["a"]))
    assert (log.reads.rows(), log.writes.rows()) == (((0,),), ((),))


def test_a_change_in_place_is_seen_through_all_names_and_views(tmp_path: Path) -> None:
    log = read(
        tmp_path,
        constant("a"),
        call(["a"], ("b", 8)),
        copy("c", "b"),
        call(["b"], ("v", 8, 0)),
        mutate(["v", "a"], 0),
        call(["c"], ("d", 4)),
        release("b", "c", "v"),
    )
    assert log.takes.tolist() == [-1, 1, -1]
    assert log.reads.rows() == ((0,), (1, 0), (2,))
    assert events(log)[-1] == (2, 2)  # the new version; the call itself lets go of the old one


def test_a_second_argument_that_changes_gets_a_new_value_too(tmp_path: Path) -> None:
    log = read(tmp_path, constant("a"), constant("b", 8), mutate(["a", "b", "a"], 0, 1, 2))
    assert (log.takes.tolist(), log.writes.rows(), log.size.tolist()) == ([0], ((2, 3),), [64, 8, 64, 8])
    assert events(log)[-1] == (2, 1)


def test_a_name_may_be_bound_to_another_tensor(tmp_path: Path) -> None:
    rebound: list[Line] = [{"INSTRUCTION": "COPY_FROM", "DST": "a", "SRC": "b"}]
    log = read(tmp_path, constant("a"), constant("b"), rebound, release("b"), call(["a"], ("c", 1)))
    assert events(log) == [(1, 0), (1, 1), (2, 0), (0, 0)]
    assert log.reads.rows() == ((1,),)


def test_binding_a_name_to_its_own_tensor_changes_nothing(tmp_path: Path) -> None:
    rebound: list[Line] = [{"INSTRUCTION": "COPY_FROM", "DST": "a", "SRC": "a"}]
    assert events(read(tmp_path, constant("a"), rebound)) == [(1, 0)]


def test_what_was_before_the_start_is_a_constant(tmp_path: Path) -> None:
    log = read(tmp_path, constant("a"), call(["a"], ("b", 8)), release("a"), START, call(["b"], ("c", 4)))
    assert (log.size.tolist(), events(log)) == ([8, 4], [(1, 0), (0, 0)])


def test_a_compressed_log_is_read(tmp_path: Path) -> None:
    text = "".join(json.dumps(line) + "\n\n" for line in constant("a"))
    (tmp_path / "run.LOG.gz").write_bytes(gzip.compress(text.encode()))
    assert load_operator_log(tmp_path / "run.LOG.gz").size.tolist() == [64]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([{"INSTRUCTION": "JUMP"}], r"line 1: the instruction 'JUMP' does not stand here"),
        ([{"NAME": "a"}], "line 1: INSTRUCTION is None, not a text"),
        (constant("a")[1:], "the instruction 'MEMORY' does not stand here"),
        (constant("a")[:1], "line 1: no MEMORY follows"),
        ([*constant("a")[:1], *constant("b")], "line 1: no MEMORY follows"),
        ([*constant("a"), *constant("a")], "line 3: there is a tensor of the name 'a' already"),
        (constant("a", -1), "MEMORY is '-1', not a number from 0 up|MEMORY is -1"),
        (constant("a", 1 << 63), "MEMORY is .*, not a number"),
        (release("a"), "no tensor has the name 'a'"),
        (copy("b", "a"), "no tensor has the name 'a'"),
        (call(["a"], ("b", 1)), "no tensor has the name 'a'"),
        ([*constant("a"), *call(["a"], ("b", 1, 1))], "a view of argument 1, but there are 1"),
        ([*constant("a"), *mutate(["a"], 1)], "MUTATE names none of the 1 arguments"),
        ([*constant("a"), *mutate(["a"])], "MUTATE names none of the 1 arguments"),
        ([*constant("a"), {**mutate(["a"], 0)[0], "MUTATE": ["0"]}], "MUTATE is '0', not a number"),
        ([*constant("a"), {**mutate(["a"], 0)[0], "MUTATE": 0}], "MUTATE is 0, not a list"),
        ([*constant("a"), {**mutate(["a"], 0)[0], "ARGS": "a"}], "ARGS is 'a', not a list of texts"),
        ([*constant("a"), {**call(["a"])[0], "TIME": "1.5"}], "TIME is '1.5', not a number"),
    ],
)
def test_lines_that_make_no_sense_are_refused_by_number(lines: list[Line], told: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=told) as refused:
        read(tmp_path, lines)
    assert str(refused.value).startswith("run.log: line ")


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"{", "line 1 is no JSON"),
        (b"[1]\n", "line 1 is no JSON object"),
        (b"[" * 100_000, "line 1 is no JSON"),
        (b"\xff\n", "line 1 is no JSON"),
        (b'{"INSTRUCTION": "' + b"x" * (1 << 20) + b'"}', "line 1 has more than 1,048,576 bytes"),
    ],
)
def test_what_is_no_log_is_refused(data: bytes, told: str, tmp_path: Path) -> None:
    (tmp_path / "run.log").write_bytes(data)
    with pytest.raises(ModelError, match=told):
        load_operator_log(tmp_path / "run.log")


def test_damaged_compression_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.log.gz"
    for data in (b"nothing", gzip.compress(b"\n" * 100_000)[:-20]):
        path.write_bytes(data)
        with pytest.raises(ModelError, match=r"run\.log\.gz: cannot be read"):
            load_operator_log(path)


def test_a_file_that_grows_without_end_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.bench.remat.log_lines.ReadingBudget", lambda: ReadingBudget(items=1000))
    path = tmp_path / "run.log.gz"
    path.write_bytes(gzip.compress(b"\n" * 10_000_000))
    assert path.stat().st_size < 20_000
    with pytest.raises(ModelError, match="more than 5,000,000 events"):
        load_operator_log(path)


def test_a_log_that_starts_again_and_again_is_not_quadratic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.bench.remat.log_lines.ReadingBudget", lambda: ReadingBudget(items=100_000))
    constants = [line for k in range(1000) for line in constant(f"a{k}")]
    with pytest.raises(ModelError, match="more than 5,000,000 events"):
        read(tmp_path, constants, START * 1000)


@pytest.mark.parametrize("name", DTR_LOGS)
def test_published_logs_are_read(name: str) -> None:
    log = load_operator_log(shared_file(f"dtr_logs/{name}.log.gz"))
    takes = {"unet-6": 37, "resnet32-56": 0, "transformer-10": 90, "lstm-128": 128}[name]
    calls = {"unet-6": 201, "resnet32-56": 270, "transformer-10": 1310, "lstm-128": 5239}[name]
    assert (int((log.takes >= 0).sum()), len(log.cost)) == (takes, calls)
