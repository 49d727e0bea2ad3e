"""What a file asks for is bounded by its bytes and by what the model declares: small files that ask for much."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper, parser

import edgemem
from edgemem import planfile
from edgemem.errors import ModelError
from edgemem.formats import Bindings
from edgemem_converters.onnx.model import OnnxConverter

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SECONDS, MIB = 20, 1024  # of processor time, and of memory


def run(*words: object, cwd: Path | None = None) -> tuple[int, str]:
    """A command under limits: its exit code, and what it said."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_AS, (MIB << 20, MIB << 20))

    done = subprocess.run(
        [sys.executable, "-m", "edgemem", *map(str, words)],
        cwd=cwd,
        capture_output=True,
        text=True,
        preexec_fn=limit,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "200"},
        timeout=10 * SECONDS,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    "text",
    [
        "a." * 20_000 + "b = 1\n",
        "[" + "a." * 20_000 + "b]\n" + "".join(f"k{k}.x = 1\n" for k in range(20_000)),
        "x = {" + "a." * 20_000 + "b = 1}\n",
        '[pins]\n"a' + "." * 100_000 + 'b" = 1\n',  # dots in a name are its own
        "#" + "." * 100_000 + "\n",
    ],
    ids=["key", "header", "inline", "name", "comment"],
)
def test_keys_of_many_parts_in_toml(text: str, tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(text)
    (tmp_path / "r.csv").write_text("tensor,first_op,last_op,size\na,0,1,8\n")
    code, said = run("check", tmp_path / "t.toml")
    assert (code, said.count("\n")) == (1, 1)
    if text[0] in "a[x" and not text.startswith("[pins"):
        assert "has more than 16 parts" in said
        with pytest.raises(ModelError, match="more than 16 parts"):
            edgemem.plan(_model(tmp_path / "m.onnx"), target=str(tmp_path / "t.toml"))


def test_a_byte_order_mark_in_toml(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_bytes(b"\xef\xbb\xbfalignment = 16\r\n")
    model = _model(tmp_path / "m.onnx")
    assert edgemem.plan(model, target=str(tmp_path / "t.toml")).problem.alignment == 16


@pytest.mark.parametrize("last", [2_000_000, (1 << 63) - 2])
def test_operator_indices_that_are_timestamps(last: int, tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text(f"tensor,first_op,last_op,size\na,0,{last},8\nb,3,{last},8\n")
    assert run("plan", "r.csv", "-o", "p.edgemem", cwd=tmp_path)[0] == 0
    code, said = run("show", "p.edgemem", "--profile", cwd=tmp_path)
    assert code == 0
    rows = [line.split() for line in said.splitlines()]
    assert [row[:2] for row in rows][-2:] == [["0-2", "8"], [f"3-{last}", "16"]]
    for source, forms in (("r.csv", ("html", "svg")), ("p.edgemem", ("json", "md", "pftrace"))):
        for form in forms:
            code, said = run("report", source, "-o", f"x.{form}", cwd=tmp_path)
            assert (code, said.count("\n")) in ((0, 1), (1, 1)), said


def _model(path: Path, shape: str = "4", more: Sequence[str] = ()) -> Path:
    nodes = " ".join(("a = Exp (x)", "y = Tanh (a)", *more))
    text = f'<ir_version: 8, opset_import: ["" : 17]> g (float[{shape}] x) => (float[{shape}] y) {{ {nodes} }}'
    onnx.save(parser.parse_model(text), path)
    return path


def test_an_arena_of_holes_is_not_filled(tmp_path: Path) -> None:
    _model(tmp_path / "m.onnx")
    (tmp_path / "t.toml").write_text('[pins]\na = "2GiB"\n')
    assert run("plan", "m.onnx", "-t", "t.toml", "-o", "p.onnx", cwd=tmp_path)[0] == 0
    assert run("verify", "p.onnx", cwd=tmp_path)[0] == 0
    for words in (("verify", "--run"), ("run", "--executor", "io-binding")):
        code, said = run(*words, "p.onnx", cwd=tmp_path)
        assert code == 1
        assert "its records end to end" in said


def test_a_plan_does_not_decide_how_large_inputs_are(tmp_path: Path) -> None:
    planset = edgemem.plan(_model(tmp_path / "m.onnx"))
    forged = replace(planset, input_shapes={"x": (1 << 28,)})
    model = OnnxConverter.open(tmp_path / "m.onnx", Bindings())
    model.with_plan(planfile.encode_all((forged,)), forged).save(tmp_path / "p.onnx")
    for words in (("verify", "--run"), ("run",)):
        code, said = run(*words, "p.onnx", cwd=tmp_path)
        assert code != 0
        assert said.count("\n") <= 2
        assert "memory" not in said
    _model(tmp_path / "open.onnx", "N")
    assert run("plan", "open.onnx", "--dim", f"N={1 << 28}", "-o", "q.onnx", "--no-record", cwd=tmp_path)[0] == 0
    code, said = run("verify", "--run", "q.onnx", cwd=tmp_path)
    assert code == 1
    assert "give them with --input" in said


@pytest.mark.full
@pytest.mark.parametrize(
    "command", ["shrink m.onnx --time-limit 1 -o s.onnx", "report m.onnx --shrink --time-limit 1 -o r.html"]
)
def test_a_loop_without_end_ends_with_the_time_limit(command: str, tmp_path: Path) -> None:
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [helper.make_node("Identity", ["ci"], ["co"]), helper.make_node("Relu", ["vi"], ["vo"])],
        "b",
        [value("i", TensorProto.INT64, []), value("ci", TensorProto.BOOL, []), value("vi", TensorProto.FLOAT, [4])],
        [value("co", TensorProto.BOOL, []), value("vo", TensorProto.FLOAT, [4])],
    )
    loop = helper.make_node("Loop", ["trip", "", "x"], ["a"], body=body)
    graph = helper.make_graph(
        [loop, helper.make_node("Tanh", ["a"], ["y"])],
        "g",
        [value("x", TensorProto.FLOAT, [4])],
        [value("y", TensorProto.FLOAT, [4])],
        [numpy_helper.from_array(np.array(1 << 62, np.int64), "trip")],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(made, tmp_path / "m.onnx")
    done = subprocess.run(
        [sys.executable, "-m", "edgemem", *command.split()],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert "did not end within 10 s" in done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx"]
