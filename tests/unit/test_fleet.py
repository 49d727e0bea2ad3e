"""Many models by one command: rows, the cache, limits, sweeps, URLs, and what must not be told."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import external_data_helper, numpy_helper

import edgemem
from edgemem.cli.main import main
from edgemem.fleet import cache, worker
from edgemem.fleet.results import write_results
from edgemem.fleet.secrets import public_name, without_secrets
from edgemem.fleet.sources import digest_of, find_sources
from edgemem.fleet.task import OK, FleetRow, Task
from edgemem.fleet.worker import run_task
from edgemem.formats import weight_files
from edgemem.records.problem import Problem, UsageRecord
from edgemem.report.csv import problem_csv
from tests.difference_models import Layers
from tests.fleet_models import HOSTILE, save_hostile

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="signals come another way there")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


@pytest.fixture
def task(tmp_path: Path) -> Task:
    Layers().save(tmp_path / "a.onnx")
    return Task("a.onnx", str(tmp_path / "a.onnx"), "plan", folder=str(tmp_path), cache=str(tmp_path / "cache"))


def content(row: FleetRow) -> FleetRow:
    """What does not depend on the run."""
    return replace(row, cpu_s=0, peak=0, is_cached=False)


def test_a_row_has_what_planning_gives(task: Task) -> None:
    row = run_task(task)
    best = edgemem.plan(task.location).best_offsets
    assert best is not None
    assert (row.status, row.code, row.figures["arena"]) == (OK, 0, best.size)
    assert row.cpu_s > 0
    assert row.peak > 1 << 20


def test_a_second_run_starts_no_process(task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run_task(task)
    (tmp_path / "elsewhere").mkdir()
    shutil.copy(task.location, tmp_path / "elsewhere" / "b.onnx")
    monkeypatch.setattr(worker, "answer_of", None)
    again = run_task(replace(task, name="b.onnx", location=str(tmp_path / "elsewhere" / "b.onnx")))
    assert again.is_cached
    assert content(again) == content(replace(first, name="b.onnx"))


def test_an_error_is_kept_under_no_name(task: Task, tmp_path: Path) -> None:
    for name in ("first.onnx", "second.onnx"):
        (tmp_path / name).write_bytes(Path(task.location).read_bytes()[:-200])
    rows = [run_task(replace(task, name=n, location=str(tmp_path / n))) for n in ("first.onnx", "second.onnx")]
    assert [row.status for row in rows] == ["ModelError"] * 2
    assert rows[1].is_cached
    assert "first" not in rows[1].message


def test_the_key_has_all_that_the_row_depends_on(task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "own.toml"
    target.write_text("name = 'own'\nalignment = 64\n")
    keys = [cache.key_of("0", task), cache.key_of("1", task)]
    keys += [cache.key_of("0", replace(task, **change)) for change in ({"command": "shrink"}, {"with_document": True})]
    own = replace(task, arguments=("-t", "own.toml"))
    keys.append(cache.key_of("0", own))
    target.write_text("name = 'own'\nalignment = 128\n")
    keys.append(cache.key_of("0", own))
    monkeypatch.setattr(cache, "_code_digest", lambda: "another edgemem")
    keys.append(cache.key_of("0", task))
    monkeypatch.undo()
    monkeypatch.setattr(cache, "_installed", lambda: {"onnxruntime": "2.0"})
    keys.append(cache.key_of("0", task))
    assert len(set(keys)) == len(keys) == 8
    monkeypatch.undo()
    same = replace(task, name="b", location="/b", cache="", memory=1, limit_s=1.0, label="x")
    assert cache.key_of("0", same) == keys[0]


def test_the_digest_has_the_weights_beside_the_model(tmp_path: Path) -> None:
    model = onnx.load(Layers().save(tmp_path / "plain.onnx"))
    model.graph.initializer.append(numpy_helper.from_array(np.arange(4096, dtype=np.float32), "w"))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location=f"{'w' * 150}.bin", size_threshold=0)
    loaded = onnx.load(tmp_path / "m.onnx", load_external_data=False)
    tensors = [t for t in loaded.graph.initializer if external_data_helper.uses_external_data(t)]
    named = {external_data_helper.ExternalDataInfo(t).location for t in tensors}
    assert set(weight_files(tmp_path / "m.onnx")) == named == {f"{'w' * 150}.bin"}
    before = digest_of(tmp_path / "m.onnx")
    weights = tmp_path / f"{'w' * 150}.bin"
    weights.write_bytes(b"\1" + weights.read_bytes()[1:])
    assert digest_of(tmp_path / "m.onnx") != before


@pytest.mark.parametrize(
    "damage",
    [
        *("", "{", "[]", '{"figures": 3}', '{"figures": {}, "more": 1}', "[" * 10**5),
        *({"name": "x"}, {"is_cached": True}, {"message": None}, {"code": "0"}, {"figures": {"arena": [1]}}),
    ],
    ids=lambda damage: str(damage)[:40],
)
def test_a_damaged_entry_is_made_again(damage: str | dict[str, object], task: Task) -> None:
    first = run_task(task)
    entries = list(Path(task.cache).rglob("*.json"))
    assert len(entries) == 1
    text = damage if isinstance(damage, str) else json.dumps({**json.loads(entries[0].read_text()), **damage})
    entries[0].write_text(text)
    again = run_task(task)
    assert (again.is_cached, content(again)) == (False, content(first))
    assert run_task(task).is_cached


def test_a_cache_that_cannot_be_written_loses_no_row(task: Task, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    row = run_task(replace(task, cache=str(tmp_path / "file" / "cache")))
    assert (row.status, bool(row.unkept)) == (OK, True)
    done = run("plan", task.location, "--cache", tmp_path / "file" / "cache")
    assert (done.exit_code, "1 rows could not be written to the cache: " in done.stderr) == (0, True)


@pytest.mark.parametrize("status", ["time limit", "memory limit"])
def test_a_limit_ends_one_model_and_is_tried_again(status: str, task: Task) -> None:
    model = onnx.load(task.location)
    model.doc_string = "x" * (1 << 26)
    onnx.save(model, task.location)
    limited = replace(task, limit_s=1e-6) if status == "time limit" else replace(task, memory=1 << 24)
    row = run_task(limited)
    assert (row.status, row.code, row.figures) == (status, 1, {})
    again = run_task(task)
    assert (again.status, again.is_cached) == (OK, False)


@pytest.mark.parametrize("is_server", [False, True])
def test_a_killed_process_is_a_row(is_server: bool, task: Task) -> None:
    """That of the command, which may be the model's fault; the one that starts them is started again."""
    done = threading.Event()

    def kill() -> None:
        while not done.is_set():
            for process in children(os.getpid()):
                for fork in children(process):
                    if not os.path.realpath(f"/proc/{fork}/fd/2").endswith("stderr.txt"):
                        continue  # it is still being started
                    os.kill(process if is_server else fork, signal.SIGKILL)
                    return
            time.sleep(0.001)

    run_task(replace(task, cache=""))  # the server is there
    killer = threading.Thread(target=kill)
    killer.start()
    row = run_task(task)
    done.set()
    killer.join()
    if is_server:
        assert row.status == OK
    else:
        assert (row.status, row.message) == ("crash", "its process ended by SIGKILL")
        assert run_task(task).status == OK


