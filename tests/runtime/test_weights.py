"""Packed weights beside a model: sessions map them, give the bits of a plain session, and use no others."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto, helper

from edgemem.cli.main import main
from edgemem.report.sizes import size_text
from edgemem.runtime.onnxruntime.baked_file import bake
from edgemem.runtime.onnxruntime.file import WEIGHTS_KEY, metadata_of, opened, with_entry
from edgemem.runtime.onnxruntime.session import InferenceSession
from edgemem.runtime.onnxruntime.session_weights import SessionWeights
from edgemem.runtime.onnxruntime.weights import checking, note, packing
from edgemem.runtime.onnxruntime.weights.packed_files import pack_beside
from tests.mapped_files import mapped_files
from tests.onnx_sessions import feeds, options, plain, same, small
from tests.weighted_models import eight_bits, four_bits, products, served

if TYPE_CHECKING:
    from collections.abc import Callable

onnxruntime = pytest.importorskip("onnxruntime")

MODELS: Final[dict[str, Callable[[], bytes]]] = {
    "convolutions": lambda: small("resnet18"),
    "products": products,
    "int4": four_bits,
    "int8": eight_bits,
    "transformer": lambda: small("transformer"),
}


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, its packed weights, and the cache that remembers them."""
    folder = tmp_path_factory.mktemp("ready")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGEMEM_CACHE", str(folder / "cache"))
        (folder / "model.onnx").write_bytes(products())
        pack_beside(folder / "model.onnx")
    return folder


@pytest.fixture
def path(ready: Path, tmp_path: Path) -> Path:
    """A copy of that model with everything."""
    shutil.copytree(ready, tmp_path, dirs_exist_ok=True)
    return tmp_path / "model.onnx"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEMEM_CACHE", str(tmp_path / "cache"))


