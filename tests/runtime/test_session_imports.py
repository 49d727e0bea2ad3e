"""What a session does not import: modules that take memory of every process, and that only other parts need."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.onnx_sessions import small

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("onnxruntime")

# Prints what is imported when the session is open, and after a run, its plan, and a run inside the plan, beyond numpy
# and onnxruntime.
_RUN = """
import sys
import numpy, onnxruntime
before = set(sys.modules)
import edgemem
session = edgemem.InferenceSession(sys.argv[1], cache=sys.argv[2])
opened = sorted(set(sys.modules) - before)
feeds = {i.name: numpy.ones(i.shape, numpy.float32) for i in session.get_inputs()}
session.run(None, feeds)
session.wait()
session.run(None, feeds)
assert session.memory.mode == "replay", session.memory
used = sorted(set(sys.modules) - before)
import json
print(json.dumps([session.memory_report.origin.source, opened, used]))
"""
# Some with what brings them in.
_UNWANTED = {
    "_bz2",
    "_decimal",  # sizes in text
    "_hashlib",  # OpenSSL
    "_lzma",
    "_random",
    "_ssl",
    "concurrent",
    "configparser",
    "ctypes.util",
    "difflib",
    "email",  # importlib.metadata
    "hashlib",
    "importlib.metadata",
    "logging",
    "onnx",
    "rich",
    "scipy",
    "secrets",
    "shutil",
    "subprocess",
    "tempfile",
    "tomllib",
    "numpy.ma",  # numpy.unique
    "numpy.random",
    "edgemem.system.child_process",
    "edgemem.formats",
    "edgemem.model.graph",
    "edgemem.proof.rehearsal",
    "edgemem.records.lifetime",
    "edgemem.schedule",
    "edgemem.targets",
    "edgemem.planning.verification",
    "edgemem_converters",
}


# Of what a first run needs.
_UNWANTED_TO_OPEN = {
    "dataclasses",
    "edgemem.planfile.decoding",
    "edgemem.plans",
    "edgemem.proof",
    "edgemem.replay.replayer",
    "json",
    "pathlib",
    "queue",
    "threading",
}


def imported(model: Path, cache: Path) -> tuple[str, set[str], set[str]]:
    """Where the plan came from, the modules of a process that opens the model, and of one that runs it in the plan."""
    command = [sys.executable, "-c", _RUN, str(model), str(cache)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    source, opened, used = json.loads(done.stdout)
    return source, set(opened), set(used)


def test_a_session_imports_neither_openssl_nor_what_graphs_and_commands_need(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(small("mobilenet_v2"))
    for wanted in ("made now", "cache"):
        source, opened, modules = imported(model, tmp_path / "plans")
        assert source == wanted
        assert "edgemem.replay.digest" in opened
        assert not opened & (_UNWANTED | _UNWANTED_TO_OPEN)
        assert "edgemem.proof.sweep" in modules
        assert not modules & _UNWANTED
        assert ("edgemem.strategy.catalogue" in modules) == (wanted == "made now")
