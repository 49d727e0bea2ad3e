"""LiteRT's structures are read and written only if the installed LiteRT has them as edgemem knows them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from edgemem.errors import RuntimeBindError
from tests.tflite_models import M, O, S, T, build

pytest.importorskip("ai_edge_litert")

from edgemem.runtime.litert import structs_check, structs_note
from edgemem.runtime.litert.interpreter import Interpreter, OpResolverType
from edgemem.system.child_call import ChildError, Message

# Everything that is read, written or called. Two fields that are not used may change places.
USED = {
    "NativeNode": {"inputs", "outputs", "temporaries"},
    "NativeTensor": {"type", "data", "dims", "allocation_type", "bytes", "name"},
    "NativeContext": {"tensors_size", "get_execution_plan", "tensors", "get_node_and_registration"},
    "NativeDelegate": {"prepare", "flags"},
    "Registration": {"invoke", "builtin_code"},
}
SMALL = build(M([S([T("x"), T("y")], [O("ABS", (0,), (1,))], (0,), (1,))]))
BUILTIN = {"experimental_op_resolver_type": OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of its own, and nothing examined yet."""
    monkeypatch.setenv("EDGEMEM_CACHE", str(tmp_path))
    monkeypatch.setattr(structs_check, "_verdicts", {})
    return tmp_path / "litert"


@pytest.mark.exhaustive
@pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes are forked")
def test_any_two_fields_that_change_places_are_found() -> None:
    command = [sys.executable, "-m", "tests.runtime.litert_permutations"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=600, cwd=Path(__file__).parents[2]
    )
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(rows) == 211
    for structure, one, other, verdict in rows:
        if one == other:
            assert verdict == "right"
        elif {one, other} & USED[structure]:
            assert verdict != "right", (structure, one, other)
    refused = [verdict for *_, verdict in rows if verdict != "right"]
    assert len(refused) > 140
    assert any(verdict.startswith("signal") for verdict in refused)  # this would have been the user's process


@pytest.mark.parametrize(
    ("status", "found", "verdict"),
    [(-11, "", "reading it crashes"), (1, "", "reading it crashes"), (0, "sizes", "sizes")],
)
def test_a_wrong_layout_is_refused_before_anything_is_read(
    monkeypatch: pytest.MonkeyPatch, status: int, found: str, verdict: str
) -> None:
    calls: list[str] = []

    def child(module: str, *_: Any, **__: Any) -> Message:
        calls.append(module)
        if status:
            raise ChildError("it was ended", status=status)
        return Message({"verdict": found})

    monkeypatch.setattr(structs_check, "call_child", child)
    for _ in range(2):
        with pytest.raises(RuntimeBindError, match=rf"laid out in another way than edgemem knows \({verdict}\)"):
            Interpreter(model_content=SMALL, refuse="raise", **BUILTIN)
    assert len(calls) == 1
    plain = Interpreter(model_content=SMALL, **BUILTIN)
    plain.allocate_tensors()
    assert verdict in plain.memory.reason


def test_a_check_that_does_not_end_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    def child(*_: Any, **__: Any) -> Message:
        raise ChildError("it took longer than 1 s", status=None)

    monkeypatch.setattr(structs_check, "call_child", child)
    with pytest.raises(RuntimeBindError, match="reading it did not end"):
        Interpreter(model_content=SMALL, refuse="raise", **BUILTIN)


def test_the_installed_layout_is_right_and_examined_once(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    structs_check.check_structs()
    assert len(list(cache.iterdir())) == 1
    monkeypatch.setattr(structs_check, "call_child", None)
    structs_check.check_structs()
    Interpreter(model_content=SMALL, **BUILTIN).allocate_tensors()
    monkeypatch.setattr(structs_check, "_verdicts", {})  # as in the next process
    Interpreter(model_content=SMALL, **BUILTIN).allocate_tensors()


@pytest.mark.parametrize("damage", ["other", "longer", "link", "fifo", "folder", "structures", "library"])
def test_a_note_that_is_not_of_this_installation_counts_as_absent(
    monkeypatch: pytest.MonkeyPatch, cache: Path, tmp_path: Path, damage: str
) -> None:
    structs_check.check_structs()
    (note,) = cache.iterdir()
    content = note.read_bytes()
    if damage == "other":
        note.write_bytes(content[:-1] + b"-")
    elif damage == "longer":
        note.write_bytes(content + b"-")
    elif damage == "structures":
        monkeypatch.setattr(structs_note, "_STRUCTURES", structs_note._STRUCTURES[::-1])
    elif damage == "library":
        monkeypatch.setattr("platform.machine", lambda: "another")
    else:
        note.unlink()
        if damage == "link":
            (tmp_path / "elsewhere").write_bytes(content)
            note.symlink_to(tmp_path / "elsewhere")
        elif damage == "fifo":
            os.mkfifo(note)
        else:
            note.mkdir()
    monkeypatch.setattr(structs_check, "_verdicts", {})
    calls: list[str] = []

    def child(module: str, *_: Any, **__: Any) -> Message:
        calls.append(module)
        return Message({"verdict": ""})

    monkeypatch.setattr(structs_check, "call_child", child)
    structs_check.check_structs()
    assert len(calls) == 1
    if damage == "link":
        assert not note.is_symlink()
        assert (tmp_path / "elsewhere").read_bytes() == content


@pytest.mark.parametrize("where", ["frozen", "no executable", "no processes"])
def test_where_no_process_can_be_started_this_one_examines_it(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    def child(module: str, *_: Any, **__: Any) -> Message:
        assert where == "no processes", module
        raise PermissionError

    if where == "frozen":
        monkeypatch.setattr(sys, "frozen", True, raising=False)
    if where == "no executable":
        monkeypatch.setattr(sys, "executable", "")
    monkeypatch.setattr(structs_check, "call_child", child)
    Interpreter(model_content=SMALL, **BUILTIN).allocate_tensors()


def test_a_folder_that_cannot_be_written_does_not_matter(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("EDGEMEM_CACHE", str(tmp_path / "file"))
    structs_check.check_structs()