def children(process: int) -> Sequence[int]:
    found = []
    for file in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            found += [int(number) for number in file.read_text().split()]
        except OSError:  # the thread or the process has ended
            continue
    return found


def test_a_models_process_ends_with_the_command(tmp_path: Path) -> None:
    problem = Problem([UsageRecord(f"t{k}", k % 97, k % 97 + k % 13, 16 * (k * 37 % 23 + 1)) for k in range(300)])
    (tmp_path / "r.csv").write_text(problem_csv(problem))
    more = ("-s", "search", "--time-limit", "600", "--jobs", "1", "--cache", "none")
    command = subprocess.Popen([sys.executable, "-m", "edgemem", "plan", str(tmp_path / "r.csv"), *more])
    forks: list[int] = []
    while not forks:
        assert command.poll() is None
        time.sleep(0.01)
        forks = [fork for process in children(command.pid) for fork in children(process)]
    command.kill()
    command.wait()
    while Path(f"/proc/{forks[0]}/cmdline").exists():
        time.sleep(0.01)


def test_nothing_of_the_working_directory_is_run(tmp_path: Path) -> None:
    for name in ("json", "socket", "numpy", "onnx", "edgemem"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name}.py of the working directory was run')\n")
    Layers().save(tmp_path / "a.onnx")
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "command"
    script.write_text("if __name__ == '__main__':\n    from edgemem.__main__ import main\n\n    main()\n")
    command = [sys.executable, str(script), "plan", "a.onnx", "--jobs", "1", "--cache", "none"]
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    done = subprocess.run(command, cwd=tmp_path, env=plain, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_hostile_model_is_a_row(tmp_path: Path) -> None:
    save_hostile(tmp_path / "hostile")
    done = run("plan", tmp_path / "hostile", "--limit-memory", "4GiB", "--cache", "none", "-o", tmp_path / "r.json")
    rows = json.loads((tmp_path / "r.json").read_text())
    assert len(rows) == HOSTILE
    assert all(row["status"] not in (OK, "crash") and row["message"] for row in rows)
    assert done.exit_code == max(row["code"] for row in rows)


def test_a_sweep_has_a_row_for_each_combination(tmp_path: Path) -> None:
    model = Layers().save(tmp_path / "a.onnx")
    arenas = [best.size for t in ("generic", "tflm") if (best := edgemem.plan(model, target=t).best_offsets)]
    more = ("--target", "generic,tflm", "--budget", f"1KiB,{max(arenas)}", "--cache", "none")
    assert run("plan", model, *more, "-o", tmp_path / "r.csv").exit_code == 3
    with (tmp_path / "r.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["options"]: (row["status"], int(row["arena"])) for row in rows} == {
        f"--target {target} --budget {budget}": (status, arena)
        for target, arena in zip(("generic", "tflm"), arenas, strict=True)
        for budget, status in (("1KiB", "BudgetExceededError"), (max(arenas), OK))
    }


def test_usage_errors_come_before_any_work(tmp_path: Path) -> None:
    Layers().save(tmp_path / "a.onnx")
    for arguments, why in [
        (("--budget", "1KiB,no"), "no"),
        (("--jobs", "0"), "--jobs"),
        (("--target", "tflm,generic", "-o", tmp_path / "out"), "rows and no models"),
        (("--nosuch",), "--nosuch"),
    ]:
        done = run("plan", tmp_path / "a.onnx", *arguments)
        assert (done.exit_code, why in done.output) == (2, True), done.output
    assert run("measure", tmp_path / "a.onnx", "-o", "rows.txt").exit_code == 2
    assert run("check", tmp_path, "--update").exit_code == 2


def test_rows_of_urls_are_those_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec")
    (tmp_path / "m" / "sub").mkdir(parents=True)
    Layers().save(tmp_path / "m" / "a.onnx")
    Layers(skip=(1, 4)).save(tmp_path / "m" / "sub" / "b.onnx")
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path / "m"), "/fleet/m", recursive=True)
    memory.pipe_file("/fleet/m/.hidden/h.onnx", b"")
    more = ("--cache", "memory://fleet/cache")
    assert run("plan", "memory://fleet/m", *more, "-o", "memory://fleet/r.json").exit_code == 0
    assert run("plan", tmp_path / "m", "--cache", "none", "-o", tmp_path / "r.json").exit_code == 0
    here, there = json.loads((tmp_path / "r.json").read_text()), json.loads(memory.cat_file("/fleet/r.json"))
    assert [row.pop("name") for row in there] == ["memory://fleet/m/a.onnx", "memory://fleet/m/sub/b.onnx"]
    for row in (*here, *there):
        row.pop("name", None), row.pop("cpu_s"), row.pop("peak_rss")
    assert here == there
    monkeypatch.setattr(worker, "fetch", None)  # what has not changed is not read again
    assert "2 were in the cache" in run("plan", "memory://fleet/m/**/*.onnx", *more).output


