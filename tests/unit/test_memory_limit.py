"""Where the memory does not suffice to parse a model, that is what is said, and not that the file is damaged."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import helper

if TYPE_CHECKING:
    from pathlib import Path

SIZE = 64 << 20

# Limits the addresses of the process to what it has, and a share of the file besides, when all modules are loaded.
CHILD = """
import resource, sys
import edgemem
from edgemem.formats import open_bytes
data = open(sys.argv[1], "rb").read()
open_bytes(open(sys.argv[2], "rb").read(), ".onnx")
with open("/proc/self/statm") as statm:
    taken = int(statm.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + int(len(data) * float(sys.argv[3])),) * 2)
try:
    open_bytes(data, ".onnx")
except MemoryError:
    print("memory")
"""


def model(path: Path, count: int) -> Path:
    weights = onnx.numpy_helper.from_array(np.zeros(count, np.float32), "w")
    values = [helper.make_tensor_value_info(name, 1, [count]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", values[:1], values[1:], [weights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="Linux alone has /proc")
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_a_lack_of_memory_is_no_damage(share: float, tmp_path: Path) -> None:
    files = model(tmp_path / "m.onnx", SIZE // 4), model(tmp_path / "small.onnx", 4)
    line = [sys.executable, "-c", CHILD, *map(str, files), str(share)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "memory"), done.stderr
