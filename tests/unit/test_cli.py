from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import onnx
import pytest
from click.testing import CliRunner, Result

from edgemem.cli.main import main
from models.build import build
from tests.compilers import needs_compilers

if TYPE_CHECKING:
    from pathlib import Path

CSV = "tensor,first_op,last_op,size\na,0,1,16\nb,1,2,24\nc,2,3,16\n"


def edgemem(*args: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in args])


@pytest.fixture
def records(tmp_path: Path) -> Path:
    file = tmp_path / "records.csv"
    file.write_text(CSV)
    return file


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / "blazeface.onnx"
    onnx.save(build("blazeface", size="small"), path)
    return path


@pytest.fixture(scope="module")
def planned(model: Path) -> Path:
    path = model.with_name("blazeface.planned.onnx")
    result = edgemem("plan", model, "--no-record", "-o", path)
    assert result.exit_code == 0, result.output
    return path


def test_too_little_memory_is_one_line(records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(*_: object, **__: object) -> None:
        raise MemoryError("Unable to allocate 95.4 GiB")

    monkeypatch.setattr("edgemem.commands.stateful_model.load", exhausted)
    done = edgemem("plan", records)
    assert done.exit_code == 1
    assert done.output.startswith("edgemem: there is not enough memory (Unable to allocate 95.4 GiB); give smaller")


def test_a_module_that_cannot_be_loaded_is_one_line(records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unmapped(*_: object, **__: object) -> None:
        raise ImportError("failed to map segment from shared object", name="onnx_cpp2py_export")

    monkeypatch.setattr("edgemem.commands.stateful_model.load", unmapped)
    done = edgemem("plan", records)
    assert (done.exit_code, done.output.count("\n")) == (1, 1)
    assert done.output.startswith("edgemem: cannot load onnx_cpp2py_export (failed to map segment")


@pytest.mark.full
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of the address space")
def test_little_address_space_is_not_said_to_be_a_signal(records: Path) -> None:
    """OpenBLAS sends the process a SIGINT where it cannot start a thread.

    What Python itself says where memory ends within an import (a SystemError, a SyntaxError) is not ours.
    """
    for mebibytes in (180, 200, 220):
        limit = f"ulimit -v {mebibytes << 10}; exec {sys.executable} -m edgemem plan {records}"
        done = subprocess.run(["bash", "-c", limit], capture_output=True, text=True, check=False)
        assert "SIGINT" not in done.stderr
        # 127: the system cannot load Python itself.
        assert done.returncode in (0, 1, 127)


def test_the_first_line_is_the_answer(records: Path) -> None:
    result = edgemem("plan", records)
    assert result.exit_code == 0
    assert result.output.startswith("arena 40 B = lower bound (optimal), greedy_by_size")


def test_json_on_records_has_the_documented_shape(records: Path) -> None:
    data = json.loads(edgemem("plan", records, "--json").output)
    assert list(data) == ["version", "naive", "lower_bounds", "proved", "claimed", "plans", "chosen", "peak"]
    assert data["version"] == 2
    assert data["naive"] == 56
    assert data["lower_bounds"] == {"offsets": 40, "shared_objects": 40}
    for plan in data["plans"]:
        keys = ["family", "strategy", "options", "size", "optimal", "search"]
        if plan["family"] == "offsets":
            assert list(plan) == [*keys, "offsets"]
            assert len(plan["offsets"]) == 3
            assert plan["size"] == max(o + s for o, s in zip(plan["offsets"], (16, 24, 16), strict=True))
        else:
            assert list(plan) == [*keys, "objects", "assignment"]
            assert len(plan["assignment"]) == 3
            assert plan["size"] == sum(plan["objects"])
        assert plan["optimal"] == (plan["size"] == 40)
    for family, index in data["chosen"].items():
        of_family = [p["size"] for p in data["plans"] if p["family"] == family]
        assert data["plans"][index]["family"] == family
        assert data["plans"][index]["size"] == min(of_family)
    assert data["peak"] == {
        "op": 1,
        "label": "op 1",
        "size": 40,
        "alive": [{"name": "b", "size": 24}, {"name": "a", "size": 16}],
    }


def test_half_open_records(tmp_path: Path) -> None:
    file = tmp_path / "half.csv"
    file.write_text("id,lower,upper,size\n0,0,2,16\n1,2,4,16\n")
    assert json.loads(edgemem("plan", file, "--json").output)["lower_bounds"]["offsets"] == 16
    file.write_text("tensor,first_op,last_op,size_bytes\n0,0,2,16\n1,2,4,16\n")
    assert json.loads(edgemem("plan", file, "--json").output)["lower_bounds"]["offsets"] == 32


def test_texel_records(tmp_path: Path) -> None:
    file = tmp_path / "texels.csv"
    file.write_text("tensor,first_op,last_op,size\na,0,1,4x2\nb,2,3,2x4\nc,3,3,1x1\n")
    data = json.loads(edgemem("plan", file, "--json").output)
    assert data["naive"] == 17
    for plan in (p for p in data["plans"] if p["family"] == "shared_objects"):
        assert all(len(o) == 2 for o in plan["objects"])
        assert plan["size"] == sum(w * h for w, h in plan["objects"])
    assert data["plans"][data["chosen"]["shared_objects"]]["family"] == "shared_objects"
    alone = tmp_path / "texels.edgemem"
    assert edgemem("plan", file, "-o", alone).exit_code == 0
    assert edgemem("verify", alone).exit_code == 0
    assert "texels" in edgemem("show", alone).output


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "names the columns"),
        ("a,b\n", "names the columns"),
        ("tensor,first_op,last_op,size\na,0,1\n", "line 2: 3 fields"),
        ("tensor,first_op,last_op,size\na,0,x,5\n", "line 2: '0' and 'x' must be integers"),
        ("tensor,first_op,last_op,size\na,1,0,5\n", "line 2: 'a' is alive from 1 to 0"),
        ("id,lower,upper,size\na,1,1,5\n", "line 2: 'a' is alive from 1 to 1"),
        ("tensor,first_op,last_op,size\na,0,1,4.5\n", "line 2: size '4.5'"),
        ("tensor,first_op,last_op,size\na,0,1,-4\n", "line 2: size '-4'"),
        ("tensor,first_op,last_op,size\na,0,1,4x4\nb,0,1,4\n", "line 3: '4' has another rank"),
        ("tensor,first_op,last_op,size\na,0,1,9223372036854775808\n", "int64"),
        ("tensor,first_op,last_op,size\na,0,1,9223372036854775807\n", "more than int64 holds"),
    ],
)
def test_wrong_records_name_the_line(tmp_path: Path, text: str, what: str) -> None:
    file = tmp_path / "wrong.csv"
    file.write_text(text)
    result = edgemem("plan", file)
    assert result.exit_code == 1
    assert what in result.output
    assert "Traceback" not in result.output


