"""The comparison of planners: instances that a name makes, and figures that are proved."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result

from edgemem.cli.main import main
from edgemem.planning import Choice
from edgemem.records.problem import Problem
from edgemem.strategy.registry import Solution, Strategy
from models.build import build
from tests.bench.planners.__main__ import bench
from tests.bench.planners.instances import DEFAULT, Instance, instance
from tests.bench.planners.measurement import BenchSolver, PeerLimits, geometric_mean, measure, solvers, summary
from tests.bench.planners.peak_memory import peak_rss
from tests.bench.planners.peers import PEERS, Peer
from tests.bench.planners.puzzles import HEIGHT
from tests.data import shared_file, shared_files

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

ROOT = Path(__file__).parents[2]


def compared(*args: object, **env: str) -> Result:
    return CliRunner().invoke(bench, [*map(str, args)], env=env)


def load(problem: Problem) -> NDArray[np.int64]:
    """Bytes alive at each operator."""
    change = np.zeros(int(problem.last_op.max()) + 2, np.int64)
    np.add.at(change, problem.first_op, problem.size)
    np.subtract.at(change, problem.last_op + 1, problem.size)
    return change.cumsum()[:-1]


# Figures of earlier versions are about these records.
@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("guillotine:1000,removed=2%", "6b716146c1339be6"),
        ("pinwheels:1000,removed=0.02,seed=1", "435f06320b83437c"),
        ("sparse:1e3", "ce172b3548e83103"),
        ("dense:1000", "84514536f82289b3"),
    ],
)
def test_a_name_means_the_same_records_for_ever(name: str, digest: str) -> None:
    p = instance(name).problem()
    assert hashlib.sha256(np.stack([p.first_op, p.last_op, p.size]).tobytes()).hexdigest()[:16] == digest


def test_another_seed_makes_other_records() -> None:
    one, two = (instance(f"guillotine:100,seed={seed}").problem() for seed in (1, 2))
    assert not np.array_equal(one.size, two.size)


@pytest.mark.parametrize("name", ["guillotine:500", "pinwheels:501,seed=4"])
def test_a_whole_puzzle_fills_its_rectangle(name: str) -> None:
    made = instance(name)
    loads = load(made.problem())
    assert (loads == HEIGHT).all()
    assert made.optimum == made.at_most == HEIGHT
    assert len(made.problem()) == int(name.partition(":")[2].partition(",")[0])


@pytest.mark.parametrize("name", ["guillotine:500,removed=10%", "pinwheels:501,removed=0.1"])
def test_a_puzzle_with_holes_has_no_known_optimum_but_fits(name: str) -> None:
    made = instance(name)
    loads = load(made.problem())
    assert (loads <= HEIGHT).all()
    assert (loads < HEIGHT).any()
    assert len(made.problem()) in {450, 451}
    assert (made.optimum, made.at_most) == (None, HEIGHT)


def test_pinned_pieces_are_where_they_were_cut() -> None:
    free, pinned = (instance(f"pinwheels:101{part}").problem() for part in ("", ",pinned=30"))
    assert pinned.pinned is not None
    assert (pinned.pinned >= 0).sum() == 30
    assert (pinned.pinned + pinned.size <= HEIGHT).all()
    assert np.array_equal(free.size, pinned.size)


def test_random_instances_are_as_dense_as_they_say() -> None:
    for name, alive in (("sparse:20000", 100), ("dense:20000", 20_000 / 40)):
        problem = instance(name).problem()
        per_op = load(Problem.from_arrays(problem.first_op, problem.last_op, np.ones(len(problem), np.int64)))
        assert 0.8 * alive < per_op.mean() < 1.2 * alive


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("nothing", "neither a file nor an instance"),
        ("hexagons:100", "neither a file nor an instance"),
        ("missing.csv", "no file missing.csv"),
        ("guillotine:", "no number of records"),
        ("guillotine:0", "no number of records"),
        ("sparse:1e9", "no number of records"),
        ("sparse:10,removed=2%", "puzzles only"),
        ("sparse:10,pinned=2", "puzzles only"),
        ("guillotine:10,pinned=x", "'pinned=x' is not part of an instance"),
        ("guillotine:10,removed=x", "'removed=x' is not part of an instance"),
        ("guillotine:10,seed=-1", "'seed=-1' is not part of an instance"),
        ("guillotine:10,holes=3", "'holes=3' is not part of an instance"),
        ("guillotine:10,removed=100%", "below 100%"),
    ],
)
def test_wrong_names_say_which_part(name: str, what: str) -> None:
    result = compared(name)
    assert result.exit_code == 1
    assert what in result.output
    assert result.output.count("\n") == 1


@pytest.mark.parametrize("name", shared_files("instances"))
def test_published_instances_are_read_as_they_are(name: str) -> None:
    path = shared_file(name)
    problem = instance(str(path)).problem()
    with path.open() as lines:
        assert len(problem) == sum(1 for _ in lines) - 1
    if path.stem in {"mm_A", "mm_B", "mm_K"}:  # full at some time, as published: no larger when read as half-open
        assert load(problem).max() == 2**20


def test_a_model_is_its_records(tmp_path: Path) -> None:
    file = tmp_path / "blazeface.onnx"
    onnx.save(build("blazeface", size="small"), file)
    planned = CliRunner().invoke(main, ["plan", str(file), "--json"])
    plans = json.loads(planned.output)
    (row,) = json.loads(compared(file, "-s", "greedy_by_size", "--json", "-").output)["rows"]
    assert row["bound"] == plans["lower_bounds"]["offsets"]
    assert row["records"] == len(plans["model"]["records"])
    size = next(p["size"] for p in plans["plans"] if p["strategy"] == "greedy_by_size")
    assert row["results"][0]["size"] == size


@pytest.mark.full
def test_the_table() -> None:
    result = compared("guillotine:100", "sparse:100,seed=3", "-s", "search", "-s", "naive")
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert lines[0].startswith("search: 1.0000 of the bound in the geometric mean of 2 instances, at it on 2")
    heading, first, second = lines[2:5]
    assert heading.split() == ["instance", "records", "bound", "optimum", "search", "s", "naive", "s"]
    height = f"{HEIGHT:,}"
    assert first.split()[:5] == ["guillotine:100", "100", height, height, "1.0000*"]
    assert second.split()[0] == "sparse:100,seed=3"
    assert "2 of 2" in result.output
    assert "0 of 2" in result.output


@pytest.mark.full
def test_a_narrow_terminal_gets_all_digits() -> None:
    strategies = [x for name in ("search", "naive", "greedy_by_size", "strip_packing") for x in ("-s", name)]
    result = compared("guillotine:100", *strategies, FORCE_COLOR="1", COLUMNS="72")
    assert result.exit_code == 0, result.output
    assert "…" not in result.output
    assert f"{HEIGHT:,}" in result.output
    for name in ("search", "naive", "greedy_by_size", "strip_packing"):
        assert name in result.output


def test_one_record_is_one_record() -> None:
    strategies = [x for name in ("search", "naive", "greedy_by_size", "strip_packing") for x in ("-s", name)]
    table = compared("dense:1", *strategies, FORCE_COLOR="1", COLUMNS="72").output
    assert "1 record, bound" in table


@pytest.mark.full
def test_json_holds_what_can_be_tracked(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    file.write_text("old")
    result = compared("pinwheels:101,removed=5%", "dense:50", "--effort", "fast", "--repeat", "2", "--json", file)
    assert result.exit_code == 0, result.output
    data = json.loads(file.read_text())
    assert data["versions"]["python"] == sys.version.split()[0]
    assert data["machine"]["cpu_count"]
    assert data["repeat"] == 2
    puzzle, dense = data["rows"]
    assert (puzzle["optimum"], puzzle["at_most"]) == (None, HEIGHT)
    assert (dense["optimum"], dense["at_most"]) == (None, None)
    for row in data["rows"]:
        assert [r["solver"] for r in row["results"]] == ["search:effort=fast", "greedy_by_size"]
        for r in row["results"]:
            assert r["size"] >= row["bound"]
            assert r["seconds"] >= 0


def test_a_failure_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    file.write_text("old")
    assert compared("nothing", "--json", file).exit_code == 1
    assert file.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["bench.json"]


def test_shared_objects() -> None:
    result = compared("sparse:60", "--family", "shared_objects", "-s", "auto", "-s", "naive", "--json", "-")
    (row,) = json.loads(result.output)["rows"]
    auto, naive = (r["size"] for r in row["results"])
    assert row["bound"] <= auto < naive == int(instance("sparse:60").problem().size.sum())


@pytest.mark.parametrize(
    ("args", "what"),
    [
        (("-s", "nothing"), "no strategy 'nothing'"),
        (("-s", "equality"), "no strategy of the family offsets"),
        (("-s", "search:effort=huge"), "effort is one of"),
        (("--peers", "nobody"), "no peer 'nobody'; there are omnimalloc"),
        (("--family", "shared_objects", "--peers", "vela"), "the peers plan offsets only"),
    ],
)
def test_wrong_solvers_are_usage_errors(args: tuple[str, ...], what: str) -> None:
    result = compared("dense:10", *args)
    assert result.exit_code == 2
    assert what in result.output


@pytest.mark.full
@pytest.mark.parametrize(
    ("peer", "module", "package"), [("omnimalloc", "omnimalloc", "omnimalloc"), ("vela", "ethosu", "ethos-u-vela")]
)
def test_a_peer_that_is_not_installed(peer: str, module: str, package: str) -> None:
    # None in sys.modules is how Python itself notes that a module cannot be imported.
    code = f"import sys; sys.modules[{module!r}] = None; from tests.bench.planners.__main__ import bench; bench()"
    command = [sys.executable, "-c", code, "dense:10", "--peers", peer]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert done.stderr.endswith(f"needs {package}: pip install {package}\n")


@pytest.mark.full
@pytest.mark.parametrize("peer", [p.name for p in PEERS])
def test_installed_peers_plan_validly(peer: str) -> None:
    pytest.importorskip(next(p.module for p in PEERS if p.name == peer))
    columns = solvers(["greedy_by_size"], [peer], "offsets", None)
    # Sizes that are no multiple of the alignment, and one record without any bytes.
    rng = np.random.default_rng(5)
    first, size = rng.integers(0, 300, 80), rng.integers(1, 5000, 80)
    size[7] = 0
    problem = Problem.from_arrays(first, first + rng.integers(0, 90, 80), size, alignment=64)
    row = measure(Instance("aligned", lambda: problem), columns, limits=PeerLimits(0.05))
    ours, theirs = row.results
    assert not theirs.note
    assert theirs.size is not None
    assert ours.size is not None
    assert theirs.peer
    assert row.bound <= theirs.size < 2 * row.bound
    assert row.to_best_peer_ratio == ours.size / theirs.size


@pytest.mark.full
def test_peers_are_left_out_of_what_they_cannot_do_in_time() -> None:
    pytest.importorskip("omnimalloc")
    result = compared("dense:40", "dense:60", "--peers", "omnimalloc/omni", "--peer-records", "50")
    assert result.exit_code == 0
    assert "(1) omnimalloc/omni on dense:60: left out above 50 records" in result.output
    assert "of best peer" in result.output


def _peer(offsets: Callable[[int], list[int]]) -> BenchSolver:
    peer = Peer("own/planner", "own", "own", 1000, True, lambda first, *_: lambda: lambda: offsets(len(first)))
    return BenchSolver(peer.name, "offsets", peer=peer)


@pytest.mark.full
def test_a_wrong_plan_gives_no_figure() -> None:
    (naive,) = solvers(["naive"], [], "offsets", None)
    overlapping = _peer(lambda count: [0] * count)
    row = measure(instance("dense:50"), [overlapping, naive])
    wrong, right = row.results
    assert wrong.invalid
    assert (wrong.size, wrong.seconds) == (None, None)
    assert wrong.note.startswith("invalid: ")
    assert right.size == int(instance("dense:50").problem().size.sum())
    assert [(s.instances, s.at_bound) for s in summary([row])] == [(0, 0), (1, 0)]


@pytest.mark.full
def test_a_failing_peer_leaves_the_others_their_turn() -> None:
    def refuse(count: int) -> list[int]:
        raise MemoryError(f"{count} are too many")

    (naive,) = solvers(["naive"], [], "offsets", None)
    failed, right = measure(instance("dense:50"), [_peer(refuse), naive], repeat=2).results
    assert failed.note == "50 are too many"
    assert not failed.invalid
    assert right.size


def test_a_proof_that_a_smaller_plan_refutes_is_invalid() -> None:
    def boast(problem: Problem) -> Solution:
        ends = problem.size.cumsum()
        return Solution(ends - problem.size, int(ends[-1]))

    strategy = Strategy("boast", "offsets", "", "", {}, None, None, {}, frozenset({"state"}), boast)
    (greedy,) = solvers(["greedy_by_size"], [], "offsets", None)
    false, right = measure(instance("dense:50"), [BenchSolver("boast", "offsets", Choice(strategy)), greedy]).results
    assert false.invalid
    assert "is called optimal" in false.note
    assert right.size


@pytest.mark.full
def test_what_one_proves_optimal_is_optimal_for_all() -> None:
    # Its smallest arena is 5, its lower bound 4.
    columns = ([0, 0, 1, 1, 2, 2, 3, 4], [0, 1, 2, 3, 2, 3, 5, 5], [2, 2, 1, 1, 1, 1, 2, 2])
    gap = Instance("gap", lambda: Problem.from_arrays(*columns))
    row = measure(gap, solvers(["search", "search:effort=fast", "naive"], [], "offsets", None))
    assert row.bound == 4
    assert [(r.size, r.optimal) for r in row.results] == [(5, True), (5, True), (12, False)]
    assert [s.at_bound for s in summary([row])] == [0, 0, 0]
    assert [s.optimal for s in summary([row])] == [1, 1, 0]


@pytest.mark.full
def test_records_without_bytes() -> None:
    result = compared("dense:1", "-s", "auto")
    assert result.exit_code == 0
    empty = Instance("empty", lambda: Problem.from_arrays([0], [3], [0]))
    columns = solvers(["naive", "auto"], [], "offsets", None)
    row = measure(empty, [*columns, _peer(lambda count: [0] * count)])
    assert [r.size for r in row.results] == [0, 0, 0]
    assert [s.bound_ratio for s in summary([row])] == [None] * 3


def test_geometric_mean() -> None:
    assert geometric_mean([1.0, 4.0]) == pytest.approx(2.0)
    assert geometric_mean([]) is None


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the peak of a process")
def test_memory_is_that_of_a_process_of_its_own() -> None:
    (greedy,) = solvers(["greedy_by_size"], [], "offsets", None)
    small = peak_rss("sparse:10", {}, greedy, PeerLimits())
    large = peak_rss("sparse:300000", {}, greedy, PeerLimits())
    assert small is not None
    assert large is not None
    # first_op, last_op, size and the offsets, at least.
    assert large - small > 300_000 * 8 * 4
    assert peak_rss("nothing", {}, greedy, PeerLimits()) is None


def test_the_default_set_can_be_made() -> None:
    for name in DEFAULT:
        assert len(instance(name).problem()) > 200


def test_an_instance_that_cannot_be_planned_is_left_out_and_named(tmp_path: Path) -> None:
    bad = tmp_path / "bad.onnx"
    bad.write_text("no model")
    done = compared(bad, "guillotine:20", "-s", "greedy_by_size")
    assert done.exit_code == 1
    assert "guillotine:20" in done.stdout
    assert f"left out: {bad}: " in done.stderr
