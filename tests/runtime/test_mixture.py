"""`edgemem plan --recompute`: a budget met by the cheapest mixture of an order, tiles or stripes and recomputation."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import onnx
import pytest
from click.testing import CliRunner, Result

from edgemem.cli.main import main
from edgemem.commands.changed_model import change_model
from edgemem.formats import Model, load_model
from edgemem.model.macs import count_macs
from edgemem.runtime.onnxruntime.tile_comparison import compare_tiled
from models.build import build
from tests.branchy import wired_onnx, wired_tflite
from tests.row_models import run_micro

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("onnxruntime")
pytest.importorskip("ai_edge_litert")

FAST = ("--effort", "fast")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of small models: two randomly wired stages, and a network without branches."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "wired.tflite").write_bytes(wired_tflite(24, 1, int8=True))
    wired_onnx(folder / "wired.onnx", 24, 1)
    onnx.save(build("mobilenet_v2", size="small"), folder / "mobilenet.onnx")
    return folder


def edgemem(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def planned(model: Path, *options: object) -> dict[str, Any]:
    done = edgemem("plan", model, *options, *FAST, "--json")
    assert done.exit_code == 0, done.output
    told: dict[str, Any] = json.loads(done.output)
    return told


def arena(told: dict[str, Any]) -> int:
    return min(int(p["size"]) for p in told["plans"] if p["family"] == "offsets")


@pytest.mark.full
def test_a_tflite_model_runs_operators_again_within_the_budget(models: Path, tmp_path: Path) -> None:
    pytest.importorskip("tflite_micro")
    model, out = models / "wired.tflite", tmp_path / "out.tflite"
    ordered = planned(model, "--order", "auto")
    budget = ordered["ordering"]["peak"] * 9 // 10
    told = planned(model, "--recompute", "auto", "--budget", budget, "-o", out)
    assert arena(told) <= budget < ordered["ordering"]["lower_bound"] * 2
    mixture = told["mixture"]
    assert mixture["means"] == ["order", "recompute"], "stripes of so small a model take more in head and tail"
    before = load_model(model).graph()
    after = load_model(out).graph()
    assert len(after.ops) == mixture["operators"] > len(before.ops)
    assert count_macs(after) == mixture["macs"] == told["price"]["macs"]["after"] > count_macs(before)
    assert mixture["macs"] <= 1.25 * count_macs(before)
    ends = len(before.inputs), len(before.outputs)
    assert run_micro(out.read_bytes(), *ends) == run_micro(model.read_bytes(), *ends)
    verified = edgemem("verify", "--run", out)
    assert verified.exit_code == 0, verified.output


@pytest.mark.full
def test_an_onnx_model_runs_operators_again_within_the_budget(models: Path, tmp_path: Path) -> None:
    model, out = models / "wired.onnx", tmp_path / "out.onnx"
    peak = planned(model, "--order", "auto", "--optimize", "extended")["ordering"]["peak"]
    budget = peak * 9 // 10
    limits = ("--order", "auto", "--optimize", "extended", "--budget", budget)
    told = planned(model, "--recompute", "only", *limits, "-o", out)
    assert told["mixture"]["means"] == ["order", "recompute"]
    assert arena(told) <= budget
    verified = edgemem("verify", "--run", out)
    assert verified.exit_code == 0, verified.output
    assert "io-binding: ran" in verified.output
    baked = change_model(model, tmp_path, {"optimize": {"level": "extended"}}).model
    assert isinstance(baked, Model)
    (tmp_path / "both").mkdir()
    assert compare_tiled(baked, load_model(out), tmp_path / "both").is_identical


@pytest.mark.full
@pytest.mark.parametrize(("name", "share"), [("wired.onnx", 0.8), ("mobilenet.onnx", 0.9)])
def test_the_cheapest_mixture_is_chosen(name: str, share: float, models: Path) -> None:
    peak = planned(models / name, "--order", "auto")["ordering"]["peak"]
    budget = int(peak * share)
    mixture = planned(models / name, "--recompute", "auto", "--budget", budget, "--max-macs", 1.5)["mixture"]
    given = mixture["considered"][0]
    assert given["means"] == []
    fit = [w for w in mixture["considered"] if w["peak"] <= budget]
    light = [w for w in fit if w["peak"] + w["tail"] <= given["peak"] + given["tail"]] or fit
    assert mixture["macs"] == min(w["macs"] for w in light)
    assert mixture["macs"] <= 1.5 * given["macs"]
    assert mixture["peak"] <= budget
    whole = [w["peak"] for w in mixture["considered"] if not {"tile", "stream"} & set(w["means"])]
    assert mixture["widest"]["needs"] <= min(whole)


def test_a_budget_that_an_order_meets_costs_nothing(models: Path) -> None:
    model = models / "wired.tflite"
    ordered = planned(model, "--order", "auto")
    told = planned(model, "--recompute", "auto", "--budget", ordered["ordering"]["peak"])
    assert told["mixture"]["means"] == ["order"]
    assert told["mixture"]["macs"] == told["mixture"]["considered"][0]["macs"]
    assert "price" not in told
    as_it_is = planned(model, "--recompute", "auto", "--budget", ordered["ordering"]["given_peak"])
    assert as_it_is["mixture"]["means"] == []


@pytest.mark.full
def test_without_a_budget_the_lowest_peak_is_taken(models: Path) -> None:
    told = planned(models / "wired.onnx", "--recompute", "only", "--order", "auto", "--max-macs", 1.1)
    mixture = told["mixture"]
    assert mixture["peak"] == min(w["peak"] for w in mixture["considered"])
    assert mixture["considered"][0]["macs"] < mixture["macs"] <= 1.1 * mixture["considered"][0]["macs"]
    more = planned(models / "wired.onnx", "--recompute", "only", "--order", "auto", "--max-macs", 1.5)
    assert more["mixture"]["peak"] < mixture["peak"]


@pytest.mark.full
def test_an_operator_that_alone_exceeds_the_budget_is_named(models: Path) -> None:
    graph = load_model(models / "wired.tflite").graph()
    own = {
        op.name: sum(graph.tensors[i].size for i in (*op.inputs, *op.outputs) if graph.tensors[i].kind == "activation")
        for op in graph.ops
    }
    done = edgemem("plan", models / "wired.tflite", "--recompute", "only", "--order", "auto", "--budget", 2048, *FAST)
    assert done.exit_code == 3
    text = " ".join(done.output.split())
    name = text.split("Operator '")[1].split("'")[0]
    assert own[name] == max(own.values()) > 2048
    assert f"alone needs {own[name]:,}" in text
    assert "No order and no recomputation goes below that" in text
    assert "--stream auto" in text
    assert "--overlap" in text
    assert "--max-macs" not in text, "no arithmetic helps"


@pytest.mark.full
def test_a_budget_between_the_bound_and_what_is_found(models: Path) -> None:
    done = edgemem(
        "plan",
        models / "wired.tflite",
        "--recompute",
        "only",
        "--order",
        "auto",
        "--budget",
        9000,
        "--max-macs",
        1.05,
        *FAST,
    )
    assert done.exit_code == 3
    assert "(--max-macs allows more)" in " ".join(done.output.split())
    assert "alone needs" not in done.output


@pytest.mark.full
def test_stages_by_hand_are_in_every_mixture(models: Path) -> None:
    model = models / "wired.tflite"
    told = planned(model, "--stream", "0:1:4", "--recompute", "only", "--order", "auto")
    assert all("stream" in way["means"] for way in told["mixture"]["considered"])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--max-macs", "1.1"), "--max-macs is a limit of --tile or --recompute"),
        (("--recompute", "auto", "--max-macs", "inf"), "inf is no ratio"),
        (("--recompute", "auto", "--state", "auto"), "--state keeps the model's dimensions open"),
    ],
)
def test_options_that_contradict_each_other(options: tuple[str, ...], told: str, models: Path) -> None:
    done = edgemem("plan", models / "wired.onnx", *options)
    assert done.exit_code in (1, 2)
    assert told in " ".join(done.output.split())


@pytest.mark.full
def test_the_table_says_what_was_considered(models: Path) -> None:
    done = edgemem("plan", models / "wired.onnx", "--recompute", "only", "--order", "auto", *FAST)
    assert done.exit_code == 0, done.output
    first, bound, heading, *rows = done.output.splitlines()
    assert first.startswith("order + recompute: peak ")
    assert bound.startswith("no order, no recomputation goes below 31.50 KiB: 'add_")
    assert heading.split() == ["considered", "peak", "of", "it", "MACs", "operators"]
    assert [row.split("  ")[0].strip() for row in rows[:3]] == ["as it is", "order", "order + recompute"]
    assert rows[2].rstrip().endswith("chosen")


def test_usage_records_have_no_operators(tmp_path: Path) -> None:
    records = tmp_path / "r.csv"
    records.write_text("id,lower,upper,size\n0,0,2,64\n")
    done = edgemem("plan", records, "--recompute", "auto")
    assert done.exit_code == 1
    assert "there is no graph to change" in done.output
