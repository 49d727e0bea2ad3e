"""Small hostile files of every kind that a command reads: how they are made, and what is run on them.

A case is files in a folder, and a command that reads them. Some are well-formed and ask for much, some are damaged, and
some are none of what their name says.
"""

from __future__ import annotations

import io
import json
import os
import random
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from onnx import parser

import edgemem
from edgemem import planfile
from edgemem.proof import prove
from edgemem.report.memory_data import script_json
from edgemem_converters.onnx.model import OnnxConverter
from tests.fuzz.cases import load_target
from tests.fuzz.mutation import mutate_bytes, mutate_json, mutate_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["KINDS", "Case", "make_case"]

_MOST_BYTES: Final = 1 << 16  # of a file
# What reads the cache: its plans of sessions, and its rows of many models.
_READS_PLANS: Final = "run m.onnx"
_READS_ROWS: Final = "plan m.onnx --jobs 1 -o ../out/rows.csv"
_MODEL: Final = """<ir_version: 8, opset_import: ["" : 17]> g (float[1, 4] x) => (float[1, 4] y)
    { a = Exp (x)  b = Neg (a)  c = Add (a, b)  d = Relu (c)  y = Mul (d, b) }"""


@dataclass(frozen=True, slots=True)
class Case:
    """Files by name, and a command that is run where they are; it writes to `../out` and `../cache` alone."""

    kind: str
    files: Mapping[str, bytes]
    command: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind}: edgemem {' '.join(self.command)}"


@dataclass(frozen=True, slots=True)
class _Kind:
    """One kind of file.

    Attributes:
        name: of the file in the case.
        make: a hostile one.
        commands: that read it, one of which is run.
        beside: files that the commands read, too.
        is_cached: whether the file is an entry of the cache: the one that the first command writes there.
    """

    name: str
    make: Callable[[random.Random], bytes]
    commands: tuple[str, ...]
    beside: Callable[[], Mapping[str, bytes]] = dict
    is_cached: bool = False


@cache
def _model() -> bytes:
    return bytes(parser.parse_model(_MODEL).SerializeToString())


@cache
def _planned() -> bytes:
    model = OnnxConverter.from_bytes(_model())
    planset = edgemem.plan(model.graph())
    return model.with_plan(planfile.encode_all((planset,)), planset).content()


@cache
def _plan() -> bytes:
    records = [edgemem.UsageRecord(f"r{k}", k, k + 2, 16 * k) for k in range(5)]
    return planfile.encode(prove(edgemem.plan(edgemem.Problem(records))).planset)


@cache
def _seeds(target: str) -> Sequence[bytes]:
    return [seed for seed in load_target(target).seeds() if len(seed) <= _MOST_BYTES]


def _of_target(name: str) -> Callable[[random.Random], bytes]:
    """Files as a fuzzer makes them, changed several times."""

    def make(chance: random.Random) -> bytes:
        target, seeds = load_target(name), _seeds(name)
        data = chance.choice(seeds)
        for _ in range(chance.choice((1, 1, 2, 4))):
            data = target.mutate(chance, data, seeds)[:_MOST_BYTES]
        return data

    return make


def _embedded(chance: random.Random) -> bytes:
    """A model with a plan that is damaged, or of another model."""
    if chance.random() < 0.5:
        return mutate_bytes(chance, _planned(), [_model()])
    model = OnnxConverter.from_bytes(_model())
    plan = mutate_bytes(chance, _plan(), []) if chance.random() < 0.7 else _plan()
    return model.with_plan(plan, edgemem.plan(model.graph())).content()


def _page(chance: random.Random) -> bytes:
    target, seeds = load_target("report"), _seeds("report")
    data = target.mutate(chance, chance.choice(seeds), seeds)
    try:
        text = script_json(json.loads(data))
    except (ValueError, RecursionError):
        text = data.decode(errors="replace")
    return f"<!doctype html><title>x</title>{text}".encode(errors="replace")


def _timestamps(chance: random.Random) -> bytes:
    last = chance.choice((1 << 20, 1 << 40, (1 << 63) - 2, (1 << 63) - 1, 1 << 64))
    size = chance.choice((0, 1, 1 << 30, (1 << 62) - 1))
    return f"tensor,first_op,last_op,size\na,0,{last},{size}\nb,3,{last},8\n=c\n::error::x,0,1,8\n".encode()


def _csv(chance: random.Random) -> bytes:
    return _timestamps(chance) if chance.random() < 0.2 else _of_target("csv")(chance)


