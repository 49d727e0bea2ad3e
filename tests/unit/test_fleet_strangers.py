"""Models, caches and buckets of strangers: what a fleet reads of them, writes for them and says of them."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from edgemem.fleet import cache, results
from edgemem.fleet.sources import digest_of, fetch, find_sources
from edgemem.fleet.task import OK, Task
from edgemem.fleet.worker import run_task
from tests.difference_models import Layers
from tests.unit.test_fleet import run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="signals come another way there")


@pytest.fixture
def task(tmp_path: Path) -> Task:
    Layers().save(tmp_path / "a.onnx")
    return Task("a.onnx", str(tmp_path / "a.onnx"), "plan", folder=str(tmp_path), cache=str(tmp_path / "cache"))


def test_an_entry_that_is_no_file_is_not_waited_for(task: Task) -> None:
    run_task(task)
    (entry,) = Path(task.cache).rglob("*.json")
    entry.unlink()
    os.mkfifo(entry)
    assert not run_task(task).is_cached
    assert run_task(task).is_cached


def test_an_entry_without_a_figure_has_a_table(tmp_path: Path) -> None:
    Layers().save(tmp_path / "a.onnx")
    more = ("plan", tmp_path, "--cache", tmp_path / "cache")
    run(*more)
    (entry,) = (tmp_path / "cache").rglob("*.json")
    kept = json.loads(entry.read_text())
    del kept["figures"]["optimal"]
    entry.write_text(json.dumps(kept))
    done = run(*more)
    assert "1 were in the cache" in done.output
    assert done.exit_code == 0


class Refusing:
    """A bucket whose back end has errors of its own, which quote the query of its URL."""

    def cat_file(self, path: str) -> bytes:
        raise RuntimeError(f"403 for {path}")

    def pipe_file(self, path: str, _: bytes) -> None:
        raise NotImplementedError(f"403 for {path}?sig=abcdef")


def test_a_bucket_that_refuses_loses_no_row(task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "file_system", lambda _: (Refusing(), "bucket"))
    row = run_task(replace(task, cache="s3://bucket?sig=abcdef"))
    assert (row.status, bool(row.unkept)) == (OK, True)
    assert "abcdef" not in row.unkept
    monkeypatch.setattr(results, "file_system", lambda _: (Refusing(), "bucket"))
    done = run("plan", task.location, "--cache", "none", "-o", "s3://me:hunter2@bucket/r.json")
    assert (done.exit_code, "Traceback" in done.output, "hunter2" in done.output) == (1, False, False)
    assert "cannot write" in done.stderr
    done = run("plan", task.location, "--cache", "none", "-o", tmp_path / "none" / "r.json")
    assert (done.exit_code, "planned" in done.output) == (1, False)  # before the work


def weighted(folder: Path, location: str) -> Path:
    """A model whose weights are in another file."""
    model = onnx.load(Layers().save(folder / "plain.onnx"))
    model.graph.initializer.append(numpy_helper.from_array(np.arange(4096, dtype=np.float32), "w"))
    onnx.save(model, folder / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    named = onnx.load(folder / "m.onnx", load_external_data=False)
    for tensor in named.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = location
    (folder / "m.onnx").write_bytes(named.SerializeToString())
    return folder / "m.onnx"


@pytest.mark.parametrize("is_absolute", [False, True])
def test_a_model_at_a_url_writes_into_no_other_folder(is_absolute: bool, tmp_path: Path) -> None:
    memory = pytest.importorskip("fsspec").filesystem("memory")
    to, outside = tmp_path / "to", tmp_path / "outside.bin"
    to.mkdir()
    location = str(outside) if is_absolute else "../outside.bin"
    memory.pipe_file("/hostile/m.onnx", weighted(tmp_path, location).read_bytes())
    memory.pipe_file(f"/hostile/{location}", b"not wanted")
    assert memory.exists(f"/hostile/{location}")
    fetch("memory://hostile/m.onnx", to)
    assert not outside.exists()


def test_a_name_in_a_bucket_leads_to_no_other_folder(tmp_path: Path) -> None:
    memory = pytest.importorskip("fsspec").filesystem("memory")
    model = Layers().save(tmp_path / "a.onnx").read_bytes()
    memory.pipe_file("/climbing/good.onnx", model)
    memory.pipe_file("/climbing/a/../../bad.onnx", model)
    found = find_sources(["memory://climbing/**"], (".onnx",))
    assert [model.name for model in found] == ["memory://climbing/good.onnx"]


def test_weights_that_come_later_are_seen(task: Task, tmp_path: Path) -> None:
    memory = pytest.importorskip("fsspec").filesystem("memory")
    path = weighted(tmp_path, "w.bin")
    memory.pipe_file("/later/m.onnx", path.read_bytes())
    there = replace(task, location="memory://later/m.onnx", name="memory://later/m.onnx")
    first = run_task(there)
    memory.pipe_file("/later/w.bin", (tmp_path / "w.bin").read_bytes())
    assert run_task(there).digest == digest_of(path) != first.digest