def test_no_records(tmp_path: Path) -> None:
    file = tmp_path / "none.csv"
    file.write_text("tensor,first_op,last_op,size\n")
    assert json.loads(edgemem("plan", file, "--json").output)["naive"] == 0
    assert edgemem("plan", file).exit_code == 0


@pytest.mark.full
def test_plan_show_verify_export(planned: Path, tmp_path: Path) -> None:
    assert ": right\n" in edgemem("verify", planned).output
    shown = edgemem("show", planned, "--all").output
    assert shown.startswith("arena ")
    for word in ("greedy_by_size", "naive", "lower bound", "peak at", "not in the plan"):
        assert word in shown
    data = json.loads(edgemem("show", planned, "--json").output)
    assert data["model"]["target"]["name"] == "generic"
    assert json.loads(edgemem("export", planned, "-f", "json").output) == data
    rows = edgemem("export", planned, "-f", "csv").output.splitlines()
    assert rows[0] == "tensor,first_op,last_op,size,offset,object"
    assert len(rows) == 1 + sum(len(r["tensors"]) for r in data["model"]["records"])
    header = tmp_path / "plan.h"
    assert edgemem("export", planned, "-f", "c-header", "-o", header).exit_code == 0
    arena = data["plans"][data["chosen"]["offsets"]]["size"]
    assert f"#define BLAZEFACE_ARENA_SIZE {arena}\n" in header.read_text()