_SETTINGS: Final = (
    b"[[model]]\npath = 'm.onnx'\nbudget = '1KiB'\ntolerance = '2%'\n",
    b"baseline = 'x.baseline.json'\n[defaults]\ntarget = 'tflm'\n[[model]]\npath = '*.onnx'\ndims = {n = 3}\n",
    b"[[model]]\npath = 'm.onnx'\n[model.input_shapes]\nx = [1, 4]\n",
)
_WORDS: Final = (
    *(
        "'../m.onnx'",
        "'/etc/passwd'",
        "'**/**/**/*'",
        "'../../x.baseline.json'",
        "'.bashrc'",
        "baseline",
        "path",
        "[[x]]",
    ),
    *("target", "'a.toml'", "[1, -1, 1e400]", "{a = 1}", "[model.dims]", "1979-05-27", "0x7f", "inf", "'9EiB'"),
    *("a." * 40 + "b", "a." * 9000 + "b = 1\n"),
)


def _settings(chance: random.Random) -> bytes:
    return mutate_text(chance, chance.choice(_SETTINGS), _SETTINGS, _WORDS)[:_MOST_BYTES]


def _target(chance: random.Random) -> bytes:
    data = _of_target("toml")(chance)
    return data + b"\n" + b"a." * chance.choice((20, 9000)) + b"b = 1\n" if chance.random() < 0.1 else data


def _baseline(chance: random.Random) -> bytes:
    row = {"memory": 64, "arena": 64, "lower_bound": 64, "operators": 5, "peak": "a"}
    data = json.dumps({"schema_version": 1, "models": {"m.onnx": row, "\n::error::x": row}}).encode()
    return mutate_json(chance, data, [], ("::error::x", "a\nb", "memory", "m.onnx"))


def _array(chance: random.Random) -> bytes:
    """A .npy file: right, damaged, of another dtype or shape, or with a header that asks for much."""
    out = io.BytesIO()
    dtype = chance.choice(("<f4", "<f8", "|O", "<U4", "|V3", "<c8", "<M8[s]", "<f4"))
    if dtype == "|O" or chance.random() < 0.3:
        shape = chance.choice(("(1, 4)", "(1099511627776,)", "(-1, 4)", "(1, 4", "()", "(4,) * 99", "[1, 4]"))
        head = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}".encode()
        return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head + bytes(16)
    np.save(out, np.zeros((1, 4), dtype), allow_pickle=False)
    return mutate_bytes(chance, out.getvalue(), []) if chance.random() < 0.8 else out.getvalue()


def _archive(*names: str) -> Callable[[random.Random], bytes]:
    """ZIP archives with files of these names."""

    def make(chance: random.Random) -> bytes:
        out = io.BytesIO()
        method = chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2))
        with zipfile.ZipFile(out, "w", method) as archive:
            for name in names:
                archive.writestr(zipfile.ZipInfo(name), chance.randbytes(64), method)
            for k in range(chance.choice((0, 0, 3, 400))):
                archive.writestr(zipfile.ZipInfo(f"{k}/../\x1b[2J{k}"), b"")
        data = out.getvalue()
        for _ in range(chance.choice((0, 1, 3))):
            data = mutate_bytes(chance, data, [])
        return data

    return make


def _config(chance: random.Random) -> bytes:
    data = json.dumps({"model": {"type": "llama", "context_length": 1}, "search": {"chunk_size": 4}}).encode()
    return mutate_json(chance, data, [], ("model", "search", "[" * 100, "decoder"))


@cache
def _entry(command: str) -> tuple[str, bytes]:
    """What a command leaves in the cache: its name, as seen from where the command runs, and its content."""
    with tempfile.TemporaryDirectory(prefix="edgemem-entry-") as name:
        top = Path(name)
        for folder in ("in", "out", "cache"):
            (top / folder).mkdir()
        for file, data in _beside().items():
            (top / "in" / file).write_bytes(data)
        subprocess.run(
            [sys.executable, "-m", "edgemem", *command.split()],
            cwd=top / "in",
            env={**os.environ, "EDGEMEM_CACHE": str(top / "cache")},
            check=True,
            capture_output=True,
        )
        (entry,) = (file for file in (top / "cache").rglob("*") if file.is_file())
        return f"../{entry.relative_to(top)}", entry.read_bytes()


