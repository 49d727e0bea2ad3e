"""What `edgemem plan` says of a file, `edgemem verify --run` does: on files of many kinds, wrong ones among them."""

from __future__ import annotations

import json
import os
import random
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

from edgemem.cli.main import main
from models.build import TFLITE, build, build_tflite, names
from tests import extent
from tests.onnx_sessions import branching, looping, nonzero
from tests.oracle.memory_plans.random_onnx import random_onnx
from tests.oracle.memory_plans.random_tflite import random_tflite
from tests.random_onnx import random_model

if TYPE_CHECKING:
    from pathlib import Path

    from click.testing import Result

pytest.importorskip("onnxruntime")
pytest.importorskip("ai_edge_litert")
pytest.importorskip("tflite_micro")

_TITLES: Final = {
    "ONNX Runtime, node by node": "io-binding",
    "ONNX Runtime sessions": "replay",
    "TensorFlow Lite Micro": "tflm",
    "LiteRT with builtin kernels": "litert",
}
_TARGETS: Final = {".onnx": ("", "generic", "gpu-buffer"), ".tflite": ("", "litert", "generic")}


def call(*arguments: object) -> Result:
    done = CliRunner().invoke(main, [str(a) for a in arguments])
    assert done.exception is None or isinstance(done.exception, SystemExit), (arguments, done.exception)
    return done


def claimed(said: str) -> set[str]:
    """The executors that a line of `plan` names."""
    line = " ".join(said[said.rindex("wrote ") :].split())
    if "runs as planned in " not in line:
        return set()
    able = line.partition("runs as planned in ")[2].partition(";")[0].split(" and in ")
    return {name for title in able for known, name in _TITLES.items() if title.startswith(known)}


def checked(file: Path, out: Path, *options: str) -> str:
    """ "kept", "none claimed" or "refused"; fails where a claim of `plan` is none of `verify --run`."""
    planned = call("plan", file, "-o", out, *options)
    if planned.exit_code:
        assert planned.exit_code in (1, 3, 4), planned.output
        return "refused"
    promised = claimed(planned.stdout)
    done = call("verify", "--run", "--json", out)
    if not promised:
        return "none claimed"
    assert done.exit_code == 0, (file.name, options, promised, done.output)
    runs: list[dict[str, Any]] = json.loads(done.stdout)["runs"]
    ran = {run["executor"] for run in runs if run["report"] is not None}
    # ONNX Runtime draws the order of free branches whenever it loads a graph: two sessions may agree and a third not.
    drawn = {run["executor"] for run in runs if "sessions order them anew" in run["refusal"]}
    assert promised <= ran | drawn, (file.name, options, runs)
    return "kept" if promised <= ran else "drawn anew"


def words() -> bytes:
    """A table of strings."""
    keys = [f"w{k}" for k in range(20)]
    about: dict[str, Any] = {
        "keys_strings": keys,
        "values_floats": [float(k) for k in range(20)],
        "default_float": -1.0,
    }
    nodes = [
        helper.make_node("LabelEncoder", ["s"], ["a"], domain="ai.onnx.ml", **about),
        helper.make_node("Neg", ["a"], ["y"]),
    ]
    s = helper.make_tensor_value_info("s", TensorProto.STRING, [8])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [8])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(helper.make_graph(nodes, "g", [s], [y]), opset_imports=imports, ir_version=9)
    return bytes(model.SerializeToString())


