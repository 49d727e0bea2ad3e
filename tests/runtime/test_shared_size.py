"""What several models take together on a computer or phone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pytest

pytest.importorskip("ai_edge_litert")

import edgemem
from edgemem.replay.arena import Arena
from edgemem.runtime.litert.interpreter import Interpreter
from models.build import build as build_onnx
from tests.runtime.test_cli_tflite import edgemem as command
from tests.runtime.test_interpreter import BUILTIN, allocated, small

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.full
def test_sessions_share_an_arena_and_interpreters_have_their_own(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    tflite, plain, onnx = (tmp_path / name for name in ("a.tflite", "plain.onnx", "b.onnx"))
    tflite.write_bytes(small(4096))
    plain.write_bytes(build_onnx("mobilenet_v2", size="small").SerializeToString(deterministic=True))
    assert command("plan", plain, "--record", "-o", onnx).exit_code == 0
    arena = Arena()
    alone = allocated(Interpreter, tflite.read_bytes(), **BUILTIN).memory.reserved
    session = edgemem.InferenceSession(str(onnx), arena=arena)
    (entry,) = session.get_inputs()
    session.run(None, {entry.name: np.zeros(entry.shape, np.float32)})
    for share, files, total in (
        ("sequential", (tflite, onnx), alone + arena.size),
        ("interleaved", (tflite, onnx), alone + arena.size),
        ("sequential", (onnx, onnx), arena.size),
        ("interleaved", (onnx, tflite, onnx), 2 * arena.size + alone),
    ):
        made = json.loads(command("size", *files, "--share", share, "--json").stdout)
        assert made["arena"] == total
        assert [each["name"] for each in made["models"]] == [file.name for file in files]
    assert command("size", tflite, onnx, "--share", "sequential", "--runtime", "tflm").exit_code == 2
