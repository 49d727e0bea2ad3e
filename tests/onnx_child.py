"""Reading an ONNX file in a process of its own, which may use so much time and memory and no more.

The limit of time is processor time, so that tests give the same results on a busy machine.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["read_in_child"]

_CODE = """
import resource, sys
from pathlib import Path
from edgemem.errors import EdgememError
from edgemem.formats import Bindings
from edgemem_converters.onnx.model import OnnxConverter
used = resource.getrusage(resource.RUSAGE_SELF)
seconds = int(used.ru_utime + used.ru_stime) + int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[3]), int(sys.argv[3])))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
try:
    print("read", len(OnnxConverter.open(Path(sys.argv[1]), Bindings()).graph().tensors))
except EdgememError as e:
    print(f"{type(e).__name__}: {e}"[:500])
"""


def read_in_child(path: Path, *, seconds: int = 30, memory: int = 4 << 30) -> str:
    """What came of reading a model: `read` and its number of tensors, or an error of edgemem's with its message.

    Args:
        path: the model.
        seconds: processor time.
        memory: address space in bytes.

    Returns "" and more if the process was ended, crashed or raised another error.
    """
    done = subprocess.run(
        [sys.executable, "-c", _CODE, str(path), str(seconds), str(memory)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return done.stdout.strip() if done.returncode == 0 else f"ended with {done.returncode}: {done.stderr[-500:]}"