def _cached_plan(chance: random.Random) -> bytes:
    return load_target("cache").mutate(chance, _entry(_READS_PLANS)[1], _seeds("cache"))


def _cached_row(chance: random.Random) -> bytes:
    return mutate_json(chance, _entry(_READS_ROWS)[1], [], ("figures", "document", "../out/x", "::error::x", "status"))


def _beside() -> Mapping[str, bytes]:
    return {"m.onnx": _model(), "p.onnx": _planned()}


KINDS: Final[Mapping[str, _Kind]] = {
    "onnx": _Kind(
        "h.onnx",
        _of_target("onnx"),
        (
            "plan h.onnx",
            "plan h.onnx --no-record -o ../out/p.onnx",
            "verify h.onnx",
            "report h.onnx -o ../out/r.html",
            "diff h.onnx m.onnx",
        ),
        _beside,
    ),
    "tflite": _Kind(
        "h.tflite",
        _of_target("tflite"),
        ("plan h.tflite", "plan h.tflite -o ../out/p.tflite", "verify h.tflite", "report h.tflite -o ../out/r.md"),
    ),
    "plan": _Kind(
        "h.edgemem",
        _of_target("plan"),
        (
            "show h.edgemem --profile --tensors",
            "show h.edgemem --json",
            "verify h.edgemem",
            *(f"export h.edgemem -f {form}" for form in ("csv", "json", "c-header")),
            *(f"report h.edgemem -o ../out/r.{form}" for form in ("json", "html", "svg", "md", "pftrace")),
        ),
    ),
    "embedded": _Kind(
        "h.onnx",
        _embedded,
        ("show h.onnx --profile", "verify h.onnx", "verify --run h.onnx", "run h.onnx", "export h.onnx -f json"),
    ),
    "csv": _Kind(
        "h.csv",
        _csv,
        (
            "plan h.csv --effort fast",
            "plan h.csv --effort fast -o ../out/p.edgemem",
            *(f"report h.csv -o ../out/r.{form}" for form in ("json", "html", "svg", "pftrace")),
        ),
    ),
    "target": _Kind("h.toml", _target, ("plan m.onnx -t h.toml", "plan m.onnx -t h.toml -o ../out/p.edgemem"), _beside),
    "settings": _Kind(
        "h.toml",
        _settings,
        ("check h.toml", "check h.toml --update --baseline ../out/b", "check h.toml --github"),
        _beside,
    ),
    "baseline": _Kind(
        "s.baseline.json",
        _baseline,
        ("check s.toml", "check s.toml --github", "check s.toml --json", "check s.toml --markdown"),
        lambda: {**_beside(), "s.toml": b"[[model]]\npath = 'm.onnx'\n"},
    ),
    "array": _Kind("h.npy", _array, ("run m.onnx --input x=h.npy", "run p.onnx --input x=h.npy"), _beside),
    "snapshot": _Kind("h.pickle", _of_target("snapshot"), ("trace h.pickle", "trace h.pickle -o ../out/p.edgemem")),
    "trace": _Kind("h.npz", _of_target("trace"), ("trace h.npz", "trace h.npz --json")),
    "page": _Kind("h.html", _page, ("diff h.html m.onnx", "diff m.onnx h.html --json"), _beside),
    "apk": _Kind(
        "h.apk",
        _archive("AndroidManifest.xml", "classes.dex", "assets/model.onnx", "assets/edgemem.json"),
        ("android verify h.apk",),
    ),
    "aar": _Kind(
        "h.aar",
        _archive("classes.jar", "jni/x86_64/libonnxruntime.so"),
        ("android aar --onnxruntime h.aar -o ../out/e.aar",),
        _beside,
    ),
    "cached plan": _Kind("", _cached_plan, (_READS_PLANS,), _beside, is_cached=True),
    "cached row": _Kind("", _cached_row, (_READS_ROWS,), _beside, is_cached=True),
    "config": _Kind("h.json", _config, ("fit m.onnx --budget 1GiB --no-run -o h.json",), _beside),
}


def make_case(kind: str, seed: int) -> Case:
    """The same case for the same seed."""
    chance, about = random.Random(f"{kind} {seed}"), KINDS[kind]
    data = chance.randbytes(chance.choice((0, 1, 64))) if chance.random() < 0.03 else about.make(chance)
    command = chance.choice(about.commands)
    name = _entry(about.commands[0])[0] if about.is_cached else about.name
    return Case(kind, {**about.beside(), name: data}, tuple(command.split()))
