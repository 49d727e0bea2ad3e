"""What is embedded is what runs: every executor of ONNX files runs a plan of the file, or says why it cannot."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto
from onnx import helper as make

import edgemem
from edgemem import planfile
from edgemem.cli.main import main
from edgemem.commands.verify_run import verify_run
from edgemem.errors import InvalidPlanError, PlanFileError, RuntimeBindError, StalePlanError
from edgemem.formats import Bindings
from edgemem.model.graph import Graph, Op, Tensor
from edgemem.plans import OffsetPlan, Settings
from edgemem.proof import prove
from edgemem.runtime.executors import IO_BINDING
from edgemem.runtime.memory import Origin
from edgemem.runtime.onnxruntime.bound_nodes import BoundNodes
from edgemem.runtime.onnxruntime.file import plans_in, with_plans
from edgemem.runtime.onnxruntime.layout import planned_layout
from edgemem.runtime.onnxruntime.recording import embed, record
from edgemem.runtime.onnxruntime.session import InferenceSession
from edgemem.runtime.onnxruntime.split_model import split_model
from edgemem.targets import BUILT_IN, Region
from models.build import build
from tests.onnx_sessions import branching, feeds, options, plain, same, small

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.plans import PlanSet

ort = pytest.importorskip("onnxruntime")

NAIVE_MIB = "25.48 MiB"  # mobilenet_v2 without sharing


def run(*args: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in args])


def done(*args: object) -> str:
    result = run(*args)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module")
def naive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MobileNet v2, planned by naive and without a recording."""
    folder = tmp_path_factory.mktemp("naive")
    onnx.save(build("mobilenet_v2"), folder / "m.onnx")
    done("plan", folder / "m.onnx", "-s", "offsets/naive", "--no-record", "-o", folder / "n.onnx")
    return folder / "n.onnx"


def planned(path: Path, name: str = "resnet18", **more: Any) -> Path:
    path.write_bytes(small(name))
    edgemem.save(path, edgemem.plan(path, **more), path)
    return path


def recording_of(path: Path) -> PlanSet:
    return next(p for p in plans_in(path.read_bytes()) if p.recording is not None)


@pytest.mark.full
def test_io_binding_runs_the_plan_in_the_file(naive: Path) -> None:
    output = done("run", "--executor", "io-binding", "--compare", naive)
    first, second = output.splitlines()[:2]
    assert first.startswith(f"arena {NAIVE_MIB} (4.438x of the lower bound), naive, plan of the graph under generic")
    assert first.endswith("from the file")
    assert second.startswith(f"outputs identical to a plain run of {naive.name} in onnxruntime ")
    report = json.loads(done("run", "--executor", "io-binding", "--json", naive))["report"]
    assert report["origin"] == {"source": "file", "of": "graph under generic", "strategy": "naive"}
    assert report["planned"] == report["reserved"] == plans_in(naive.read_bytes())[0].naive
    assert report["planned"] > 4 * report["lower_bound"]


@pytest.mark.full
def test_verify_runs_the_plan_in_the_file(naive: Path) -> None:
    output = done("verify", "--run", naive)
    assert f"io-binding: ran, arena {NAIVE_MIB} (4.438x of the lower bound), naive" in output
    assert "replay: not run: no recording in the file; add one with: edgemem plan n.onnx --record" in output
    told = json.loads(done("verify", "--run", "--json", naive))
    assert told["violations"] == []
    nodes, replay = told["runs"]
    assert nodes["report"]["origin"]["strategy"] == "naive"
    assert replay["report"] is None


@pytest.mark.full
def test_a_recording_of_the_file_is_planned_as_the_file_is(naive: Path, tmp_path: Path) -> None:
    planned_file = tmp_path / "r.onnx"
    output = done("plan", naive.with_name("m.onnx"), "-s", "offsets/naive", "--record", "-o", planned_file)
    assert "recorded arena 24." in output
    graph, recording = plans_in(planned_file.read_bytes())
    assert graph.recording is None
    assert recording.recording is not None
    assert [p.strategy for p in (*graph.offsets, *recording.offsets)] == ["naive", "naive"]
    assert recording.settings == graph.settings
    assert recording.offsets[0].size == recording.naive
    output = done("verify", "--run", planned_file)
    assert "io-binding: ran" in output
    assert "replay: ran" in output
    assert output.count(", naive, plan of the") == 2
    assert done("run", planned_file).splitlines()[0].endswith("from the file")