def edgemem(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def packed(path: Path) -> tuple[Path, Path]:
    """The graph and the weights beside a model."""
    with opened(path) as (data, _):
        found = note.note_in(data)
    assert found is not None
    return found.files(path)


def warnings_of(path: Path, caplog: pytest.LogCaptureFixture, make: Callable[[], Any] = options, **kwargs: Any) -> str:
    """The warnings of a session with options that `make` gives, which must give the bits of a plain one.

    It maps packed weights, or there is one warning.
    """
    source = onnxruntime.InferenceSession(path, make(), providers=["CPUExecutionProvider"], **kwargs)
    values = feeds(source, seed=5)
    expected = source.run(None, values)
    caplog.clear()
    with caplog.at_level(logging.WARNING), InferenceSession(path, make(), **kwargs) as session:
        assert same(session.run(None, values), expected)
        assert bool(mapped_files()) == (not caplog.records)
    assert len(caplog.records) <= 1
    return caplog.text


@pytest.fixture
def no_packing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packing is an error."""

    def refuse(*_: object) -> None:
        raise AssertionError("the weights are packed")

    monkeypatch.setattr(packing, "pack", refuse)


@pytest.mark.parametrize("name", MODELS)
def test_a_session_maps_packed_weights_and_gives_the_same_bits_inside_the_plan_of_the_plain_model(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    content = MODELS[name]()
    path = served(tmp_path / "served", content)
    source = plain(content)
    values = feeds(source, seed=3)
    expected = source.run(None, values)
    given = options()
    before = given.graph_optimization_level, given.execution_order
    with caplog.at_level(logging.WARNING), InferenceSession(path, given, record="never", poison=True) as session:
        for _ in range(2):
            assert same(session.run(None, values), expected)
        assert mapped_files()
        assert not caplog.records
        assert (session.memory.replayed, session.memory.bails) == (2, 0)
        origin = session.memory_report.origin
        assert origin is not None
        assert origin.source == "file"
    assert (given.graph_optimization_level, given.execution_order) == before


def test_a_baked_file_keeps_its_order_and_its_plan(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = tmp_path / "model.onnx"
    source.write_bytes(small("resnet18"))
    bake(source, tmp_path / "baked.onnx", "all")
    path = served(tmp_path / "served", (tmp_path / "baked.onnx").read_bytes())
    assert warnings_of(path, caplog) == ""
    with InferenceSession(path, options(), record="never") as session:
        session.run(None, feeds(session))
        assert (session.memory.replayed, session.memory.bails) == (1, 0)


def test_weights_in_other_files_are_packed_and_their_changes_are_seen(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    model = onnx.load_from_string(products())
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="plain.data", size_threshold=1024)
    pack_beside(path)
    assert warnings_of(path, caplog) == ""
    data = bytearray((tmp_path / "plain.data").read_bytes())
    data[4096:8192] = bytes(4096)  # as large as before
    (tmp_path / "plain.data").write_bytes(data)
    assert "not what packing the model gives here" in warnings_of(path, caplog)


@pytest.mark.usefixtures("no_packing")
def test_what_was_packed_here_is_not_packed_again(path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert warnings_of(path, caplog) == ""
    for file in (path, *packed(path)):  # other files with the same bytes: they are read once more
        shutil.copy(file, tmp_path / "copy")
        (tmp_path / "copy").replace(file)
    assert warnings_of(path, caplog) == ""
    moved = tmp_path / "moved"
    moved.mkdir()
    for file in (path, *packed(path)):
        shutil.copy(file, moved)
    (moved / path.name).rename(moved / "other.onnx")
    assert warnings_of(moved / "other.onnx", caplog) == ""


def test_a_check_is_remembered_only_where_nobody_else_can_write(
    path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = list((tmp_path / "cache" / "weights").iterdir())
    assert entries
    calls: list[Path] = []
    pack = packing.pack

    def counted(model: Path, *given: Any) -> packing.Packed:
        calls.append(model)
        return pack(model, *given)

    monkeypatch.setattr(packing, "pack", counted)
    for entry in entries:
        entry.chmod(0o666)
    assert warnings_of(path, caplog) == ""
    assert len(calls) == 1
    assert warnings_of(path, caplog) == ""
    assert len(calls) == 1, "the check has made entries of its own"
    monkeypatch.setenv("EDGEMEM_CACHE", str(path / "no folder"))  # nothing can be remembered there
    for count in (2, 3):
        assert warnings_of(path, caplog) == ""
        assert len(calls) == count


def _change(path: Path) -> None:
    """Flip bits of weights in place, and give the file the times that it had."""
    status = path.stat()
    with path.open("r+b") as file:
        file.seek(status.st_size // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 0xFF]))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def _link(path: Path) -> None:
    path.rename(path.with_suffix(".there"))
    path.symlink_to(path.with_suffix(".there"))


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


FAULTS: Final[dict[str, tuple[Callable[[Path], object], str]]] = {
    "changed": (_change, "not those that were written"),
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


def test_files_that_agree_with_a_note_are_not_believed(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    graph, weights = packed(path)
    _change(weights)
    entry = json.loads(metadata_of(path.read_bytes(), (WEIGHTS_KEY,))[WEIGHTS_KEY])
    entry["weights"] = checking.digests_of(graph, weights)[1]
    path.write_bytes(with_entry(path.read_bytes(), WEIGHTS_KEY, json.dumps(entry).encode()))
    assert "not what packing the model gives here" in warnings_of(path, caplog)
    done = edgemem("verify", path)
    assert done.exit_code == 4 or "carries no plan" in done.output


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
    assert "ORT_ENABLE_ALL, and this is ORT_ENABLE_BASIC" in warnings_of(path, caplog, lambda: options("BASIC"))

    def without_packing() -> Any:
        given = options()
        given.add_session_config_entry("session.disable_prepacking", "1")
        return given

    assert "session.disable_prepacking" in warnings_of(path, caplog, without_packing)
    assert "another graph" in warnings_of(path, caplog, disabled_optimizers=["ConvActivationFusion"])
    assert warnings_of(path, caplog) == ""
    with monkeypatch.context() as patch:
        patch.setattr(note, "_numpy_features", lambda: {"AVX": True, "AVX512F": False})
        assert "and this is " in warnings_of(path, caplog)
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
    warning, is_mapped, is_same = _in_child(path, "qemu-x86_64", "-cpu", "Nehalem")
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
            _change(packed(path)[1])
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


def test_the_command_packs_and_verify_packs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    source, path = tmp_path / "source.onnx", tmp_path / "model.onnx"
    source.write_bytes(small("resnet18"))
    done = edgemem("plan", source, "--weights", "mapped", "-o", path)
    assert done.exit_code == 0, done.output
    size = sum(f.stat().st_size for f in packed(path))
    assert f"weights packed: {size_text(size)} on disk" in done.output
    assert warnings_of(path, caplog) == ""
    done = edgemem("verify", "--json", path)
    assert done.exit_code == 0, done.output
    assert [leg["checked"] for leg in json.loads(done.stdout)["legs"] if leg["leg"] == "weights"]
    with monkeypatch.context() as patch:
        patch.setattr(onnxruntime, "__version__", f"{onnxruntime.__version__}+other")
        done = edgemem("verify", "--json", path)
    assert done.exit_code == 0
    assert any("the packed weights: " in text for text in json.loads(done.stdout)["not_checked"])
    _change(packed(path)[1])
    done = edgemem("verify", "--json", path)
    assert done.exit_code == 4
    assert [v["cause"] for v in json.loads(done.stdout)["violations"]] == ["different_weights"]
    assert edgemem("plan", path, "-o", path).exit_code == 0
    assert not metadata_of(path.read_bytes(), (WEIGHTS_KEY,)), "a plan without packed weights names none"


def test_what_cannot_be_packed_is_an_error_that_says_so(tmp_path: Path) -> None:
    source = tmp_path / "source.onnx"
    source.write_bytes(products(width=8, layers=1))
    done = edgemem("plan", source, "--dim", "rows=2", "--weights", "mapped", "-o", tmp_path / "model.onnx")
    assert done.exit_code == 1
    assert "no constants of 1 KiB" in done.output
    done = edgemem("plan", source, "--weights", "mapped", "-o", tmp_path / "plan.edgemem")
    assert done.exit_code == 2


@pytest.mark.full
def test_more_weights_than_a_protobuf_message_holds_are_packed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    width, layers = 12288, 4  # 2.25 GiB
    path = tmp_path / "model.onnx"
    names = ["x", *(f"y{k}" for k in range(layers))]
    nodes = [helper.make_node("MatMul", [names[k], f"w{k}"], [names[k + 1]]) for k in range(layers)]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, width]) for name in (names[0], names[-1])]
    constants = []
    for k in range(layers):
        constants.append(TensorProto(name=f"w{k}", dims=[width, width], data_type=TensorProto.FLOAT))
        constants[-1].data_location = TensorProto.EXTERNAL
        size = 4 * width * width
        for key, value in (("location", "plain.data"), ("offset", str(k * size)), ("length", str(size))):
            constants[-1].external_data.add(key=key, value=value)
    rows = np.random.default_rng(0).standard_normal((64, width), np.float32) / width**0.5
    with (tmp_path / "plain.data").open("wb") as file:
        for k in range(layers * width // len(rows)):
            file.write(np.roll(rows, k, axis=1).tobytes())
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    on_disk = pack_beside(path)
    assert on_disk.packed > on_disk.plain > 2**31
    assert warnings_of(path, caplog) == ""


TWO = """
import sys
import numpy as np
import edgemem
from edgemem.system.process_memory import anonymous_bytes
sessions, taken = [], []
for _ in range(3):
    before = anonymous_bytes()
    sessions.append(edgemem.InferenceSession(sys.argv[1], background=False))
    for _ in range(3):
        sessions[-1].run(None, {"x": np.ones((1, 1024), np.float32)})
    taken.append(anonymous_bytes() - before)
print(min(taken[1:]))  # the first one loads libraries
"""


def test_further_sessions_of_a_process_take_no_memory_for_weights(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(products(width=1024, layers=8))

    def further() -> int:
        done = subprocess.run([sys.executable, "-c", TWO, str(path)], check=True, capture_output=True, text=True)
        return int(done.stdout)

    weights = 8 * 1024 * 1024 * 4
    assert further() > 0.9 * weights, "a plain session has its own"
    pack_beside(path)
    assert further() < 0.1 * weights
