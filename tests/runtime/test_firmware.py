"""What `export` writes for firmware compiles for the computer and for Arm, and its self-test knows right from wrong."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import numpy as np
import pytest

from edgemem import api, planfile
from edgemem.runtime.tflm.execution import execute, is_installed
from edgemem_converters.tflite.model import TfliteConverter
from models.fetch import FetchError
from tests.runtime.micro_models import MICRO_MODELS
from tests.runtime.test_cli_tflite import edgemem
from tests.tflite_models import up16

if TYPE_CHECKING:
    from pathlib import Path

needs_tflm = pytest.mark.skipif(not is_installed(), reason="tflite-micro is not installed")
STRICT = ("-Wall", "-Wextra", "-Werror")
FORMS = ("espidf", "arduino", "zephyr")
# A stand-in for TensorFlow Lite Micro's classes: as many operators as there is room for, and given outputs.
CLASSES = """
struct Data { void *data; };
struct Tensor { Data data; size_t bytes; };
struct Interpreter {
  Tensor in, out;
  int runs;
  size_t inputs_size() const { return 1; }
  size_t outputs_size() const { return 1; }
  Tensor *input(size_t) { return &in; }
  Tensor *output(size_t) { return &out; }
  int Invoke() { ++runs; return 0; }
};
struct Resolver {
  int room;
  int add() { return room-- > 0 ? 0 : 1; }
  ADDERS
};
extern "C" int adds(int room) { Resolver resolver = {room}; return m_add_operators(resolver); }
extern "C" int passes(void *input, size_t input_size, void *output, size_t output_size) {
  Interpreter interpreter = {{{input}, input_size}, {{output}, output_size}, 0};
  return m_self_test(interpreter) && interpreter.runs == 1;
}
extern "C" void fill(void *to, size_t size, int kind) {
  uint32_t state = M_SELF_TEST_SEED;
  m_self_test_fill(to, size, kind, &state);
}
"""


def planned(name: str, folder: Path) -> Path:
    try:
        model = TfliteConverter.from_bytes(MICRO_MODELS[name]())
    except FetchError as e:
        pytest.skip(str(e))
    planset = api.plan(model, effort="fast")
    path = folder / "m.tflite"
    model.with_plan(planfile.encode(planset), planset).save(path)
    return path


def compilers() -> list[list[str]]:
    """Of the computer and, where it is there, of Arm's microcontrollers."""
    found = [["gcc", "-std=c11"], ["g++", "-std=c++17"]]
    arm = ["-mcpu=cortex-m4", "-mthumb"]
    found += [["arm-none-eabi-gcc", "-std=c11", *arm], ["arm-none-eabi-g++", "-std=c++17", *arm]]
    return [command for command in found if shutil.which(command[0])]


def compile_all(source: Path) -> None:
    found = compilers()
    for command in found:
        language = "c++" if "++" in command[0] else "c"
        object_file = source.with_suffix(".o")
        done = subprocess.run(
            [*command, *STRICT, "-x", language, "-c", source, "-o", object_file, "-I", source.parent],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, (command, done.stderr)
    if not any("arm" in command[0] for command in found):
        pytest.skip("no arm-none-eabi-gcc here")


@pytest.mark.parametrize("form", FORMS)
def test_each_folder_compiles(form: str, tmp_path: Path) -> None:
    path, out = planned("mean", tmp_path), tmp_path / "out"
    done = edgemem("export", "-f", form, path, "-o", out)
    assert done.exit_code == 0, done.output
    (source,) = out.rglob("*.c")
    assert source.with_suffix(".h").exists()
    if form == "zephyr":
        assert (out / "zephyr" / "module.yml").read_text().startswith("name: m_model\n")
    else:
        file = {"espidf": "CMakeLists.txt", "arduino": "library.properties"}[form]
        assert "m_model" in (out / file).read_text()
    assert edgemem("export", "-f", form, path).exit_code == 2
    compile_all(source)


def test_one_file_compiles(tmp_path: Path) -> None:
    path, out = planned("mean", tmp_path), tmp_path / "m.c"
    assert edgemem("export", "-f", "c-array", path, "-o", out).exit_code == 0
    compile_all(out)


def test_a_manifest_of_esphome_has_the_arena(tmp_path: Path) -> None:
    path, out = planned("mean", tmp_path), tmp_path / "out"
    assert edgemem("export", "-f", "esphome", path, "-o", out).exit_code == 0
    manifest = json.loads((out / "m.json").read_text())
    assert (manifest["type"], manifest["version"], manifest["model"]) == ("micro", 2, "m.tflite")
    arena = manifest["micro"]["tensor_arena_size"]
    model = TfliteConverter.from_bytes((out / "m.tflite").read_bytes())
    assert model.offline()
    assert model.plan() is None
    if is_installed():
        graph = model.graph()
        execute(
            model.content(), [np.ones((1, 5, 6, 3), "f4")[:1].repeat(2, 0)], outputs=len(graph.outputs), arena=arena
        )
    assert arena == up16(arena)


@needs_tflm
@pytest.mark.parametrize("name", ["mean", "mean of all pixels of int8", "tflm_sine_float"])
def test_the_self_test_passes_on_the_outputs_of_the_runtime_alone(name: str, tmp_path: Path) -> None:
    path, out = planned(name, tmp_path), tmp_path / "m.h"
    assert edgemem("export", "-f", "c-array", path, "-o", out).exit_code == 0
    text = out.read_text()
    model = TfliteConverter.from_bytes(path.read_bytes())
    graph = model.graph()
    kinds = {op.type for op in graph.ops}
    adders = [word.split("(")[0] for word in text.split("resolver.")[1:]]
    assert len(adders) == len(set(adders)) == len(kinds)
    assert f"#define M_OPERATORS {len(kinds)}\n" in text
    program = tmp_path / "program.cpp"
    methods = " ".join(f"int {adder}() {{ return add(); }}" for adder in adders)
    program.write_text(f'#include "m.h"\n{CLASSES.replace("ADDERS", methods)}')
    library = tmp_path / "program.so"
    built = ["g++", "-std=c++17", *STRICT, "-shared", "-fPIC", str(program), "-o", str(library)]
    subprocess.run(built, check=True)
    code = ctypes.CDLL(str(library))
    assert code.adds(len(kinds)) == 1
    assert code.adds(len(kinds) - 1) == 0
    given = graph.tensors[graph.inputs[0]]
    value = np.zeros(given.shape, given.dtype)
    code.fill(
        value.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(value.nbytes), 4 if given.dtype == "float32" else 0
    )
    assert value.any()
    output = execute(model.without_plan().content(), [value], outputs=1).outputs[0].copy()

    def passes() -> bool:
        ends = [(a.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(a.nbytes)) for a in (np.zeros_like(value), output)]
        return bool(code.passes(*ends[0], *ends[1]))

    assert passes()
    output.reshape(-1).view(np.uint8)[-1] ^= 1
    assert not passes()


@needs_tflm
def test_resource_variables_are_counted(tmp_path: Path) -> None:
    path, out = planned("mww_alexa", tmp_path), tmp_path / "m.h"
    assert edgemem("export", "-f", "c-array", path, "-o", out).exit_code == 0
    assert "#define M_RESOURCE_VARIABLES 6\n" in out.read_text()
    assert "#define M_OPERATORS 12\n" in out.read_text()
