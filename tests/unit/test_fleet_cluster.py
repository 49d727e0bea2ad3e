"""Fleets on a Dask cluster: the rows and sweeps of a serial run, whatever is killed or full on the way."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import onnx
import pytest
from click.testing import CliRunner, Result

from edgemem.cli.main import main
from edgemem.fleet.task import OK
from tests.difference_models import Layers
from tests.fleet_models import HOSTILE, save_hostile, save_random

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytest.importorskip("distributed")
pytestmark = [pytest.mark.full, pytest.mark.skipif(sys.platform != "linux", reason="signals come another way there")]

RANDOM = 20
MANY = 300
# What an error says -> what makes the folder `disk` too small.
FULL = {
    "File too large": "ulimit -f 1",
    "No space left on device": "mount -t tmpfs -o size=64k tmpfs disk",
}


@pytest.fixture
def models(tmp_path: Path) -> Path:
    save_random(tmp_path / "models", RANDOM)
    save_hostile(tmp_path / "models")
    return tmp_path / "models"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    distributed: Any = import_module("distributed")
    with distributed.LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=":0") as made:
        yield made


def start(models: Path, output: Path, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "edgemem", "plan", str(models), "-o", str(output), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def rows_of(process: subprocess.Popen[str], output: Path) -> list[dict[str, Any]]:
    said, _ = process.communicate(timeout=600)
    assert process.returncode == 1, said  # of the hostile models
    rows: list[dict[str, Any]] = json.loads(output.read_text())
    return [{k: v for k, v in row.items() if k not in ("cpu_s", "peak_rss")} for row in rows]


def wait_for_entries(cache: Path, count: int, process: subprocess.Popen[str]) -> None:
    while len(list(cache.rglob("*.json"))) < count:
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)


@contextmanager
def dask(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A scheduler, with two workers, and its address."""
    file = folder / "scheduler.json"
    with (folder / "dask.log").open("ab") as log:
        common: dict[str, Any] = {"stdout": log, "stderr": log}
        run = [sys.executable, "-m", "dask"]
        place = ["--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file), "--dashboard-address", ":0"]
        scheduler = subprocess.Popen([*run, "scheduler", *place], **common)
        while not file.exists():
            assert scheduler.poll() is None
            time.sleep(0.05)
        workers = ["--scheduler-file", str(file), "--nworkers", "2", "--nthreads", "1", "--dashboard-address", ":0"]
        worker = subprocess.Popen([*run, "worker", *workers, "--local-directory", str(folder)], **common)
        try:
            yield scheduler, json.loads(file.read_text())["address"]
        finally:
            for process in (worker, scheduler):
                process.terminate()
                process.wait(60)


@pytest.mark.exhaustive
def test_rows_are_those_of_a_serial_run_whatever_is_killed(models: Path, tmp_path: Path, cluster: Any) -> None:
    save_random(models, MANY - HOSTILE)
    serial = rows_of(start(models, tmp_path / "s.json", "--cache", "none"), tmp_path / "s.json")
    assert len(serial) == MANY
    cache = tmp_path / "cache"
    process = start(models, tmp_path / "c.json", "--scheduler", cluster.scheduler_address, "--cache", cache)
    wait_for_entries(cache, 5, process)
    os.kill(cluster.workers[0].pid, signal.SIGKILL)
    assert rows_of(process, tmp_path / "c.json") == serial


def test_a_sweep_has_the_rows_of_a_serial_one(tmp_path: Path, cluster: Any) -> None:
    model = onnx.load(Layers().save(tmp_path / "a.onnx"))
    for value in (*model.graph.input, *model.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = "n"
    onnx.save(model, tmp_path / "a.onnx")
    sweep = ("--dim", "n=1,2", "--target", "generic,tflm", "--budget", "1KiB,1MiB", "--cache", "none")
    more = (tmp_path / "a.onnx", *sweep, "-o", tmp_path / "r.csv")
    tables = []
    for place in (("--scheduler", cluster.scheduler_address), ()):
        assert run("plan", *more, *place).exit_code == 3
        tables.append((tmp_path / "r.csv").read_text().splitlines())
    here, there = ([line.rpartition(",")[0].rpartition(",")[0] for line in table] for table in tables)
    assert here == there
    statuses = [row["status"] for row in csv.DictReader(here)]
    assert sorted(statuses) == ["BudgetExceededError"] * 4 + [OK] * 4


@pytest.mark.exhaustive
def test_a_run_without_its_scheduler_ends_and_is_resumed(models: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with dask(tmp_path) as (scheduler, address):
        process = start(models, tmp_path / "c.json", "--scheduler", address, "--cache", cache)
        wait_for_entries(cache, 5, process)
        scheduler.kill()
        said, _ = process.communicate(timeout=600)
    assert (process.returncode, "run the same command again" in said) == (1, True)
    assert not (tmp_path / "c.json").exists()
    kept = {path: path.stat().st_mtime_ns for path in cache.rglob("*.json")}
    resumed = rows_of(start(models, tmp_path / "c.json", "--cache", cache), tmp_path / "c.json")
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert resumed == rows_of(start(models, tmp_path / "s.json", "--cache", "none"), tmp_path / "s.json")


@pytest.mark.parametrize("why", FULL)
def test_a_full_disk_loses_nothing(why: str, models: Path, tmp_path: Path) -> None:
    """Rows that do not fit are not kept, no file of results is written, and the next run makes only what is missing."""
    own = ["unshare", "--map-root-user", "--mount"] if "tmpfs" in FULL[why] else []
    (tmp_path / "disk").mkdir()
    if own and subprocess.run([*own, "sh", "-c", FULL[why]], cwd=tmp_path, check=False).returncode:
        pytest.skip("no namespaces of users here")
    script = f'{FULL[why]} && echo older > disk/c.json && "$@"; code=$?; cp -R disk kept; exit $code'
    plan = [sys.executable, "-m", "edgemem", "plan", str(models), "-o", "disk/c.json", "--cache", "disk/cache"]
    full = [*own, "sh", "-c", script, "sh", *plan]
    done = subprocess.run(full, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, why in done.stderr) == (1, True), done.stderr
    assert (tmp_path / "kept" / "c.json").read_text() == "older\n"
    cache = tmp_path / "kept" / "cache"
    kept = {path: path.stat().st_mtime_ns for path in cache.rglob("*.json")}
    rows = rows_of(start(models, tmp_path / "c.json", "--cache", cache), tmp_path / "c.json")
    assert len(kept) > RANDOM // 2
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert rows == rows_of(start(models, tmp_path / "s.json", "--cache", "none"), tmp_path / "s.json")
