"""Fleets on a Dask cluster: the rows of a serial run, with a worker killed and the scheduler replaced on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from tests.fleet_models import HOSTILE, save_hostile, save_random

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytest.importorskip("distributed")
pytestmark = [pytest.mark.full, pytest.mark.skipif(sys.platform != "linux", reason="signals come another way there")]

RANDOM = 20


@pytest.fixture
def models(tmp_path: Path) -> Path:
    save_random(tmp_path / "models", RANDOM)
    save_hostile(tmp_path / "models")
    return tmp_path / "models"


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
def dask(folder: Path, number: int) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A scheduler, with two workers, and its address; `number` names its file."""
    file = folder / f"scheduler{number}.json"
    with (folder / "dask.log").open("ab") as log:
        common: dict[str, Any] = {"stdout": log, "stderr": log}
        run = [sys.executable, "-m", "dask"]
        port = json.loads((folder / "scheduler0.json").read_text())["address"].rpartition(":")[2] if number else "0"
        place = ["--host", "127.0.0.1", "--port", port, "--scheduler-file", str(file), "--dashboard-address", ":0"]
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


def test_rows_are_those_of_a_serial_run_whatever_is_killed(models: Path, tmp_path: Path) -> None:
    serial = rows_of(start(models, tmp_path / "s.json", "--cache", "none"), tmp_path / "s.json")
    assert len(serial) == RANDOM + HOSTILE
    cache = tmp_path / "cache"
    distributed: Any = import_module("distributed")
    with distributed.LocalCluster(n_workers=4, threads_per_worker=1, dashboard_address=":0") as cluster:
        more = ("--scheduler", cluster.scheduler_address, "--cache", cache)
        process = start(models, tmp_path / "c.json", *more)
        wait_for_entries(cache, 5, process)
        os.kill(cluster.workers[0].pid, signal.SIGKILL)
        assert rows_of(process, tmp_path / "c.json") == serial


def test_a_run_goes_on_with_another_scheduler(models: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with dask(tmp_path, 0) as (scheduler, address):
        process = start(models, tmp_path / "c.json", "--scheduler", address, "--cache", cache)
        wait_for_entries(cache, 5, process)
        scheduler.kill()
        scheduler.wait()
    with dask(tmp_path, 1):
        rows = rows_of(process, tmp_path / "c.json")
    serial = rows_of(start(models, tmp_path / "s.json", "--cache", "none"), tmp_path / "s.json")
    assert rows == serial


def test_a_run_without_its_scheduler_ends_and_is_resumed(models: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    with dask(tmp_path, 0) as (scheduler, address):
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


def test_a_full_disk_loses_nothing(models: Path, tmp_path: Path) -> None:
    """No file may have more than 700 bytes: rows of long errors are not kept, and no file of results is written."""
    resource: Any = import_module("resource")
    cache = tmp_path / "cache"
    (tmp_path / "c.json").write_text("older")
    command = [sys.executable, "-m", "edgemem", "plan", str(models), "-o", str(tmp_path / "c.json")]
    done = subprocess.run(
        [*command, "--cache", str(cache)],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (700, resource.RLIM_INFINITY)),
    )
    assert (done.returncode, "File too large" in done.stderr) == (1, True), done.stderr
    assert (tmp_path / "c.json").read_text() == "older"
    assert len(list(cache.rglob("*.json"))) > RANDOM
    rows = rows_of(start(models, tmp_path / "c.json", "--cache", cache), tmp_path / "c.json")
    assert rows == rows_of(start(models, tmp_path / "s.json", "--cache", "none"), tmp_path / "s.json")
