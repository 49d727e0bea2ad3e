"""Packed weights that are damaged, foreign or replaced: sessions use plain weights, and say so in one line."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from edgemem.commands.verify_weights import examine_weights
from edgemem.runtime.onnxruntime.file import WEIGHTS_KEY, metadata_of, opened, with_entry
from edgemem.runtime.onnxruntime.session import InferenceSession
from edgemem.runtime.onnxruntime.session_weights import SessionWeights
from edgemem.runtime.onnxruntime.weights import checking
from edgemem.runtime.onnxruntime.weights.packed_files import pack_beside
from edgemem.system import processor
from tests.onnx_sessions import feeds, options, same, small
from tests.weighted_models import change_weights, packed, products, warnings_of

if TYPE_CHECKING:
    from collections.abc import Callable

onnxruntime = pytest.importorskip("onnxruntime")


def _link(path: Path) -> None:
    path.rename(path.with_suffix(".there"))
    path.symlink_to(path.with_suffix(".there"))


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


FAULTS: Final[dict[str, tuple[Callable[[Path], object], str]]] = {
    "changed": (change_weights, "not those that were written"),
    "truncated": (lambda path: os.truncate(path, path.stat().st_size // 2), "not those that were written"),
    "empty": (lambda path: os.truncate(path, 0), "not those that were written"),
    "missing": (Path.unlink, "No such file"),
    "a link": (_link, "no regular file"),
    "a pipe": (_pipe, "no regular file"),
}


@pytest.mark.parametrize("which", ["graph", "weights"])
@pytest.mark.parametrize("fault", FAULTS)
def test_plain_weights_are_used_in_place_of_damaged_ones(
    fault: str, which: str, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    damage, reason = FAULTS[fault]
    damage(packed(path)[which == "weights"])
    assert reason in warnings_of(path, caplog)


def test_files_that_agree_with_a_note_are_packed_once_and_never_believed(
    path: Path, caplog: pytest.LogCaptureFixture, packings: list[Path]
) -> None:
    graph, weights = packed(path)
    change_weights(weights)
    entry = json.loads(metadata_of(path.read_bytes(), (WEIGHTS_KEY,))[WEIGHTS_KEY])
    entry["weights"] = checking.digests_of(graph, weights)[1]
    path.write_bytes(with_entry(path.read_bytes(), WEIGHTS_KEY, json.dumps(entry).encode()))
    for count in (1, 1):
        assert "not what packing the model gives here; pack them again with" in warnings_of(path, caplog)
        assert len(packings) == count
    copy = path.with_name("copy.onnx")  # the same bytes in another file
    copy.write_bytes(path.read_bytes())
    assert "not what packing the model gives here" in warnings_of(copy, caplog)
    assert len(packings) == 1
    assert examine_weights(path).violations
    assert len(packings) == 2
    pack_beside(path)
    assert warnings_of(path, caplog) == ""


def test_weights_of_another_model_are_not_believed(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = metadata_of(path.read_bytes(), (WEIGHTS_KEY,))[WEIGHTS_KEY]
    path.write_bytes(with_entry(products(seed=1), WEIGHTS_KEY, text))
    assert "not what packing the model gives here" in warnings_of(path, caplog)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"name": "../model.0123456789abcdef"}, "names no files beside it"),
        ({"name": "/etc/model.0123456789abcdef"}, "names no files beside it"),
        ({"name": 5}, "damaged"),
        ({"graph": "0" * 63}, "names no files beside it"),
        ({"place": {}}, "damaged"),
        ({"more": 1}, "damaged"),
    ],
)
def test_a_damaged_note_is_no_note(
    change: dict[str, Any], reason: str, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    entry = json.loads(metadata_of(path.read_bytes(), (WEIGHTS_KEY,))[WEIGHTS_KEY])
    path.write_bytes(with_entry(path.read_bytes(), WEIGHTS_KEY, json.dumps({**entry, **change}).encode()))
    assert reason in warnings_of(path, caplog)


def test_a_session_of_another_kind_uses_plain_weights(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(small("resnet18"))
    pack_beside(path)
    remedy = "a session without this option uses them"
    other_level = f"ORT_ENABLE_ALL, and this is ORT_ENABLE_BASIC; {remedy}"
    assert other_level in warnings_of(path, caplog, lambda: options("BASIC"))

    def without_packing() -> Any:
        given = options()
        given.add_session_config_entry("session.disable_prepacking", "1")
        return given

    assert f"session.disable_prepacking; {remedy}" in warnings_of(path, caplog, without_packing)
    assert "another graph" in warnings_of(path, caplog, disabled_optimizers=["ConvActivationFusion"])
    assert warnings_of(path, caplog) == ""
    with monkeypatch.context() as patch:
        patch.setattr(processor, "_numpy_features", lambda: {"AVX": True, "AVX512F": False})
        found = warnings_of(path, caplog)
        assert "and this is " in found
        assert "pack them again with" in found
    entry = json.loads(metadata_of(path.read_bytes(), (WEIGHTS_KEY,))[WEIGHTS_KEY])
    entry["place"]["onnxruntime"] = "1.22.0"
    path.write_bytes(with_entry(path.read_bytes(), WEIGHTS_KEY, json.dumps(entry).encode()))
    assert "packed for onnxruntime 1.22.0, and this is onnxruntime" in warnings_of(path, caplog)


SESSION = """
import logging, sys
import numpy as np
import onnxruntime
import edgemem
logging.basicConfig(format="%(message)s", stream=sys.stdout)
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = edgemem.InferenceSession(sys.argv[1], options)
feeds = {i.name: np.linspace(-1, 1, np.prod(i.shape), dtype=np.float32).reshape(i.shape) for i in session.get_inputs()}
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
plain = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
print(".weights" in open("/proc/self/maps").read())
print(all(a.tobytes() == b.tobytes() for a, b in zip(session.run(None, feeds), plain.run(None, feeds))))
"""


def _in_child(path: Path, *command: str, **environment: str) -> list[str]:
    """What a session of its own process prints: warnings, whether weights are mapped, whether bits are equal."""
    environ = {**os.environ, **environment}
    done = subprocess.run(
        [*command, sys.executable, "-c", SESSION, str(path)], check=True, capture_output=True, text=True, env=environ
    )
    return done.stdout.splitlines()


@pytest.mark.full
def test_an_emulated_processor_uses_plain_weights(tmp_path: Path) -> None:
    if not (shutil.which("qemu-x86_64") and os.uname().machine == "x86_64"):
        pytest.skip("no qemu-x86_64 here")
    path = tmp_path / "model.onnx"
    path.write_bytes(small("resnet18"))
    pack_beside(path)
    assert _in_child(path) == ["True", "True"]
    warning, is_mapped, is_same = _in_child(path, "qemu-x86_64", "-cpu", "SandyBridge")
    assert (is_mapped, is_same) == ("False", "True")
    assert "are not used" in warning


def test_replaced_and_removed_files_stay_as_they_were_for_who_has_mapped_them(
    path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with InferenceSession(path, options(), share_outputs=False) as session:
        values = feeds(session)
        expected = session.run(None, values)
        for content in (products(), products(seed=1)):
            path.write_bytes(content)
            pack_beside(path)  # the second one has another name, and removes the first
            assert same(session.run(None, values), expected)
        for file in packed(path):
            file.unlink()
        assert same(session.run(None, values), expected)
    assert "No such file" in warnings_of(path, caplog)
    assert {p.name for p in tmp_path.iterdir()} == {path.name, "cache"}


def test_files_that_change_while_they_are_loaded_are_not_used(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    given, opened_files = options(), []

    def make(file: Any) -> Any:
        opened_files.append(str(file))
        if len(opened_files) == 1:
            change_weights(packed(path)[1])
        return file

    with opened(path) as (data, _):
        weights = SessionWeights(path, data, given, ["CPUExecutionProvider"], {})
    assert weights.load(make) == path
    assert opened_files == [str(packed(path)[0]), str(path)]
    assert "changed while they were loaded" in caplog.text
    assert weights.digest() == checking.plain_digests(path)[0]


def test_two_writers_leave_one_whole_set_of_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source, path = tmp_path / "source.onnx", tmp_path / "served" / "model.onnx"
    source.write_bytes(small("resnet18"))
    path.parent.mkdir()
    command = [sys.executable, "-m", "edgemem", "plan", str(source), "--weights", "mapped", "-o", str(path)]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [w.wait() for w in writers if w.communicate()] == [0, 0]
    assert {p.name for p in path.parent.iterdir()} == {path.name, *(p.name for p in packed(path))}
    assert warnings_of(path, caplog) == ""


def test_a_session_writes_nothing_beside_the_model(tmp_path: Path) -> None:
    path = tmp_path / "served" / "model.onnx"
    path.parent.mkdir()
    path.write_bytes(products())
    pack_beside(path)
    before = {p.name: (p.stat().st_ino, p.stat().st_mtime_ns) for p in path.parent.iterdir()}
    shutil.rmtree(tmp_path / "cache")
    folder = path.parent.stat().st_mtime_ns
    with InferenceSession(path, options()) as session:
        session.run(None, feeds(session))
    assert {p.name: (p.stat().st_ino, p.stat().st_mtime_ns) for p in path.parent.iterdir()} == before
    assert path.parent.stat().st_mtime_ns == folder
