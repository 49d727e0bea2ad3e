"""What `export` writes for firmware compiles for the computer and for Arm, and its self-test knows right from wrong."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from edgemem import api, planfile
from edgemem.commands.firmware import firmware_of
from edgemem.model.graph import Graph, Tensor
from edgemem.records.micro_arena import predicted_arena
from edgemem.records.micro_builds import INSTALLED, build_of
from edgemem.report.firmware import Firmware, SelfTest, as_c_array
from edgemem.runtime.tflm.execution import execute, is_installed
from edgemem.runtime.tflm.self_test import kind_of, self_test_inputs, self_test_run
from edgemem.targets import BUILT_IN
from edgemem_converters.tflite.model import TfliteConverter
from models.fetch import FetchError
from tests.compilers import needs_compilers
from tests.runtime.micro_models import MICRO_MODELS
from tests.runtime.test_cli_tflite import edgemem
from tests.tflite_models import M, O, S, T, build, floats, up16

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.targets import Target

needs_tflm = pytest.mark.skipif(not is_installed(), reason="tflite-micro is not installed")
STRICT = ("-Wall", "-Wextra", "-Werror")
ESP_NN = ("esp-nn", "esp-nn-esp32s3", "esp-nn-esp32p4")
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


def planned(name: str, folder: Path, kernels: str = "none") -> Path:
    try:
        model = TfliteConverter.from_bytes(MICRO_MODELS[name]())
    except FetchError as e:
        pytest.skip(str(e))
    target = BUILT_IN["tflm"].changed(kernels=kernels, slots=kernels != "none")
    planset = api.plan(model, target=target, effort="fast")
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


def arena_of(model: TfliteConverter, target: Target) -> int:
    return predicted_arena(model.graph(), model.offline(), build_of(target)).total


def test_the_arena_is_that_of_the_device(tmp_path: Path) -> None:
    """With 32-bit pointers it is what is predicted there, and the header says what other kernels need."""
    path, out = planned("keyword spotting", tmp_path), tmp_path / "m.h"
    assert edgemem("export", "-f", "c-array", path, "-o", out).exit_code == 0
    model, text = TfliteConverter.from_bytes(path.read_bytes()), out.read_text()
    sizes = [int(line.split()[-1]) for line in text.splitlines() if line.startswith("#define M_TENSOR_ARENA_SIZE ")]
    assert sizes[1] == up16(arena_of(model, BUILT_IN["tflm"])) < sizes[0]
    for kernels in ("cmsis-nn-dsp", "esp-nn-esp32s3"):
        needed = up16(arena_of(model, replace(BUILT_IN["tflm"], kernels=kernels)))
        assert needed <= sizes[1] or f"{needed} for {kernels}" in text


def test_esphome_has_no_other_operators(tmp_path: Path) -> None:
    path = planned("tflm_sine_float", tmp_path)
    assert edgemem("export", "-f", "esphome", path, "-o", tmp_path / "right").exit_code == 0
    graph = S([T("x", shape=(1, 4)), T("y", shape=(1, 4))], [O("EXP", (0,), (1,))], (0,), (1,))
    (tmp_path / "exp.tflite").write_bytes(build(M([graph])))
    assert edgemem("plan", tmp_path / "exp.tflite", "-o", tmp_path / "other.tflite").exit_code == 0
    refused = edgemem("export", "-f", "esphome", tmp_path / "other.tflite", "-o", tmp_path / "wrong")
    assert refused.exit_code != 0
    assert "has no Exp" in " ".join(refused.output.split())


def test_a_manifest_of_esphome_has_the_arena(tmp_path: Path) -> None:
    path, out = planned("mean", tmp_path), tmp_path / "out"
    assert edgemem("export", "-f", "esphome", path, "-o", out).exit_code == 0
    manifest = json.loads((out / "m.json").read_text())
    assert (manifest["type"], manifest["version"], manifest["model"]) == ("micro", 2, "m.tflite")
    arena = manifest["micro"]["tensor_arena_size"]
    model = TfliteConverter.from_bytes((out / "m.tflite").read_bytes())
    assert model.offline()
    assert model.plan() is None
    needed = [arena_of(model, replace(BUILT_IN["tflm"], kernels=kernels)) for kernels in ESP_NN]
    assert max(needed) <= arena < max(needed) + 16
    assert "website" not in manifest  # which ESPHome wants to be an address
    assert arena == up16(arena)


@needs_tflm
@pytest.mark.parametrize("name", ["mean", "mean of all pixels of int8", "tflm_sine_float"])
@needs_compilers
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
def test_the_self_test_says_whether_outputs_depend_on_inputs(tmp_path: Path) -> None:
    """A mean tells inputs apart, and a maximum with the largest number does not."""
    for name, is_blind in (("mean of all pixels of int8", False), ("one output for all", True)):
        model = saturated() if is_blind else MICRO_MODELS[name]()
        path = tmp_path / "m.tflite"
        path.write_bytes(model)
        graph = TfliteConverter.from_bytes(model).graph()
        seed, digest, found = self_test_run(model, graph)
        outputs = {
            k: execute(model, self_test_inputs(graph, k), outputs=1).outputs[0].tobytes() for k in (seed, seed % 4 + 1)
        }
        assert found is is_blind
        assert (len(set(outputs.values())) == 1) is is_blind
        text = as_c_array(
            [
                Firmware(
                    "m",
                    model,
                    64,
                    "",
                    self_test=SelfTest((kind_of(graph.tensors[graph.inputs[0]].dtype),), digest, seed, found),
                )
            ]
        )
        assert ("the same outputs" in text) is is_blind
        assert f"#define M_SELF_TEST_SEED {seed}u" in text


def saturated() -> bytes:
    """The larger of each number and one that is larger than all."""
    most = floats(*[3.0e38] * 4)
    tensors = [T("x"), T("most", data=most), T("y")]
    return build(M([S(tensors, [O("MAXIMUM", (0, 1), (2,))], (0,), (2,))]))


@pytest.mark.parametrize("profile", ["cmsis-nn-mve", "esp-nn-esp32s3", "esp-nn-esp32p4"])
def test_the_arena_has_the_workspace_of_the_kernels_of_the_plan(profile: str, tmp_path: Path) -> None:
    """These libraries ask for some where the reference kernels, which run here, do not."""
    path = planned("keyword spotting", tmp_path, kernels=profile)
    model = TfliteConverter.from_bytes(path.read_bytes())
    builds = [replace(INSTALLED, kernels=kernels) for kernels in (profile, "none")]
    ours, reference = (predicted_arena(model.graph(), model.offline(), build) for build in builds)
    assert ours.total > reference.total
    assert firmware_of([path], "")[0].arena >= ours.head.total + ours.tail


@needs_compilers
def test_several_inputs_and_outputs_are_filled_and_digested_in_their_order(tmp_path: Path) -> None:
    """The stand-in's outputs are its inputs."""
    types = ("int8", "float32", "int64", "bool", "int16")
    tensors = tuple(Tensor(dtype, dtype, (3, k + 1)) for k, dtype in enumerate(types))
    values = self_test_inputs(Graph("g", tensors, (), tuple(range(len(types))), ()))
    digest = 0xCBF29CE484222325
    for byte in b"".join(value.tobytes() for value in values):
        digest = (digest ^ byte) * 0x100000001B3 % 2**64
    kinds = tuple(kind_of(dtype) for dtype in types)
    header = as_c_array([Firmware("m", b"TFL3", 64, "", self_test=SelfTest(kinds, digest))])
    sizes = ", ".join(str(value.nbytes) for value in values)
    classes = f"""
struct Data {{ void *data; }};
struct Tensor {{ Data data; size_t bytes; }};
static uint8_t memory[{len(types)}][128];
static const size_t sizes[] = {{{sizes}}};
struct Interpreter {{
  Tensor tensors[{len(types)}];
  size_t inputs_size() const {{ return {len(types)}; }}
  size_t outputs_size() const {{ return {len(types)}; }}
  Tensor *input(size_t k) {{ tensors[k] = {{{{memory[k]}}, sizes[k]}}; return &tensors[k]; }}
  Tensor *output(size_t k) {{ return &tensors[k]; }}
  int Invoke() {{ return 0; }}
}};
int main() {{ Interpreter interpreter = {{}}; return m_self_test(interpreter) ? 0 : 1; }}
"""
    program = tmp_path / "program.cpp"
    program.write_text(header + classes)
    built = tmp_path / "program"
    subprocess.run(["g++", "-std=c++17", *STRICT, str(program), "-o", str(built)], check=True)
    assert subprocess.run([built], check=False).returncode == 0


@pytest.mark.parametrize(("dtype", "kind"), [("int8", 0), ("float32", 4), ("bool", -1), ("int32", -4), ("int64", -8)])
def test_inputs_of_these_types_are_filled(dtype: str, kind: int) -> None:
    assert kind_of(dtype) == kind


@pytest.mark.parametrize("dtype", ["float16", "float64", "complex64", "int4", "resource"])
def test_inputs_of_other_types_are_refused(dtype: str) -> None:
    """Ones would be other bytes there than the firmware writes."""
    with pytest.raises(TypeError):
        kind_of(dtype)


@needs_tflm
def test_resource_variables_are_counted(tmp_path: Path) -> None:
    path, out = planned("mww_alexa", tmp_path), tmp_path / "m.h"
    assert edgemem("export", "-f", "c-array", path, "-o", out).exit_code == 0
    assert "#define M_RESOURCE_VARIABLES 6\n" in out.read_text()
    assert "#define M_OPERATORS 12\n" in out.read_text()