def test_a_verified_plan_says_what_was_checked(planned: Path, tmp_path: Path) -> None:
    output = edgemem("verify", planned).output
    plans = len(json.loads(edgemem("show", planned, "--json").output)["plans"])
    assert f"{plans} plans, 55 usage records" in output
    assert "94 operators on 92 tensors" in output
    alone = tmp_path / "alone.edgemem"
    assert edgemem("plan", planned, "-o", alone).exit_code == 0
    assert "name the model with --model" in edgemem("verify", alone).output


def test_a_written_plan_says_where_it_runs(model: Path, tmp_path: Path) -> None:
    last = edgemem("plan", model, "--no-record", "-o", tmp_path / "out.onnx").output.splitlines()[-1]
    assert "runs as planned in ONNX Runtime, node by node" in last
    assert "plan with --record" in last


@pytest.mark.full
def test_a_written_plan_does_not_name_an_executor_that_runs_outside_of_it(tmp_path: Path) -> None:
    text = """
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[4] x) => (float[k] y) { a = Exp (x)  b = NonZero (a)  c = Cast <to = 1> (b)  d = Tanh (c)  y = Exp (d) }
    """
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    done = edgemem("plan", tmp_path / "m.onnx", "--no-record", "-o", tmp_path / "out.onnx")
    last = done.output.splitlines()[-1]
    assert "no executor runs this plan as it is" in last
    assert "--executor io-binding): 'b' is of a size that depends on the data (NonZero)" in last
    assert "runs in" not in edgemem("verify", tmp_path / "out.onnx").output


@pytest.mark.full
@pytest.mark.parametrize("width", [80, 100])
def test_tables_fit_the_terminal(planned: Path, width: int) -> None:
    shown = subprocess.run(
        [sys.executable, "-c", _IN_A_TERMINAL, str(width), str(planned)], capture_output=True, text=True, check=True
    ).stdout
    shown = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    table = shown[shown.index("\narena ") :].split("\n\n")[0]
    assert "greedy_by_size" in table
    assert "\u2026" not in shown
    assert max(map(len, table.splitlines())) <= width


_IN_A_TERMINAL = """
import os, sys
os.environ.update(COLUMNS=sys.argv[1], NO_COLOR="1", TERM="dumb")
sys.stdout.isatty = lambda: True
from edgemem.cli.main import main
main(["show", "--all", sys.argv[2]])
"""


def test_show_lists_tensors_with_offsets_and_what_is_alive(planned: Path) -> None:
    data = json.loads(edgemem("show", planned, "--json").output)
    best = min((p for p in data["plans"] if p["family"] == "offsets"), key=lambda p: p["size"])
    record = data["model"]["records"][3]
    lines = edgemem("show", planned, "--tensors").output.splitlines()
    row = next(line.split() for line in lines if line.split()[-1:] == [record["tensors"][-1]])
    assert row[0] == f"{best['offsets'][3]:,}"
    assert f"{record['size']:,}" in row
    profile = edgemem("show", planned, "--profile").output.splitlines()
    label = data["model"]["steps"][7]
    rows = [line.split() for line in profile if line.split()[:1] == ["7"] and line.split()[-1] == label]
    alive = sum(r["size"] for r in data["model"]["records"] if r["first_op"] <= 7 <= r["last_op"])
    assert rows[0][:2] == ["7", f"{alive:,}"]


