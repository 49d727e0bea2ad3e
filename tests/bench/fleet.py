"""What a fleet of workers gives: rows equal to a serial run, throughput, and what is lost when something fails.

    python tests/bench/fleet.py [--models 300] [--workers 4] [--testdata FOLDER] [--skip-cluster]

The models are networks of models/build.py, onnx's backend files, those of Debian's libonnx-testdata where FOLDER has
them, random ones, and hostile ones. Processor time is that of all processes; with other programs on the machine compare
it, and not the seconds.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import onnx

sys.path.append(str(Path(__file__).resolve().parents[2]))

from edgemem.fleet.executors import open_executor, rows_of
from edgemem.fleet.task import Task
from models.build import build, names
from tests.fleet_models import save_hostile, save_random

_VOLATILE = ("cpu_s", "peak_rss")


def save_models(folder: Path, count: int, testdata: Path | None) -> None:
    """Write at least `count` models; the rest of the number are random ones."""
    (folder / "built").mkdir(parents=True)
    for name in names():
        onnx.save(build(name, size="small"), folder / "built" / f"{name}.onnx")
    save_hostile(folder / "hostile")
    _link(Path(onnx.__file__).parent / "backend" / "test" / "data", folder / "backend", count)
    if testdata is not None:
        _link(testdata, folder / "testdata", count)
    left = count - len(models_in(folder))
    save_random(folder / "random", max(left, 40))


def models_in(folder: Path) -> list[Path]:
    """All models in a folder."""
    return [path for path in folder.rglob("*") if path.suffix in (".onnx", ".tflite")]


def _link(source: Path, folder: Path, most: int) -> None:
    folder.mkdir()
    for path in sorted(source.rglob("*.onnx"))[:most]:
        shutil.copy(path, folder / f"{path.parent.name}-{path.name}")


def run(models: Path, output: Path, *arguments: object) -> tuple[list[dict[str, Any]], float, float]:
    """The rows of `edgemem plan`, seconds, and processor seconds of all processes of it, the fork server's included."""
    before, begin = _processor_s(), time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "edgemem", "plan", str(models), "-o", str(output), *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, 1, 3, 4), done.stderr
    print("   ", done.stdout.splitlines()[-2])
    seconds = time.perf_counter() - begin
    with suppress(ChildProcessError):
        while "--scheduler" not in arguments:  # those that the command left are children of this process now
            os.wait()
    return rows_in(output), seconds, _processor_s() - before


def rows_in(output: Path) -> list[dict[str, Any]]:
    """The rows of a file of results, without what each run has of its own."""
    return [{k: v for k, v in row.items() if k not in _VOLATILE} for row in json.loads(output.read_text())]


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print a line for each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=300)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--testdata", type=Path)
    parser.add_argument("--skip-cluster", action="store_true")
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        models = folder / "models"
        save_models(models, options.models, options.testdata)
        print(f"{len(models_in(models))} models, {os.cpu_count()} processors")
        serial, serial_s, serial_cpu = run(models, folder / "serial.json", "--cache", folder / "c0")
        used = sorted(row["cpu_s"] for row in json.loads((folder / "serial.json").read_text()))
        each = f"{1000 * serial_cpu / len(serial):.0f} ms a model"
        print(f"1 at once: {serial_s:.1f} s, {serial_cpu:.1f} processor s, {each}")
        print(f"    of commands {sum(used):.1f} s, median {1000 * used[len(used) // 2]:.0f} ms, most {used[-1]:.1f} s")
        jobs = os.cpu_count() or 1
        rows, seconds, cpu = run(models, folder / "jobs.json", "--cache", folder / "c1", "--jobs", jobs)
        assert rows == serial
        _print_scaling(f"{jobs} at once", (serial_s, serial_cpu), (seconds, cpu), jobs)
        rows, seconds, cpu = run(models, folder / "again.json", "--cache", folder / "c1", "--jobs", jobs)
        assert rows == serial
        print(f"again, all in the cache: {seconds:.1f} s, {cpu:.1f} processor s")
        if not options.skip_cluster:
            _on_cluster(models, folder, serial, options.workers)
            _print_overhead(folder)


def _on_cluster(models: Path, folder: Path, serial: list[dict[str, Any]], workers: int) -> None:
    distributed: Any = import_module("distributed")
    with distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as cluster:
        more = ("--scheduler", cluster.scheduler_address, "--cache")
        for text, cache in (("nothing in the cache", "c2"), ("all in the cache", "c2")):
            rows, seconds, _ = run(models, folder / "cluster.json", *more, folder / cache)
            assert rows == serial
            print(f"{workers} workers of Dask, {text}: {seconds:.1f} s, rows as of the serial run")


def _print_overhead(folder: Path, count: int = 1000) -> None:
    """Print what Dask takes for a task: of models that are not there, which are rows at once."""
    psutil: Any = import_module("psutil")  # comes with distributed
    file = folder / "scheduler.json"
    run = [sys.executable, "-m", "dask"]
    common: dict[str, Any] = {"stderr": subprocess.DEVNULL}
    place = ["--scheduler-file", str(file), "--dashboard-address", ":0"]
    scheduler = subprocess.Popen([*run, "scheduler", "--host", "127.0.0.1", "--port", "0", *place], **common)
    worker = subprocess.Popen([*run, "worker", *place, "--nworkers", "2", "--nthreads", "1"], **common)
    try:
        while not file.exists():
            time.sleep(0.1)
        processes = psutil.Process(scheduler.pid), psutil.Process()
        with open_executor(1, json.loads(file.read_text())["address"]) as executor:
            for number in (50, count):  # the first ones load modules
                before = [sum(process.cpu_times()[:2]) for process in processes]
                tasks = [Task(f"{k}", f"/none/{k}.onnx", "plan") for k in range(number)]
                assert len(list(rows_of(tasks, executor))) == number
                used = [sum(p.cpu_times()[:2]) - begin for p, begin in zip(processes, before, strict=True)]
        of_scheduler, of_command = (f"{1000 * seconds / count:.1f} ms" for seconds in used)
        print(f"Dask, of a processor a task: the scheduler {of_scheduler}, the command {of_command}")
    finally:
        for process in (worker, scheduler):
            process.terminate()
            process.wait()


def _print_scaling(what: str, one: tuple[float, float], many: tuple[float, float], jobs: int) -> None:
    speed = one[0] / many[0]
    more = many[1] / one[1]
    print(
        f"{what}: {many[0]:.1f} s, {many[1]:.1f} processor s; {speed / jobs:.2f} of linear by the clock, "
        f"{1 / more:.2f} by processor time (work that did not become more)"
    )


if __name__ == "__main__":
    main()
