"""What `--json` prints is what docs/plan.schema.json describes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from edgemem.cli.main import main
from models.build import build

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "plan.schema.json").read_text())


def printed(*args: object) -> dict[str, Any]:
    done = CliRunner().invoke(main, [*map(str, args)])
    assert done.exit_code == 0, done.output
    data: dict[str, Any] = json.loads(done.stdout)
    return data


def errors(data: dict[str, Any]) -> list[str]:
    return [f"{e.json_path}: {e.message}" for e in Draft202012Validator(SCHEMA).iter_errors(data)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("schema") / "blazeface.onnx"
    onnx.save(build("blazeface", size="small"), path)
    return path


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize(
    "records",
    [
        "tensor,first_op,last_op,size\na,0,1,16\nb,1,2,24\nc,2,3,16\n",
        "tensor,first_op,last_op,size\na,0,1,4x2\nb,2,3,2x4\nc,3,3,1x1\n",
        "tensor,first_op,last_op,size\n",
    ],
    ids=["bytes", "texels", "none"],
)
def test_plans_of_records(tmp_path: Path, records: str) -> None:
    path = tmp_path / "records.csv"
    path.write_text(records)
    assert errors(printed("plan", path, "--json")) == []


@pytest.mark.full
@pytest.mark.parametrize("target", ["generic", "gpu-buffer", "gpu-texture"])
def test_plans_of_a_model(model: Path, tmp_path: Path, target: str) -> None:
    planned = tmp_path / "planned.onnx"
    made = printed("plan", model, "-t", target, "--json")
    assert CliRunner().invoke(main, ["plan", str(model), "-t", target, "-o", str(planned)]).exit_code == 0
    shown = printed("show", planned, "--json")
    assert errors(made) == errors(shown) == []
    assert "operators" in shown["model"]
    # A chosen plan is one plan, whatever others of its strategy there are.
    for family, index in shown["chosen"].items():
        plan = shown["plans"][index]
        assert plan["family"] == family
        assert plan["size"] == min(p["size"] for p in shown["plans"] if p["family"] == family)


def test_a_model_says_what_its_operators_and_tensors_are(model: Path) -> None:
    data = printed("plan", model, "--json")
    graph = onnx.shape_inference.infer_shapes(onnx.load(model)).graph
    shapes = {v.name: [d.dim_value for d in v.type.tensor_type.shape.dim] for v in graph.value_info}
    listed = data["model"]
    assert [op["type"] for op in listed["operators"]] == [node.op_type for node in graph.node]
    assert [op["outputs"] for op in listed["operators"]] == [list(node.output) for node in graph.node]
    assert len(listed["steps"]) == len(listed["operators"])
    assert shapes
    for name, shape in shapes.items():
        assert listed["tensors"][name] == {"dtype": "float32", "shape": shape, "kind": "activation"}
    records = listed["records"]
    loads = np.zeros(len(listed["steps"]), np.int64)
    for record in records:
        loads[record["first_op"] : record["last_op"] + 1] += record["size"]
    peak = data["peak"]
    assert (peak["size"], peak["op"]) == (loads.max(), int(loads.argmax()))
    assert peak["label"] == listed["steps"][peak["op"]]
    assert sum(entry["size"] for entry in peak["alive"]) == peak["size"]


@pytest.mark.full
def test_a_wrong_document_is_told(model: Path) -> None:
    data = printed("plan", model, "--json")
    assert errors({**data, "chosen": {"offsets": "greedy_by_size"}})
    assert errors({**data, "more": 1})
    assert errors({k: v for k, v in data.items() if k != "peak"})
