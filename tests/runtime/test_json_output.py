"""With `--json` every command prints JSON and nothing else on stdout, whatever else it writes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import click
import numpy as np
import onnx
import pytest
from onnx import helper

import edgemem
from edgemem.cli.main import main
from models.build import build_tflite
from models.decoder import Sizes, decoder
from tests.snapshots import Device, snapshot, write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytest.importorskip("onnxruntime")
pytest.importorskip("ai_edge_litert")
pytest.importorskip("tflite_micro")

# Arguments of each command, from the folder of the files below, and its exit code.
QUICK: Final = {
    "plan": ("m.onnx -o made.onnx", 0),
    "plan, several": ("m.onnx p.onnx -o many", 0),
    "plan, over budget": ("m.onnx --budget 1", 3),
    "show": ("p.onnx", 0),
    "strategies": ("", 0),
    "verify": ("--run p.onnx", 0),
    "run": ("m.onnx --compare -o results", 0),
    "run, tflite": ("m.tflite --runtime litert", 0),
    "check": ("models.toml --update --junit made.xml", 0),
    "check, grew": ("small.toml --github", 1),
    "diff": ("m.onnx p.onnx --fail-above 1%", 0),
    "size": ("m.tflite", 0),
    "size, shared": ("m.tflite other.tflite --share sequential", 0),
    "size, onnx": ("m.onnx", 0),
    "trace": ("t.pickle -o made.edgemem --svg made.svg", 0),
    "android project": ("p.onnx -o project", 0),
    "android verify": ("not.apk", 1),
}
SLOW: Final = {
    "shrink": ("m.onnx -o shrunk.onnx", 0),
    "shrink, nothing": ("m.onnx --budget 1", 3),
    "fit": ("d.onnx --budget 1GiB -o genai_config.json", 0),
    "measure": ("m.onnx --rounds 1 --repeats 1", 0),
    "measure, tflite": ("m.tflite --rounds 1 --repeats 1", 0),
    "probe": ("", 0),
}
ELSEWHERE: Final = {"android package"}  # needs Android's tools: test_android_package.py reads what it prints


def commands(group: click.Group, before: str = "") -> Iterator[str]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{before}{name} ")
        elif any("--json" in option.opts for option in command.params):
            yield f"{before}{name}"


def test_every_command_is_tried() -> None:
    assert {case.split(",")[0] for case in (*QUICK, *SLOW)} | ELSEWHERE == set(commands(main))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("files")
    value, result = (helper.make_tensor_value_info(name, 1, [1, 4, 8, 8]) for name in "xy")
    weights = [onnx.numpy_helper.from_array(np.ones((4, 4, 3, 3), np.float32), name) for name in ("w", "unused")]
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], pads=[1] * 4),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w"], ["y"], pads=[1] * 4),
    ]
    inputs = [value, helper.make_tensor_value_info("unused", 1, [4, 4, 3, 3])]  # ONNX Runtime warns of it
    graph = helper.make_graph(nodes, "g", inputs, [result], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), made / "m.onnx")
    onnx.save(decoder(sizes=Sizes(positions=64)), made / "d.onnx")
    for name, size in (("m", 32), ("other", 48)):
        content = build_tflite("mobilenet_v1_tflite", alpha=0.25, size=size, int8=True)
        (made / f"{name}.tflite").write_bytes(content)
    device = Device()
    address = device.segment(1 << 20)["address"]
    device.alloc(address, 1 << 19)
    device.note("oom", size=1 << 20, device_free=0)
    write(made / "t.pickle", snapshot(device))
    (made / "m.csv").write_text("tensor,first_op,last_op,size\na,0,2,64\n")
    (made / "models.toml").write_text("[[model]]\npath = 'm.onnx'\nbudget = '1MiB'\n")
    (made / "small.toml").write_text("[[model]]\npath = 'm.onnx'\nbudget = 1\n")
    (made / "not.apk").write_bytes(b"no package")
    edgemem.save(made / "m.onnx", edgemem.plan(made / "m.onnx"), made / "p.onnx")
    return made


@pytest.fixture
def command(
    folder: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, str]]:
    """Runs a command in the folder: its exit code, and what it and the runtimes, which need no Python for it, print."""
    monkeypatch.chdir(folder)

    def run(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(words, prog_name="edgemem")
        return (int(ended.value.code or 0), *capfd.readouterr())

    return run


def refuse(constant: str) -> None:
    pytest.fail(f"{constant} is no JSON")


@pytest.mark.parametrize("case", [*QUICK, *(pytest.param(case, marks=pytest.mark.full) for case in SLOW)], ids=str)
def test_stdout_is_json(case: str, command: Callable[..., tuple[int, str, str]]) -> None:
    words, code = {**QUICK, **SLOW}[case]
    name = case.split(",", maxsplit=1)[0]
    status, out, err = command(*name.split(), *words.split(), "--json")
    assert status == code, err
    if out or not code:  # an error may leave nothing to print but its line
        json.loads(out, parse_constant=refuse)


def test_commands_leave_out_what_onnx_runtime_warns_of(command: Callable[..., tuple[int, str, str]]) -> None:
    for words in (
        ("plan", "m.onnx", "-o", "again.onnx"),
        ("run", "m.onnx", "--compare"),
        ("verify", "--run", "p.onnx"),
    ):
        status, out, err = command(*words)
        assert status == 0, err
        assert "onnxruntime:" not in out + err
