"""Names of strangers in C, C++, SVG and file names: they stay names."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from dataclasses import replace
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import edgemem
from edgemem.commands.outcome import Outcome, write_outputs
from edgemem.model.graph import Graph, Op, Tensor
from edgemem.records.problem import Problem, UsageRecord
from edgemem.report.c_header import as_c_header, comment, identifier, prefix_of
from edgemem.report.document import document
from edgemem.report.firmware import Firmware, SelfTest, as_c_array, common_name
from edgemem.report.svg import as_svg
from edgemem.report.tflm_bufferplan import as_tflm_bufferplan

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from edgemem.plans import PlanSet

HOSTILE = (
    "x */ #include <stdlib.h> /*",
    "*/*/ int injected; /*/*",
    "/*/",
    "*//*",
    "ends in a backslash \\",
    "ends in a backslash and a space \\ ",
    "trigraph ??/",
    "trigraph ???/",
    "trigraphs ????/",
    "??=define A ??/",
    "two\nlines\r\nof text\x0b\x0c\x85\u2028\u2029",
    "quotes \" and ' and `",
    "</title><script>alert(1)</script>&amp;]]>",
    "\x1b[31mred\x1b[0m \x9b31m \x07\x00",
    "\u202eright to left\u202c",
    "\ud800 alone",
    "// comment",
    "",
    " ",
    "é",
    "%s%n",
    "a" * 300,
)


def planned(names: Sequence[str]) -> PlanSet:
    records = [UsageRecord(name, k, k + 1, 16, "tensor", (name,)) for k, name in enumerate(names)]
    planset = edgemem.plan(Problem(records), strategy="greedy_by_size")
    return replace(planset, offsets=tuple(replace(p, strategy=names[0]) for p in planset.offsets))


def compiled(source: str, suffix: str, folder: Path) -> None:
    """Compile as strictly as there is: trigraphs are replaced, and warnings about comments are errors."""
    if shutil.which("gcc") is None or shutil.which("g++") is None:
        pytest.skip("needs gcc and g++")
    file = folder / f"source{suffix}"
    file.write_text(source, encoding="ascii")
    compiler = ["g++", "-std=c++14"] if suffix == ".cpp" else ["gcc", "-std=c11"]
    options = ["-trigraphs", "-Wall", "-Wextra", "-Wno-unused-const-variable", "-Wno-unused-variable", "-Werror", "-c"]
    done = subprocess.run(
        [*compiler, *options, "-o", "/dev/null", file], capture_output=True, text=True, check=False, timeout=120
    )
    assert not done.returncode, done.stderr


@pytest.mark.parametrize("first", range(len(HOSTILE)))
def test_a_header_is_nothing_but_macros(first: int, tmp_path: Path) -> None:
    names = (*HOSTILE[first:], *HOSTILE[:first])
    planset = planned(names)
    (plan,) = planset.offsets
    header = as_c_header(planset, "model")
    code = [line for line in header.splitlines() if not line.startswith("/*")]
    assert len([line for line in code if line.startswith("#define MODEL_OFFSET_")]) == len(names)
    assert all(line == "" or line.startswith(("#define MODEL_", "#ifndef MODEL_", "#endif")) for line in code)
    assert plan.strategy == names[0]
    if first < 3:
        checks = "".join(f"_Static_assert(MODEL_ARENA_SIZE == {plan.size}, {k});\n" for k in ('"size"',))
        compiled(header + checks, ".c", tmp_path)


def test_many_equal_names_take_no_quadratic_time() -> None:
    names = [f"{'/.:-'[k % 4]}x" for k in range(20_000)]
    planset = planned(names)
    begin = time.process_time()
    header = as_c_header(planset, "model")
    assert time.process_time() - begin < 5
    macros = [line.split()[1] for line in header.splitlines() if "_OFFSET_" in line]
    assert len(set(macros)) == len(names)


@pytest.mark.parametrize("first", [0, 6, 7, 8])
def test_a_buffer_plan_keeps_every_entry(first: int, tmp_path: Path) -> None:
    names = (*HOSTILE[first:], *HOSTILE[:first])
    ops = tuple(Op(f"op{k}", "ABS", (k - 1,) if k else (), (k,)) for k in range(len(names)))
    graph = Graph("g", tuple(Tensor(n, "int8", (16,)) for n in names), ops, (), (len(names) - 1,), number=0)
    planset = planned(names)
    source = as_tflm_bufferplan(planset, "model", graph)
    count = f"sizeof(model_buffer_plan.entries) == {len(names)} * sizeof(int32_t)"
    last = planset.offsets[0].offsets.tolist()[-1]
    check = f"""