def test_a_session_plans_what_the_file_has_not_got_with_the_settings_of_the_file(tmp_path: Path) -> None:
    path = planned(tmp_path / "n.onnx", strategy="offsets/naive")
    given = feeds(plain(path))
    for source in ("made now", "cache"):
        with InferenceSession(path, options(), cache=tmp_path / "cache", background=False) as session:
            session.run(None, given)
            assert session.memory_report.origin == Origin(
                source,
                f"recording of onnxruntime {ort.__version__}",
                "naive",
            )
    # Another file with the same model and other settings takes nothing from there.
    other = planned(tmp_path / "b.onnx", strategy="offsets/greedy_by_breadth")
    with InferenceSession(other, options(), cache=tmp_path / "cache", background=False) as session:
        session.run(None, given)
        origin = session.memory_report.origin
        assert origin is not None
        assert (origin.source, origin.strategy) == ("made now", "greedy_by_breadth")


def test_settings_that_limit_only_plans_of_the_graph_do_not_keep_a_recording_from_being_planned(
    tmp_path: Path,
) -> None:
    path = planned(tmp_path / "m.onnx", strategy=("offsets/naive", "shared_objects/search"), effort="fast", seed=3)
    embed(path, (record(path, sess_options=options()),), path)
    assert [p.strategy for p in recording_of(path).offsets] == ["naive"]


def wrong_in_one_place(planset: PlanSet) -> tuple[PlanSet, tuple[str, str]]:
    """One record is put where another one is alive; the names of the two."""
    best = planset.best_offsets
    assert best is not None
    problem, offsets = planset.problem, best.offsets.copy()
    for i in range(len(problem)):
        for j in range(i):
            alive = problem.first_op[i] <= problem.last_op[j] and problem.first_op[j] <= problem.last_op[i]
            if alive and offsets[i] != offsets[j] and offsets[j] + problem.size[i] <= best.size:
                offsets[i] = offsets[j]
                wrong = OffsetPlan(best.strategy, best.options, offsets, best.size, optimal=best.optimal)
                return replace(planset, offsets=(wrong,), shared_objects=()), (problem.names[j], problem.names[i])
    raise AssertionError