def test_results_are_the_same_in_every_form(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [
        FleetRow("a", "--dim n=1", "0" * 64, figures={"arena": 1 << 40, "ratio": 1.5, "optimal": True}, cpu_s=1.0),
        FleetRow("b\udcff", status="ModelError", message="ends,\nhere", code=1),
    ]
    for ending in ("parquet", "csv", "json"):
        write_results(str(tmp_path / f"r.{ending}"), rows)
    table = json.loads((tmp_path / "r.json").read_text())
    assert parquet.read_table(tmp_path / "r.parquet").to_pylist() == table
    with (tmp_path / "r.csv").open(newline="") as file:
        assert list(csv.DictReader(file)) == [{k: "" if v is None else str(v) for k, v in row.items()} for row in table]
    assert (table[0]["arena"], table[1]["arena"], table[1]["status"]) == (1 << 40, None, "ModelError")


def test_secrets_are_in_no_row_and_no_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI")
    url = "http://user:hunter2@127.0.0.1:9/x.onnx?sig=abcdef#part"
    assert "hunter2" not in public_name("http://user:hunter2@[::1/x")
    assert public_name(url) == "http://127.0.0.1:9/x.onnx"
    assert without_secrets(f"no {url!r}: wJalrXUtnFEMI") == "no 'http://127.0.0.1:9/x.onnx': ***"
    chained = "zip://x.onnx::http://user:hunter2@[::1]:9/x.zip?sig=abcdef"
    assert without_secrets(f"no {chained}") == "no zip://x.onnx::http://[::1]:9/x.zip"
    quoted = "no /x.onnx?sig=abcdef with hunter 2"
    assert without_secrets(quoted, "http://u:hunter%202@h/x.onnx?sig=abcdef") == "no /x.onnx?*** with ***"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        refused = run("plan", tmp_path, "-o", "memory://user:hunter2@r/out?sig=abcdef", "--cache", "none")
    assert refused.exit_code == 2
    assert not any(secret in refused.stderr for secret in ("hunter2", "abcdef"))
    done = run("plan", Layers().save(tmp_path / "a.onnx"), "-o", "memory://me:hunter2@r/r.json", "--cache", "none")
    assert "wrote memory://r/r.json" in done.output
    task = Task(public_name(url), url, "plan", cache="s3://me:hunter2@bucket/cache")
    shown = [repr(task), repr(run_task(task)), repr(run_task(replace(task, cache="")))]
    done = run("plan", url, "-o", tmp_path / "r.json", "--cache", "none")
    shown += [done.output, done.stderr]
    assert done.exit_code == 1
    for text in shown:
        assert not any(secret in text for secret in ("hunter2", "abcdef", "wJalr", "user:"))


def test_a_glob_of_a_url_and_a_missing_one(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    for name in ("a.onnx", "b.tflite", "notes.txt"):
        memory.pipe_file(f"/named/{name}", b"1")
    found = find_sources(["memory://named/*.onnx", "memory://named", "memory://named/a.onnx"], (".onnx", ".tflite"))
    assert [model.name for model in found] == ["memory://named/a.onnx", "memory://named/b.tflite"]
    gone = find_sources(["memory://named/none.onnx", str(tmp_path / "none")], (".onnx",))
    assert [(model.location, model.why_none) for model in gone] == [("", "there is no such file")] * 2


def test_a_folder_for_temporary_files_may_have_a_long_name(task: Task, tmp_path: Path) -> None:
    """The system's names of sockets are short."""
    folder = tmp_path / ("x" * 120)
    folder.mkdir()
    command = [sys.executable, "-m", "edgemem", "plan", *[task.location] * 2, "--cache", "none"]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "TMPDIR": str(folder)}, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(folder.iterdir()) == []
