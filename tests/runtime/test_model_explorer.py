"""Model Explorer's own library loads the extension and the node data, and finds our values on its nodes."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

import edgemem
from edgemem.formats import Model
from models.build import build_tflite
from tests.difference_models import Layers

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.full

# Model Explorer registers extensions in the process that imports it, and its adapters log to the console.
_PROGRAM = """
import json, sys
from dataclasses import asdict
from dacite import Config, from_dict
from model_explorer.extension_manager import ExtensionManager
from model_explorer.node_data_builder import GraphNodeData
model, adapter, node_data = sys.argv[1:]
manager = ExtensionManager(["model_explorer_onnx", "edgemem.model_explorer"])
manager.load_extensions()
graphs = manager.run_cmd({"cmdId": "convert", "extensionId": adapter, "modelPath": model, "settings": {},
    "deleteAfterConversion": False})
graph = (graphs if "graphs" in graphs else graphs["graphCollections"][0])["graphs"][0]
provided = manager.run_cmd({"cmdId": "run", "extensionId": "edgemem", "modelPath": model, "graphId": graph["id"],
    "configValues": {}, "graph": graph})
editors = manager.run_cmd({"cmdId": "get_config_editors", "extensionId": "edgemem"})
with open(node_data) as file:
    stored = {key: asdict(from_dict(GraphNodeData, data, Config(strict=True))) for key, data in json.load(file).items()}
listed = [e for e in manager.get_extensions_metadata() if e["id"] == "edgemem"]
print(json.dumps({"graph": graph, "provided": provided, "stored": stored, "listed": listed, "editors": editors}))
"""


def explored(model: Path, adapter: str) -> dict[str, Any]:
    """What Model Explorer has of a model: its graph, and the values of the extension and of `edgemem report`."""
    if find_spec("model_explorer") is None or find_spec("model_explorer_onnx") is None:
        pytest.skip("could not import 'model_explorer'")
    edgemem.save_report(model, model.with_suffix(".json"))
    command = [sys.executable, "-c", _PROGRAM, str(model), adapter, str(model.with_suffix(".json"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def alive(model: Path) -> dict[str, int]:
    """Of each tensor that an operator writes, the bytes of the records that are alive there, counted one by one."""
    loaded, problem = edgemem.load(model), edgemem.plan(model).problem
    assert isinstance(loaded, Model)
    graph, records = loaded.graph(), list(zip(problem.first_op, problem.last_op, problem.size.tolist(), strict=True))
    sums = [sum(size for first, last, size in records if first <= k <= last) for k in range(len(graph.ops))]
    return {graph.tensors[t].name: sums[k] for k, op in enumerate(graph.ops) for t in op.outputs}


def nodes(graph: dict[str, Any], attribute: str) -> dict[str, str]:
    """Node -> the first tensor that it writes, for the nodes that are operators."""
    found: dict[str, str] = {}
    for node in graph["nodes"]:
        names = [a["value"] for o in node["outputsMetadata"] for a in o["attrs"] if a["key"] == attribute]
        is_operator = node["incomingEdges"] and node["label"] != "Output"
        found |= {node["id"]: names[0]} if names and is_operator else {}
    return found


def test_values_are_on_the_nodes_of_an_onnx_file(tmp_path: Path) -> None:
    model = Layers(skip=(1, 4), extra=(2,)).save(tmp_path / "m.onnx")
    found = explored(model, "onnx_adapter")
    wanted, of_node = alive(model), nodes(found["graph"], "__tensor_tag")
    assert set(of_node.values()) == set(wanted)
    provided = found["provided"]["result"]["results"]
    assert {node: provided[node]["value"] for node in of_node} == {node: wanted[t] for node, t in of_node.items()}
    assert found["listed"][0]["type"] == "node_data_provider"
    assert found["editors"] == {"configEditors": [], "error": ""}
    # The file is found by the names of nodes: graphs of ONNX files have no `tensor_name`.
    stored = found["stored"][found["graph"]["id"]]["results"]
    assert {node: stored[node]["value"] for node in of_node} == {node: wanted[t] for node, t in of_node.items()}


def test_values_are_on_the_nodes_of_a_tflite_file(tmp_path: Path) -> None:
    model = tmp_path / "m.tflite"
    model.write_bytes(build_tflite("mobilenet_v2_tflite", alpha=0.35, size=96, classes=2, int8=True))
    found = explored(model, "builtin_tflite_flatbuffer")
    wanted, of_node = alive(model), nodes(found["graph"], "tensor_name")
    assert set(wanted) <= set(of_node.values())
    of_node = {node: tensor for node, tensor in of_node.items() if tensor in wanted}
    provided = found["provided"]["result"]["results"]
    assert {node: provided[node]["value"] for node in of_node} == {node: wanted[t] for node, t in of_node.items()}
    stored = found["stored"][found["graph"]["id"]]["results"]
    assert {tensor: stored[tensor]["value"] for tensor in of_node.values()} == wanted


def test_what_cannot_be_planned_is_an_error_in_the_page(tmp_path: Path) -> None:
    model = Layers().save(tmp_path / "m.onnx")
    program = (
        "import sys\nfrom edgemem.model_explorer.main import AliveBytes\n"
        "done = AliveBytes().run(provider_id='', model_path=sys.argv[1], graph_id='', config_values={}, graph=None)\n"
        "print(done.error)"
    )
    if find_spec("model_explorer") is None:
        pytest.skip("could not import 'model_explorer'")
    model.write_bytes(b"no model")
    done = subprocess.run([sys.executable, "-c", program, str(model)], capture_output=True, text=True, check=True)
    assert "which ONNX has none of" in done.stdout