def classifier(*, maps: bool) -> bytes:
    """A scaler and a linear classifier, as exported of scikit-learn; its probabilities in maps or in a tensor."""
    ml = "ai.onnx.ml"
    kept = ["z"] if maps else ["p"]
    nodes = [
        helper.make_node("Scaler", ["x"], ["s"], domain=ml, offset=[0.5] * 4, scale=[2.0] * 4),
        helper.make_node(
            "LinearClassifier",
            ["s"],
            ["label", "p"],
            domain=ml,
            coefficients=[0.1 * k for k in range(12)],
            intercepts=[0.0, 0.1, 0.2],
            classlabels_ints=[0, 1, 2],
            post_transform="SOFTMAX",
        ),
        *([helper.make_node("ZipMap", ["p"], ["z"], domain=ml, classlabels_int64s=[0, 1, 2])] if maps else []),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [5, 4])
    label = helper.make_tensor_value_info("label", TensorProto.INT64, [5])
    of = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    made = helper.make_value_info("z", helper.make_sequence_type_proto(of))
    outputs = [label, made if maps else helper.make_tensor_value_info(kept[0], TensorProto.FLOAT, [5, 3])]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(ml, 3)]
    model = helper.make_model(helper.make_graph(nodes, "g", [x], outputs), opset_imports=imports, ir_version=9)
    return bytes(model.SerializeToString())


def cache() -> bytes:
    """A state that an operator writes rows into."""
    nodes = [
        helper.make_node("ScatterND", ["past", "i", "u"], ["present"]),
        helper.make_node("Softmax", ["present"], ["y"]),
    ]
    forms = {"past": (TensorProto.FLOAT, [6, 8]), "i": (TensorProto.INT64, [2, 1]), "u": (TensorProto.FLOAT, [2, 8])}
    inputs = [helper.make_tensor_value_info(n, t, s) for n, (t, s) in forms.items()]
    outputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [6, 8]) for n in ("present", "y")]
    model = helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs), opset_imports=[helper.make_opsetid("", 17)], ir_version=9
    )
    return bytes(model.SerializeToString())


def damaged(seed: int) -> bytes:
    """A random model with one thing wrong: a weight of another shape, an unknown operator, or another dtype."""
    model, rng = random_model(seed), random.Random(seed)
    graph = model.graph
    kind = rng.randrange(3)
    if kind == 0 and graph.initializer:
        one = rng.choice(graph.initializer)
        value = numpy_helper.to_array(one)
        one.CopyFrom(numpy_helper.from_array(np.concatenate([value.ravel(), value.ravel()[:1]]), one.name))
    elif kind == 1:
        rng.choice(graph.node).op_type = rng.choice(["Relu", "NoSuchOperator", "MatMul", "Reshape"])
    else:
        graph.input[0].type.tensor_type.elem_type = rng.choice(
            [TensorProto.INT32, TensorProto.DOUBLE, TensorProto.BOOL]
        )
    return bytes(model.SerializeToString())


def small_tflite(number: int) -> bytes:
    name = sorted(TFLITE)[number % len(TFLITE)]
    return build_tflite(name, size="small", int8=name.startswith("mobilenet_v1"))


