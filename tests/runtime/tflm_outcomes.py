"""Runs each .tflite file of a folder once in TensorFlow Lite Micro, each in a process of its own; a script.

It prints a line [name, outcome, log] for each file: outcome 0 if the model is prepared and runs, else another number.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from tflite_micro import runtime


def main(folder: Path) -> None:
    out = os.dup(1)
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        for path in sorted(folder.glob("*.tflite")):
            log.seek(0)
            log.truncate()
            process = os.fork()
            if not process:
                try:
                    runtime.Interpreter.from_bytes(path.read_bytes(), arena_size=1 << 22).invoke()
                except RuntimeError:
                    os._exit(1)
                os._exit(0)
            status = os.waitpid(process, 0)[1]
            log.seek(0)
            os.write(out, (json.dumps([path.stem, status, log.read().decode(errors="replace")]) + "\n").encode())


main(Path(sys.argv[1]))