static_assert({count}, "entries");
int main() {{ return model_buffer_plan.entries[{len(names) - 1}].offset == {last} ? 0 : 1; }}
"""
    compiled(source + check, ".cpp", tmp_path)


@pytest.mark.parametrize("text", HOSTILE)
def test_a_comment_holds_only_text(text: str) -> None:
    made = comment(text)
    assert made.isascii()
    assert "\\" not in made
    assert "??" not in made
    assert "*/" not in f"{made} "
    assert made.isprintable()


ODD = ("int", "class", "_Bool", "__x", "7net", "", "模型", "a-b.c", "model", "while", "_X", 'a";system("x")')


@pytest.mark.parametrize("name", [*ODD, "main", "index", "signal", "log", "int8_t", "memcpy"])
def test_a_prefix_is_an_identifier_of_both_languages(name: str, tmp_path: Path) -> None:
    prefix = prefix_of(name)
    assert prefix == identifier(prefix)
    assert not prefix.startswith("__")
    source = as_c_array([Firmware(name, b"TFL3", 64, f"{name} */ #error \\", kernels=name)])
    compiled(source, ".c", tmp_path)
    compiled(source, ".cpp", tmp_path)


HEADERS = "".join(
    f"#include <{name}.h>\n" for name in ("stdlib", "stdio", "string", "math", "time", "unistd", "signal", "sys/socket")
)
TAKEN = (
    *("NULL", "std", "tflite", "linux", "unix", "alarm", "listen", "accept", "random", "atan2", "sinf", "strspn"),
    *("snprintf", "access", "pause", "swab", "environ", "INT8_MAX", "EOF", "strtok_r", "M_PI"),
)


@pytest.mark.parametrize("name", [*TAKEN, "wake_word", "person", "uint8", "size", "data"])
def test_a_prefix_is_no_name_of_a_header(name: str, tmp_path: Path) -> None:
    source = HEADERS + as_c_array([Firmware(name, b"TFL3", 64, name)])
    compiled(source.replace("#include", "#define _GNU_SOURCE\n#include", 1), ".c", tmp_path)
    compiled(source + "namespace tflite { class MicroInterpreter; }\n", ".cpp", tmp_path)


@pytest.mark.parametrize("name", ["alexa", "classifier", "photo", "wake_word", "vww_96", "x", "model"])
def test_other_names_stay_as_they_are(name: str) -> None:
    assert prefix_of(name) == name


@pytest.mark.parametrize(
    ("first", "second", "common"),
    [
        *(("a-b", "a_b", "a_b"), ("Foo", "foo", "foo"), ("x", "x_len", "x_len"), ("x_digest", "x", "x_digest")),
        *(("x", "x_self_test", "x_self_test"), ("x", "y", ""), ("kws", "kws_small", "")),
    ],
)
def test_two_models_have_no_name_in_common(first: str, second: str, common: str) -> None:
    models = [Firmware(name, b"TFL3", 64, name, self_test=SelfTest((0,), 1)) for name in (first, second)]
    assert common_name(models) == common


def test_an_svg_is_well_formed_and_holds_the_names_as_text() -> None:
    root = ET.fromstring(as_svg(planned(HOSTILE)))
    kinds = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert kinds == {"svg", "rect", "text", "title", "line"}
    titles = [element.text or "" for element in root.iter() if element.tag.endswith("title")]
    assert any("<script>" in title for title in titles)


def test_json_is_ascii_and_gives_the_names_back() -> None:
    planset = replace(planned(HOSTILE), digest=bytes(32).hex())
    text = json.dumps(document(planset))
    assert text.isascii()
    assert [r["name"] for r in json.loads(text)["model"]["records"]] == list(HOSTILE)


def test_every_output_gets_a_file_of_its_own(tmp_path: Path) -> None:
    names = ["a/b", "a_b", "a:b", "../../up", "x" * 300, "x" * 299 + "y", "A_B", "", ".", "é", "\x1b[31m"]
    outputs = {name: np.array([k]) for k, name in enumerate(names)}
    write_outputs(Outcome(outputs, None, None, None, ()), tmp_path / "folder")  # type: ignore[arg-type]
    written = list((tmp_path / "folder").iterdir())
    assert sorted(int(np.load(file)[0]) for file in written) == list(range(len(names)))
    assert len({file.name.lower() for file in written}) == len(names), "also where case does not count"
    assert list(tmp_path.iterdir()) == [tmp_path / "folder"]
    assert (tmp_path / "folder" / "a_b.npy").exists()