def file_of(number: int, folder: Path) -> tuple[Path, tuple[str, ...]]:
    """The file of a number, of one of twelve kinds, with options of `plan`."""
    kind, seed = number % 12, number // 12
    options: tuple[str, ...] = ()
    match kind:
        case 0 | 1:
            content, suffix = bytes(random_model(number).SerializeToString()), ".onnx"
        case 2:
            content, suffix = random_onnx(random.Random(number), runs=True)[0], ".onnx"
        case 3:
            content, suffix = random_onnx(random.Random(number))[0], ".onnx"
        case 4 | 5:
            content, suffix = random_tflite(random.Random(number), runs=kind == 4), ".tflite"
        case 6:
            content, suffix = damaged(number), ".onnx"
        case 7:
            made = (words, lambda: classifier(maps=True), lambda: classifier(maps=False), branching, looping, nonzero)
            content, suffix = made[seed % len(made)](), ".onnx"
        case 8:
            content, suffix, options = cache(), ".onnx", (() if seed % 2 else ("--state", "past=present"))
        case 9:
            name = names()[seed % len(names())]
            content, suffix = bytes(build(name, size="small").SerializeToString()), ".onnx"
            options = ("--dim", "T=5") if name == "dynamic" else ()
        case 10:
            content, suffix = small_tflite(seed), ".tflite"
        case _:
            content, suffix = random_tflite(random.Random(number), runs=True), ".tflite"
    path = folder / f"{number}{suffix}"
    path.write_bytes(content)
    target = _TARGETS[suffix][number // 5 % len(_TARGETS[suffix])]
    return path, (*options, *(("-t", target) if target else ()))


@pytest.mark.parametrize("number", [0, 4, 6, 7, 8, 18, 19, 31, 55, 197])  # 197 has an input of int4
def test_what_plan_claims_verify_does(number: int, tmp_path: Path) -> None:
    path, options = file_of(number, tmp_path)
    checked(path, tmp_path / f"planned{path.suffix}", *options)


@pytest.mark.full
def test_what_plan_claims_of_many_files_verify_does(tmp_path: Path) -> None:
    found: Counter[str] = Counter()
    count = 300 if extent.exhaustive else 24
    for number in range(count):
        path, options = file_of(number, tmp_path)
        found[checked(path, tmp_path / f"planned{number}{path.suffix}", *options)] += 1
    assert found["kept"] > count / 2, found
    assert found["drawn anew"] <= count / 50, found
    assert found["refused"] + found["none claimed"] > count / 15, found


@pytest.mark.parametrize("command", ["plan", "shrink"])
def test_a_model_against_the_rules_of_shapes_is_refused(command: str, tmp_path: Path) -> None:
    """ONNX Runtime does not load it: it does not run as planned, and no session takes what is planned."""
    w = numpy_helper.from_array(np.ones((1, 8, 1), np.float32), "w")
    nodes = [helper.make_node("Add", ["x", "w"], ["y"]), helper.make_node("Relu", ["y"], ["z"])]
    x, y, z = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4, 64]) for n in "xyz")
    graph = helper.make_graph(nodes, "g", [x], [z], [w], value_info=[y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "m.onnx")
    out = tmp_path / "p.onnx"
    done = call(command, tmp_path / "m.onnx", "-o", out)
    assert done.exit_code == 1
    assert "Incompatible dimensions" in done.output
    assert not out.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_a_file_whose_name_is_no_text_runs_nowhere(tmp_path: Path) -> None:
    """ONNX Runtime's module does not take the name; `plan` ended in its TypeError after it had written the file."""
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 64]) for n in "xy")
    nodes = [helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Exp", ["a"], ["y"])]
    imports = [helper.make_opsetid("", 17)]
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y]), opset_imports=imports, ir_version=9)
    onnx.save(model, tmp_path / "m.onnx")
    planned = tmp_path / os.fsdecode(b"p\xff.onnx")
    done = call("plan", tmp_path / "m.onnx", "-o", planned)
    assert done.exit_code == 0, done.output
    assert "no executor runs this plan as it is" in done.output
    for command in ("run", "size", "measure"):
        done = call(command, planned)
        assert done.exit_code == 1
        assert "takes no file whose name is no UTF-8" in done.output


def test_alias_rules_that_an_executor_does_not_keep_are_refused(tmp_path: Path) -> None:
    """Under the rules of GPUs QuickGelu writes over its input, which ONNX Runtime's kernel reads again."""
    rng = np.random.default_rng(0)
    weights = [numpy_helper.from_array(rng.standard_normal((64, 64)).astype(np.float32), n) for n in "vw"]
    nodes = [
        helper.make_node("MatMul", ["x", "v"], ["a"]),
        helper.make_node("QuickGelu", ["a"], ["b"], domain="com.microsoft"),
        helper.make_node("MatMul", ["b", "w"], ["c"]),
        helper.make_node("Tanh", ["c"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 64]) for n in "xy")
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=9), tmp_path / "m.onnx")
    (tmp_path / "t.toml").write_text('aliasing = "gpu"\n')
    out = tmp_path / "p.onnx"
    planned = call("plan", tmp_path / "m.onnx", "-t", tmp_path / "t.toml", "-o", out)
    assert planned.exit_code == 0
    assert "runs as planned" not in " ".join(planned.output.split())
    for command in (("run", out, "--executor", "io-binding"), ("verify", "--run", out)):
        done = call(*command)
        assert done.exit_code == 1
        assert "the alias rules 'gpu'" in " ".join(done.output.split())
