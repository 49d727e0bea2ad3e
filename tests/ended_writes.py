"""Ends a command at its system calls that write, one run each: is the output then the old file or the finished one?

    python -m tests.ended_writes            all commands, all system calls, both signals: some minutes
    python -m tests.ended_writes plan       one of them

strace sends the signal when the call begins. Only calls that name the output's folder, or a file in it, count.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import onnx
from onnx import TensorProto, helper

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["COMMANDS", "SIGNALS", "Writing", "end_at", "has_strace", "places_of"]

SIGNALS: Final = ("SIGKILL", "SIGTERM")
OLD: Final = b"what was there before"
_CALLS: Final = (
    "openat,write,pwrite64,rename,renameat,renameat2,link,linkat,unlink,unlinkat,ftruncate,fsync,fdatasync,mkdir,"
    "mkdirat,symlink,symlinkat,chmod,fchmod,fchmodat"
)
_OPENED_TO_READ: Final = re.compile(r"openat\(.*O_RDONLY")


@dataclass(frozen=True, slots=True)
class Writing:
    """A command that writes.

    Attributes:
        arguments: of `edgemem`; OUT is the folder of outputs, IN that of inputs.
        outputs: the files that it writes, in OUT; () for whatever it writes there.
        has_old: whether OLD is in each of them before.
        has_threads: threads or other processes write them.
    """

    arguments: str
    outputs: tuple[str, ...]
    has_old: bool = True
    has_threads: bool = False


COMMANDS: Final = {
    "plan": Writing("plan IN/model.onnx -o OUT/planned.onnx", ("planned.onnx",)),
    "mapped": Writing("plan IN/product.onnx --weights mapped -o OUT/planned.onnx", ("planned.onnx",)),
    "outside": Writing("plan IN/outside.onnx --no-record -o OUT/planned.onnx", ("planned.onnx",)),
    "edgemem": Writing("plan IN/model.onnx -o OUT/plan.edgemem", ("plan.edgemem",)),
    "shrink": Writing("shrink IN/model.onnx --steps optimize=basic -o OUT/shrunk.onnx", ("shrunk.onnx",)),
    "export": Writing("export IN/planned.onnx -f json -o OUT/plan.json", ("plan.json",)),
    "report": Writing("report IN/model.onnx -o OUT/report.html", ("report.html",)),
    "check": Writing("check OUT/models.toml --update", ("models.baseline.json",), has_old=False),
    "table": Writing("plan IN/models --cache none -o OUT/rows.csv", ("rows.csv",)),
    "cache": Writing("plan IN/models --cache OUT/cache", (), has_old=False, has_threads=True),
}


def has_strace() -> bool:
    """Whether strace may trace here."""
    program = shutil.which("strace")
    return (
        program is not None and not subprocess.run([program, "-qq", "-o", os.devnull, "true"], check=False).returncode
    )


def make_inputs(folder: Path) -> None:
    """The models that commands read, and one with a plan."""
    import numpy as np

    value = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 64]) for n in "xz"]

    def save(name: str, nodes: Sequence[onnx.NodeProto], constants: Sequence[onnx.TensorProto] = ()) -> onnx.ModelProto:
        graph = helper.make_graph(nodes, "g", value[:1], value[1:], constants)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        onnx.save(made, folder / name)
        return made

    both = [helper.make_node("Abs", ["x"], ["y"]), helper.make_node("Neg", ["y"], ["z"])]
    save("model.onnx", both)
    save("models/a.onnx", both)
    weights = onnx.numpy_helper.from_array(np.full((64, 64), 0.01, np.float32), "w")
    product = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Neg", ["y"], ["z"])]
    made = save("product.onnx", product, [weights])
    outside = folder / "outside.onnx"
    onnx.save_model(made, outside, save_as_external_data=True, location="outside.bin", size_threshold=0)
    _run("plan", str(folder / "model.onnx"), "-o", str(folder / "planned.onnx"))


def _run(*arguments: str, before: Sequence[str] = ()) -> subprocess.CompletedProcess[bytes]:
    command = [*before, sys.executable, "-m", "edgemem", *arguments]
    return subprocess.run(command, capture_output=True, check=False, stdin=subprocess.DEVNULL)


def _fresh(writing: Writing, out: Path, inputs: Path) -> list[str]:
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    if "models.toml" in writing.arguments:
        shutil.copy(inputs / "model.onnx", out)
        (out / "models.toml").write_text("[[model]]\npath = 'model.onnx'\n")
    for name in writing.outputs if writing.has_old else ():
        (out / name).write_bytes(OLD)
    return writing.arguments.replace("OUT", str(out)).replace("IN", str(inputs)).split()


def _contents(out: Path) -> dict[str, bytes]:
    return {str(p.relative_to(out)): p.read_bytes() for p in sorted(out.rglob("*")) if p.is_file()}


def _without_costs(name: str, content: bytes) -> bytes:
    """A table without its last two columns, which say what a row took; other files as they are."""
    if name.endswith(".csv"):
        return b"\n".join(line.rpartition(b",")[0].rpartition(b",")[0] for line in content.splitlines())
    return re.sub(rb'"(cpu_s|peak)": [0-9.e-]+', b"", content) if name.startswith("cache") else content


def places_of(writing: Writing, out: Path, inputs: Path) -> tuple[dict[str, bytes], list[tuple[str, int]]]:
    """What an undisturbed run leaves in the folder, and its calls that write there: each name with its number."""
    log = out.parent / "log"
    before = [
        "strace",
        *(["-f"] if writing.has_threads else []),
        "-qq",
        "-y",
        "-o",
        str(log),
        "-s",
        "0",
        "-e",
        f"trace={_CALLS}",
    ]
    done = _run(*_fresh(writing, out, inputs), before=before)
    assert done.returncode == 0, done.stderr.decode()
    seen: dict[str, int] = {}  # of each thread where there are several, as strace counts
    places = []
    for line in log.read_text(errors="replace").splitlines():
        call = line.partition("(")[0]
        seen[call] = seen.get(call, 0) + 1
        if str(out) in line and not _OPENED_TO_READ.search(line):
            places.append((call.split()[-1], seen[call]))
    return _contents(out), list(dict.fromkeys(places))


def end_at(
    writing: Writing, out: Path, inputs: Path, place: tuple[str, int], signal: str, finished: dict[str, bytes]
) -> str:
    """End the command at a place; what is wrong with what it leaves, or ""."""
    name, number = place
    inject = f"inject={name}:signal={signal}:when={number}"
    before = [
        "strace",
        *(["-f"] if writing.has_threads else []),
        "-qq",
        "-o",
        os.devnull,
        "-e",
        f"trace={name}",
        "-e",
        inject,
    ]
    arguments = _fresh(writing, out, inputs)
    old = _contents(out)
    _run(*arguments, before=before)
    for file, content in _contents(out).items():
        if Path(file).name.startswith(".edgemem-") or "/.edgemem-" in f"/{file}":
            if signal != "SIGKILL":
                return f"{file} is left"
            continue
        allowed = [_without_costs(file, each[file]) for each in (old, finished) if file in each]
        if _without_costs(file, content) not in allowed:
            return f"{file} is neither the old file nor the finished one ({len(content)} bytes)"
    gone = [file for file in old if not (out / file).exists()]
    return f"{gone[0]} is gone" if gone else ""


def _all_ends(name: str, folder: Path, inputs: Path) -> Iterator[tuple[str, str]]:
    writing, out = COMMANDS[name], folder / "out"
    finished, places = places_of(writing, out, inputs)
    for place in places:
        for signal in SIGNALS:
            yield f"{name} {place[0]} {place[1]} {signal}", end_at(writing, out, inputs, place, signal, finished)


def main(names: Sequence[str]) -> int:
    """End all commands everywhere, and print what is wrong; the number of wrong ends."""
    count = wrong = 0
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text).resolve()
        make_inputs(folder / "in")
        for name in names or COMMANDS:
            before = count
            for what, found in _all_ends(name, folder, folder / "in"):
                count += 1
                if found:
                    wrong += 1
                    sys.stdout.write(f"{what}: {found}\n")
            sys.stdout.write(f"{name}: {count - before} ends\n")
            sys.stdout.flush()
    sys.stdout.write(f"{count} ends, {wrong} wrong\n")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