@pytest.mark.parametrize("what", ["graph", "recording"])
def test_a_wrong_plan_is_refused_by_every_consumer_which_names_the_tensors(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = planned(tmp_path / "m.onnx", "unet", strategy="offsets/greedy_by_size")
    embed(path, (record(path, sess_options=options()),), path)
    graph, recording = plans_in(path.read_bytes())
    bad, names = wrong_in_one_place(graph if what == "graph" else recording)
    path.write_bytes(with_plans(path.read_bytes(), (bad, recording) if what == "graph" else (graph, bad)))
    consumers: list[tuple[object, ...]] = [("verify", path), ("verify", "--run", path)]
    if what == "graph":
        consumers.append(("run", "--executor", "io-binding", path))
        with pytest.raises(InvalidPlanError, match="overlap") as caught:
            split_model(path)
    else:
        consumers.append(("run", path))
        with pytest.raises(InvalidPlanError, match="overlap") as caught:
            _ = (session := InferenceSession(path, options(), cache=False, background=False)).memory
        # The session remembers: the plan is not proved at each run, and is wrong at each.
        monkeypatch.setattr(planfile, "decode_all", None)
        with pytest.raises(InvalidPlanError, match="overlap") as again:
            session.run(None, feeds(session))
        monkeypatch.undo()
        assert again.value.violations == caught.value.violations
    named = [set(getattr(v, "records", ())) for v in caught.value.violations]
    assert set(names) in named
    for consumer in consumers:
        result = run(*consumer)
        assert result.exit_code == 4, (consumer, result.output)
        assert all(name in result.output for name in names), (consumer, result.output)


def test_a_file_without_a_plan_is_refused_and_told_how_to_get_one(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(small("resnet18"))
    with pytest.raises(PlanFileError, match=r"m\.onnx carries no plan; make one with: edgemem plan m\.onnx -o"):
        split_model(path)
    assert run("run", "--executor", "io-binding", path).exit_code == 4
    assert run("verify", "--run", path).exit_code == 4
    # A recording alone is no plan of the graph.
    embed(path, (record(path, sess_options=options()),), path)
    with pytest.raises(PlanFileError, match=r"carries only plans of recordings.*edgemem plan m\.onnx -o"):
        split_model(path)


def test_a_given_plan_runs_instead_of_that_in_the_file(tmp_path: Path) -> None:
    path = planned(tmp_path / "m.onnx", strategy="offsets/naive")
    given = edgemem.plan(path, strategy="offsets/greedy_by_breadth")
    for planset, source, strategy in ((None, "file", "naive"), (given, "given", "greedy_by_breadth")):
        origin = BoundNodes(split_model(path, planset)).report.origin
        assert origin is not None
        assert (origin.source, origin.strategy) == (source, strategy)


def test_a_plan_beside_recordings_says_that_sessions_run_them(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(small("resnet18"))
    recorded, again = tmp_path / "recorded.onnx", tmp_path / "again.onnx"
    done("plan", path, "-o", recorded, "--record")
    said = done("plan", recorded, "-o", again, "-s", "offsets/naive", "--no-record").splitlines()[-1]
    assert said.endswith("and in ONNX Runtime sessions (edgemem.InferenceSession)")
    assert ", naive, plan of the recording" in done("run", again)


def test_a_recording_is_verified_beside_shared_objects(tmp_path: Path) -> None:
    path, shared = tmp_path / "m.onnx", tmp_path / "shared.onnx"
    path.write_bytes(small("resnet18"))
    done("plan", path, "-o", shared, "-s", "shared_objects/naive", "--record")
    output = done("verify", "--run", shared)
    assert "io-binding: not run: the file has no offset plan of its graph" in output
    assert "replay: ran" in output


@pytest.mark.full
def test_plans_that_cannot_be_run_say_so(tmp_path: Path) -> None:
    shared = planned(tmp_path / "s.onnx", strategy="shared_objects/greedy_by_size")
    with pytest.raises(
        RuntimeBindError,
        match=r"only shared objects; .*: edgemem plan --strategy auto s\.onnx",
    ):
        split_model(shared)
    result = run("verify", "--run", shared)
    assert result.exit_code in (1, 4)
    assert "shared objects" in result.output

    dynamic = tmp_path / "d.onnx"
    dynamic.write_bytes(small("dynamic"))
    edgemem.save(dynamic, edgemem.plan(dynamic, dims={"T": 5}), dynamic)
    split_model(dynamic, bindings=Bindings({"T": 5}))
    with pytest.raises(RuntimeBindError, match=r"for other sizes than T=7; make another with: .* with --dim"):
        split_model(dynamic, bindings=Bindings({"T": 7}))

    packed = planned(tmp_path / "p.onnx", alignment=1)
    planset = plans_in(packed.read_bytes())[0]
    best = planset.best_offsets
    assert best is not None
    odd = replace(best, offsets=best.offsets + 1, size=best.size + 1, optimal=False)
    packed.write_bytes(with_plans(packed.read_bytes(), (replace(planset, offsets=(odd,)),)))
    with pytest.raises(RuntimeBindError, match=r"no multiple of its element's 4 bytes; .* --alignment 64"):
        BoundNodes(split_model(packed))

    stale = planned(tmp_path / "t.onnx")
    plans = plans_in(stale.read_bytes())
    stale.write_bytes(with_plans(small("unet"), plans))
    with pytest.raises(StalePlanError, match=r"another graph.*; make another with: edgemem plan t\.onnx"):
        split_model(stale)


def test_nothing_is_bound_outside_the_arena() -> None:
    tensors = tuple(Tensor(name, "float32", (16,)) for name in "xaby")
    ops = tuple(Op(f"op{k}", "Conv", (k,), (k + 1,)) for k in range(3))
    graph = Graph("chain", tensors, ops, (0,), (3,))
    planset = edgemem.plan(graph, target="generic")
    proved = prove(planset, graph)
    offsets = planned_layout(proved, {"a": (64, 4), "b": (64, 4)}, remedy="").offsets
    assert sorted(offsets.values()) == [0, 64]
    with pytest.raises(InvalidPlanError, match=r"129 bytes in ONNX Runtime, and 64 in the plan; plan again"):
        planned_layout(proved, {"a": (129, 4), "b": (129, 4)}, remedy="plan again")
    with pytest.raises(InvalidPlanError, match="for no graph"):
        planned_layout(prove(edgemem.plan(planset.problem)), {}, remedy="")
    plan = planset.offsets[0]
    apart = replace(plan, offsets=np.zeros(2, np.int64), size=128, regions=np.arange(2), region_sizes=(64, 64))
    target = replace(BUILT_IN["generic"], regions=(Region("one"), Region("two")))
    several = replace(planset, offsets=(apart,), shared_objects=(), target=target)
    refusal = IO_BINDING.refuse_plan(several)
    assert refusal is not None
    assert "several regions" in refusal.why


@pytest.mark.parametrize("inputs", ["outside", "until_last_use", "whole_run"])
@pytest.mark.parametrize("outputs", ["outside", "to_end"])
@pytest.mark.parametrize("name", ["unet", "transformer"])
def test_every_rule_of_a_target(name: str, inputs: str, outputs: str, tmp_path: Path) -> None:
    target = tmp_path / "own.toml"
    target.write_text(f'inputs = "{inputs}"\noutputs = "{outputs}"\nunread = "to_end"\nalignment = 16\n')
    path = planned(tmp_path / "m.onnx", name, target=str(target), strategy="offsets/greedy_by_size")
    nodes, _ = verify_run(path)
    assert nodes.report is not None, nodes.refusal
    assert not nodes.violations
    assert nodes.report.origin is not None
    assert nodes.report.origin.of == "graph under own"
    assert (nodes.report.outside == 0) == (outputs == "to_end")


def test_tensors_in_bodies_have_places_that_nobody_uses(tmp_path: Path) -> None:
    path = tmp_path / "if.onnx"
    path.write_bytes(branching())
    given = {"x": np.random.default_rng(0).standard_normal((64, 64), np.float32), "yes": np.array(True)}
    bound = {"A": 64, "B": 64}
    edgemem.save(path, edgemem.plan(path, dims=bound), path)
    nodes = BoundNodes(split_model(path), poison=0xCD)
    assert same(list(nodes.run(given).values()), plain(path, "NONE").run(None, given))
    report = nodes.report
    assert report.mode == "planned"
    assert report.details["tensors_in_bodies"] > 0
    assert "tensors of branches and loops have a place that ONNX Runtime does not use" in report.reason


@pytest.mark.full
def test_right_plans_of_graphs_that_are_not_optimised_are_not_called_wrong(tmp_path: Path) -> None:
    """A session fuses what runs node by node here, so that the two give different bits."""
    for name in ("mobilenet_v2", "inception_v3", "dynamic"):
        path = tmp_path / f"{name}.onnx"
        path.write_bytes(small(name))
        edgemem.save(path, edgemem.plan(path, dims={"T": 6} if name == "dynamic" else None), path)
        nodes, _ = verify_run(path)
        assert nodes.report is not None, nodes.refusal
        assert not nodes.violations


def test_random_operators_are_not_called_wrong(tmp_path: Path) -> None:
    ends = [make.make_tensor_value_info(n, TensorProto.FLOAT, [256]) for n in ("x", "y", "z")]
    nodes = [
        make.make_node("RandomNormalLike", ["x"], ["noise"]),
        make.make_node("Add", ["x", "noise"], ["a"]),
        make.make_node("Exp", ["a"], ["y"]),
        make.make_node("Sin", ["x"], ["s"]),
        make.make_node("Cos", ["s"], ["z"]),
    ]
    graph = make.make_graph(nodes, "g", ends[:1], ends[1:])
    path = tmp_path / "random.onnx"
    onnx.save(make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8), path)
    edgemem.save(path, edgemem.plan(path), path)
    embed(path, (record(path, sess_options=options()),), path)
    nodes_run, replay = verify_run(path)
    for told in (nodes_run, replay):
        assert told.report is not None, told.refusal
        assert not told.violations
        assert "not compared, because they differ from run to run" in told.note
        assert "y" in told.note


def test_what_a_plan_overwrites_is_found_by_running_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong plan that got past the static proof: the node that computes another result is named."""
    path = planned(tmp_path / "m.onnx", "unet", strategy="offsets/greedy_by_size")
    bad, _ = wrong_in_one_place(plans_in(path.read_bytes())[0])
    path.write_bytes(with_plans(path.read_bytes(), (bad,)))
    monkeypatch.setattr("edgemem.proof.proved_plan.verify_planset", lambda *_: ())
    nodes, _ = verify_run(path)
    (violation,) = nodes.violations
    assert "computes another" in violation.message
    assert violation.records


def test_settings_survive_a_file(tmp_path: Path) -> None:
    path = planned(tmp_path / "m.onnx", strategy="offsets/search", effort="fast", seed=7, threads=2, alignment=128)
    (graph,) = plans_in(path.read_bytes())
    assert graph.settings == Settings(("offsets/search",), "fast", 7, None, 2, 128)
    embed(path, (record(path, sess_options=options()),), path)
    recording = recording_of(path)
    assert recording.settings == graph.settings
    assert recording.problem.alignment == 128
    with InferenceSession(path, options(), cache=False, background=False, poison=True) as session:
        given = feeds(session)
        assert same(session.run(None, given), plain(path).run(None, given))
        assert session.memory.replayed == 1
    assert planfile.encode_all(plans_in(path.read_bytes()))


@pytest.mark.full
def test_suffixes_in_capitals(tmp_path: Path) -> None:
    path = planned(tmp_path / "M.ONNX")
    assert "from the file" in done("run", "--executor", "io-binding", path)
    assert "io-binding: ran" in done("verify", "--run", path)
    assert run("plan", path, "--record", "-o", tmp_path / "R.ONNX").exit_code == 0


@pytest.mark.parametrize(
    ("name", "args", "says"),
    [
        ("m.onnx", ("--runtime", "tflm"), "--runtime tflm is for .tflite models"),
        ("m.tflite", ("--executor", "replay"), "--executor replay is for .onnx models"),
    ],
)
def test_options_of_other_formats_are_usage_errors(name: str, args: tuple[str, ...], says: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"")
    result = run("run", tmp_path / name, *args)
    assert result.exit_code == 2
    assert says in result.output


@pytest.mark.full
def test_recordings_go_along_when_a_file_is_planned_anew(tmp_path: Path) -> None:
    source, old, new = tmp_path / "m.onnx", tmp_path / "old.onnx", tmp_path / "new.onnx"
    source.write_bytes(small("resnet18"))
    recording = record(source, sess_options=options())
    done("plan", source, "--no-record", "-o", old)
    embed(old, (recording,), old)
    done("plan", old, "-s", "naive", "--no-record", "-o", new)
    assert [e.key for e in onnx.load(new).metadata_props] == ["edgemem.summary", "edgemem.plan"]
    again = recording_of(new)
    assert [p.strategy for p in again.offsets] == ["naive"]
    assert again.problem.names == recording.problem.names
    output = done("verify", "--run", new)
    assert "requests of 1 recorded stream" in output
    assert output.count(", naive, plan of the") == 2
    # Another graph has other recordings.
    done("shrink", old, "--steps", "optimize=basic", "-o", new)
    (other,) = (p for p in plans_in(new.read_bytes()) if p.recording is not None)
    assert other.problem.names != recording.problem.names
