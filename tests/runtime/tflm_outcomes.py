"""Runs each .tflite file of a folder once in TensorFlow Lite Micro; a script.

It prints a line [name, runs, log] for each file. A process that a file ends is followed by another for the next files.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import IO

from tflite_micro import runtime


def run(path: Path, log: IO[bytes]) -> tuple[str, bool, str]:
    log.seek(0)
    log.truncate()
    runs = True
    try:
        runtime.Interpreter.from_bytes(path.read_bytes(), arena_size=1 << 22).invoke()
    except RuntimeError:
        runs = False
    log.seek(0)
    return path.stem, runs, log.read().decode(errors="replace")


def main(folder: Path) -> None:
    paths = sorted(folder.glob("*.tflite"))
    out, done = os.dup(1), folder / "done.jsonl"
    with tempfile.TemporaryFile() as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        lines: list[str] = []
        while len(lines) < len(paths):
            process = os.fork()
            if not process:
                with done.open("w") as file:
                    for path in paths[len(lines) :]:
                        print(json.dumps(run(path, log)), file=file, flush=True)
                os._exit(0)
            os.waitpid(process, 0)
            lines += done.read_text().splitlines()
            if len(lines) < len(paths):
                lines.append(json.dumps((paths[len(lines)].stem, False, "it ended the process")))
    os.write(out, "\n".join(lines).encode())


main(Path(sys.argv[1]))