def test_help_is_a_command_too() -> None:
    assert edgemem("help").output == edgemem("--help").output
    assert "--strategy" in edgemem("help", "plan").output
    assert edgemem("help", "nonsense").exit_code == 2
    done = subprocess.run([sys.executable, "-m", "edgemem", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("edgemem, version")


def test_versions_for_a_report() -> None:
    from importlib.metadata import version

    lines = dict(line.split(maxsplit=1) for line in edgemem("--version", "--verbose").output.splitlines()[1:])
    assert lines["onnx"] == version("onnx")
    assert lines["edgemem-planner"] == version("edgemem-planner")
    assert lines["processor"].split()[0] == platform.machine()
    assert edgemem("--verbose", "strategies").exit_code == 2
    assert "Plan a model:" in edgemem().output


def test_svg_has_a_rectangle_a_record(planned: Path) -> None:
    data = json.loads(edgemem("show", planned, "--json").output)
    root = ET.fromstring(edgemem("export", planned, "-f", "svg").output)
    found = [e.text or "" for e in root.iter("{http://www.w3.org/2000/svg}title")]
    titles = [title for title in found if ": offset " in title]
    assert len(titles) == sum(r["size"] > 0 for r in data["model"]["records"])
    assert titles[0].startswith(data["model"]["records"][0]["name"])


def test_a_buffer_plan_is_for_tflite_files(planned: Path) -> None:
    result = edgemem("export", planned, "-f", "tflm-bufferplan")
    assert result.exit_code == 1
    assert "planned .tflite file" in result.output


@needs_compilers
def test_a_header_compiles_and_keeps_the_tensors_names(planned: Path, tmp_path: Path) -> None:
    form = "c-header"
    source = tmp_path / "plan.h"
    assert edgemem("export", planned, "-f", form, "-o", source).exit_code == 0
    name = json.loads(edgemem("show", planned, "--json").output)["model"]["records"][0]["tensors"][0]
    assert f"/* {name} */" in source.read_text()
    check = tmp_path / "check.cc"
    use = "BLAZEFACE_ARENA_SIZE > 0"
    check.write_text(f'#include "{source}"\nint main() {{ return !({use}); }}\n')
    program = tmp_path / "check"
    subprocess.run(["c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", check, "-o", program], check=True)
    subprocess.run([program], check=True)


@pytest.mark.full
def test_over_budget_is_exit_code_3(model: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.onnx"
    out.write_bytes(b"precious")
    result = edgemem("plan", model, "--budget", "1KiB", "-o", out)
    assert result.exit_code == 3
    for word in ("bytes required", "1,024 available", "the peak is at"):
        assert word in result.output
    assert out.read_bytes() == b"precious"


def test_a_damaged_plan_is_exit_code_4(planned: Path, tmp_path: Path) -> None:
    alone = tmp_path / "plan.edgemem"
    assert edgemem("plan", planned, "-o", alone).exit_code == 0
    data = bytearray(alone.read_bytes())
    data[len(data) // 2] ^= 1
    alone.write_bytes(data)
    for command in ("show", "verify"):
        assert edgemem(command, alone).exit_code == 4


def test_a_changed_model_is_exit_code_4(planned: Path, tmp_path: Path) -> None:
    changed = onnx.load(planned)
    next(n for n in changed.graph.node if n.op_type == "Relu").op_type = "Sigmoid"
    file = tmp_path / "changed.onnx"
    onnx.save(changed, file)
    result = edgemem("verify", file)
    assert result.exit_code == 4
    assert "another graph" in result.output
    assert json.loads(edgemem("verify", file, "--json").output)["violations"][0]["cause"] == "stale_digest"


@pytest.mark.parametrize(
    "args",
    [
        ("plan",),
        ("plan", "m.onnx", "--dim", "N"),
        ("plan", "m.onnx", "--dim", "N=x"),
        ("plan", "m.onnx", "--input-shape", "x=1,a"),
        ("plan", "m.onnx", "--budget", "much"),
        ("plan", "m.onnx", "--alignment", "0"),
        ("plan", "m.onnx", "--effort", "huge"),
        ("plan", "m.onnx", "--time-limit", "-1"),
        ("plan", "m.onnx", "--time-limit", "soon"),
        ("plan", "m.onnx", "--threads", "0"),
        ("export", "m.onnx"),
        ("export", "m.onnx", "-f", "xml"),
        ("unknown",),
    ],
)
def test_usage_errors_are_exit_code_2(args: tuple[str, ...]) -> None:
    assert edgemem(*args).exit_code == 2


def test_auto_has_no_family(records: Path) -> None:
    result = edgemem("plan", records, "-s", "offsets/auto")
    assert result.exit_code == 2
    assert "auto covers both families" in result.output


def test_an_unknown_strategy_is_a_usage_error(records: Path) -> None:
    result = edgemem("plan", records, "-s", "magic")
    assert result.exit_code == 2
    assert "there are auto, naive" in result.output


# Its smallest arena is 5, its lower bound 4.
GAP = """tensor,first_op,last_op,size
a,0,0,2
b,0,1,2
c,1,2,1
d,1,3,1
e,2,2,1
f,2,3,1
g,3,5,2
h,4,5,2
"""


@pytest.fixture
def gap(tmp_path: Path) -> Path:
    file = tmp_path / "gap.csv"
    file.write_text(GAP)
    return file


def test_limits_of_the_searches(gap: Path) -> None:
    flags = ("--effort", "max", "--time-limit", "90", "--threads", "2")
    for strategy in (), ("-s", "search"):
        data = json.loads(edgemem("plan", gap, *strategy, *flags, "--json").output)
        (plan,) = (p for p in data["plans"] if p["family"] == "offsets" and p["strategy"] == "search")
        assert plan["options"] == {"effort": "max", "time_limit": 90.0, "threads": 2}
        assert plan["search"] == {
            "bound": 5,
            "stopped": "proof",
            "work": plan["search"]["work"],
            "seed": 1,
            "claimed": False,
        }
        assert plan["optimal"]
        assert data["lower_bounds"]["offsets"] == 4
        assert data["proved"]["offsets"] == 5


def test_limits_of_no_search_are_a_usage_error(gap: Path) -> None:
    result = edgemem("plan", gap, "-s", "naive", "--effort", "max")
    assert result.exit_code == 2
    assert "no strategy among those chosen has the option 'effort'; it belongs to search" in result.output


def test_what_was_proved_elsewhere_is_shown_as_a_claim(gap: Path, tmp_path: Path) -> None:
    alone = tmp_path / "gap.edgemem"
    made = edgemem("plan", gap, "-o", alone, "--time-limit", "60").output
    assert made.startswith("arena 5 B (proved optimal)")
    shown = edgemem("show", alone).output
    assert shown.startswith("arena 5 B (1.250x of the lower bound; claimed optimal, not proved here)")
    for text, how, who in (
        (made, "proved", ""),
        (shown, "claimed", "the file claims (not proved here): "),
    ):
        assert f"bound {how} by search" in text
        assert f"search effort=fast time_limit=60.0: {who}proved that nothing is smaller after " in text
        assert "seed 1; no less than 5 bytes" in text
    verified = edgemem("verify", alone)
    assert verified.exit_code == 0
    assert "lower bound 4, claimed (not proved here) 5" in " ".join(verified.output.split())


def test_a_budget_below_what_was_proved(gap: Path) -> None:
    result = edgemem("plan", gap, "--budget", "4")
    assert result.exit_code == 3
    assert "no plan can fit it: search proved that all take 5 or more" in result.output


def test_records_have_no_model_to_write_into(records: Path) -> None:
    assert edgemem("plan", records, "-o", "out.onnx").exit_code == 2


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    result = edgemem("plan", tmp_path / "missing.onnx")
    assert result.exit_code == 1
    assert result.output.count("\n") == 1


def test_planning_twice_is_planning_once(planned: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.onnx"
    assert edgemem("plan", planned, "--no-record", "-o", again).exit_code == 0
    assert again.read_bytes() == planned.read_bytes()


def test_strategies_lists_everything() -> None:
    text = edgemem("strategies").output
    names = {entry["name"] for entry in json.loads(edgemem("strategies", "--json").output)}
    assert names >= {
        "naive",
        "greedy_by_size",
        "greedy_by_breadth",
        "strip_packing",
        "mip",
        "min_cost_flow",
        "equality",
    }
    assert all(name in text for name in names)
    assert "Pisarchyk & Lee 2020" in text
    entries = json.loads(edgemem("strategies", "--json").output)
    options = next(e["options"] for e in entries if (e["family"], e["name"]) == ("offsets", "search"))
    assert options["effort"] == ["default", "fast", "max"]
    assert options["seed"] == {"type": "integer", "default": 1, "least": 0, "most": 2**63 - 1}
    assert options["time_limit"] == {"type": "number", "default": None, "least": 0, "most": 10**9}
