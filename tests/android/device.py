"""A device made of this machine: Android's system libraries by the shim, an APK's native libraries, and run_model."""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnx

from tests.android.shim import SOURCES, Abi, build_shim, compile_with

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

__all__ = ["Device", "DeviceError", "Results", "read_tensors", "write_tensors"]

Tensors = dict[str, "NDArray[Any]"]

_ROOT: Final = Path(__file__).resolve().parents[2]
_RUN_S: Final = 300


class DeviceError(Exception):
    """A program did not end well; the message is what it said."""


@dataclass(frozen=True, slots=True)
class Results:
    """What run_model told of each run, and its outputs: by process and worker ("parent0"), then by run."""

    runs: tuple[Mapping[str, Any], ...]
    outputs: Mapping[str, tuple[Tensors, ...]]

    def of(self, process: str = "parent", worker: int = 0) -> tuple[Mapping[str, Any], ...]:
        """The runs of one worker, in order."""
        return tuple(r for r in self.runs if r["process"] == process and r["worker"] == worker)


@dataclass(frozen=True, slots=True)
class Device:
    """Android's libraries for one processor in folders, and the program run_model compiled for it."""

    abi: Abi
    shim: Path
    libraries: Path  # libonnxruntime.so, libedgemem.so ...
    program: Path

    @classmethod
    def build(cls, abi: Abi, libraries: Path, headers: Path, folder: Path) -> Device:
        """Compiles run_model into `folder`; `headers` has ONNX Runtime's C API. Raises BuildError."""
        program = folder / f"run_model-{abi.name}"
        sources = [Path(__file__).with_name("run_model.c")]
        if abi.runner:
            sources.append(SOURCES / "guard_room.c")
        flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{_ROOT / 'kernels'}", "-isystem", str(headers)]
        compile_with(abi, [*flags, *sources, "-o", program, "-ldl", "-lpthread"])
        return cls(abi, build_shim(abi), libraries, program)

    def command(self, *arguments: str | Path) -> tuple[list[str], dict[str, str]]:
        """How to start a program of this device: the command, and its environment."""
        path = f"{self.shim}:{self.libraries}"
        told = {"ORT_DISABLE_TELEMETRY": "1"}
        if self.abi.runner:
            name, *options = self.abi.runner
            within = ["-E", f"LD_LIBRARY_PATH={path}"]
            return [shutil.which(name) or name, *options, *within, *map(str, arguments)], {**os.environ, **told}
        return list(map(str, arguments)), {**os.environ, **told, "LD_LIBRARY_PATH": path}

    def run(self, model: Path, feeds: Sequence[Tensors], folder: Path, *options: str, planned: bool = True) -> Results:
        """Runs a model with each of the feeds, in a folder of its own. Raises DeviceError."""
        folder.mkdir(parents=True, exist_ok=True)
        files = []
        for number, feed in enumerate(feeds):
            files.append(folder / f"inputs.{number}")
            write_tensors(files[-1], feed)
        given = ["--edgemem", str(self.libraries / "libedgemem.so")] if planned else []
        command, environment = self.command(
            self.program, self.libraries / "libonnxruntime.so", model, folder / "results", *given, *options, *files
        )
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_RUN_S, check=False)
        except (OSError, subprocess.TimeoutExpired) as e:
            raise DeviceError(str(e)) from None
        if done.returncode:
            raise DeviceError(f"run_model ended with {done.returncode}: {done.stderr[-2000:]}")
        runs = tuple(json.loads(line) for line in done.stdout.splitlines())
        outputs: dict[str, list[Tensors]] = {}
        for run in sorted(runs, key=lambda r: int(r["run"])):
            who = f"{run['process']}{run['worker']}"
            outputs.setdefault(who, []).append(read_tensors(folder / f"results.{who}.{run['run']}"))
        return Results(runs, {who: tuple(given) for who, given in outputs.items()})


def write_tensors(path: Path, tensors: Mapping[str, NDArray[Any]]) -> None:
    """Writes the format of run_model.c."""
    parts = [struct.pack("<q", len(tensors))]
    for name, array in tensors.items():
        text, data = name.encode(), np.ascontiguousarray(array)
        kind = onnx.helper.np_dtype_to_tensor_dtype(data.dtype)
        shape = np.shape(array)
        parts += [struct.pack("<q", len(text)), text, struct.pack(f"<{2 + len(shape)}q", kind, len(shape), *shape)]
        parts += [struct.pack("<q", data.nbytes), data.tobytes()]
    path.write_bytes(b"".join(parts))


def read_tensors(path: Path) -> Tensors:
    """Reads the format of run_model.c."""
    data, at, tensors = path.read_bytes(), 0, {}

    def numbers(count: int) -> tuple[int, ...]:
        nonlocal at
        at += 8 * count
        return struct.unpack_from(f"<{count}q", data, at - 8 * count)

    for _ in range(numbers(1)[0]):
        (length,) = numbers(1)
        name = data[at : at + length].decode()
        at += length
        kind, rank = numbers(2)
        shape = numbers(rank)
        (size,) = numbers(1)
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind)
        tensors[name] = np.frombuffer(data[at : at + size], dtype).reshape(shape)
        at += size
    return tensors
