"""Planned files as their runtimes read them: offsets for TensorFlow Lite Micro, and the order that a file has."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import edgemem
from edgemem.errors import EdgememError
from edgemem.formats import Model
from edgemem.targets import BUILT_IN
from tests.oracle.memory_plans.checker import Checker
from tests.oracle.memory_plans.micro_file import wrongs_of_offsets
from tests.oracle.memory_plans.onnx_file import read_onnx, reordered_onnx
from tests.oracle.memory_plans.program import Unknown
from tests.oracle.memory_plans.random_onnx import random_onnx
from tests.oracle.memory_plans.random_tflite import random_tflite
from tests.oracle.memory_plans.tflite_file import (
    offline_offsets,
    patched_offsets,
    read_tflite,
    with_operators_exchanged,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.oracle.memory_plans.campaign import Tally
    from tests.oracle.memory_plans.program import Program

__all__ = ["change_onnx_files", "change_tflite_files", "reorder_tflite"]

_ALIGNMENT = 16  # of TensorFlow Lite Micro's arena
_LARGER = "TFLM: larger than what it takes by itself"


def _well_ordered(program: Program) -> bool:
    try:
        Checker(program).stage(BUILT_IN["generic"], tuple(range(len(program.main.calls))))
    except Unknown:
        return False
    return True


def _accepted(path: Path, data: bytes, tally: Tally, what: str) -> bool:
    path.write_bytes(data)
    try:
        return not edgemem.verify(path)
    except EdgememError:
        return False
    except Exception as e:  # noqa: BLE001 -- what is no error of edgemem's is a finding
        tally.findings.append(f"{what}: verify raises {type(e).__name__}: {e}")
        return False


def change_tflite_files(seed: int, changes: int, folder: Path, tally: Tally) -> None:
    """Plans a random file for TensorFlow Lite Micro and changes what is in the file."""
    rng = Random(f"file {seed}")
    source, path = folder / f"{seed}.tflite", folder / f"{seed}.planned.tflite"
    source.write_bytes(random_tflite(rng, runs=rng.random() < 0.5))
    try:
        planset = edgemem.plan(source, target="tflm", strategy="offsets/greedy_by_size")
        written = edgemem.save(source, planset, path, offsets_only=rng.random() < 0.3)
    except EdgememError as e:
        tally.not_planned[f"{type(e).__name__}: {' '.join(str(e).split()[:4])}"] += 1
        return
    if not written:
        tally.not_planned[_LARGER] += 1
        return
    tally.graphs["tflite files"] += 1
    honest = path.read_bytes()
    if wrongs := wrongs_of_offsets(honest):
        tally.findings.append(f"file {seed}: the offsets of the planned file are wrong: {wrongs[0]}")
    elif not _accepted(path, honest, tally, f"file {seed}"):
        tally.findings.append(f"file {seed}: the planned file is refused")
    offsets = list((offline_offsets(honest) or {}).values())
    given = [k for k, offset in enumerate(offsets) if offset >= 0]
    for _ in range(changes if given else 0):
        kind, data = _changed_tflite(rng, honest, offsets, given)
        try:
            wrongs = wrongs_of_offsets(data) if _well_ordered(read_tflite(data)) else ["operators out of order"]
        except Unknown as e:
            wrongs = [str(e)]
        accepted = _accepted(path, data, tally, f"file {seed} {kind}")
        tally.changes[kind, bool(wrongs), accepted] += 1
        if wrongs and accepted:
            tally.findings.append(f"file {seed}: verify accepts {kind!r}: {wrongs[0]}")


def _changed_tflite(rng: Random, honest: bytes, offsets: list[int], given: list[int]) -> tuple[str, bytes]:
    a, b = rng.choice(given), rng.choice(given)
    top = max(offsets[k] for k in given)
    changes: dict[int, int] = {}
    match rng.randrange(7):
        case 0:
            kind, changes = "file: all offsets 0", dict.fromkeys(given, 0)
        case 1:
            kind, changes = "file: offset of another tensor", {a: offsets[b]}
        case 2:
            kind, changes = "file: two offsets exchanged", {a: offsets[b], b: offsets[a]}
        case 3:
            kind, changes = "file: offset anywhere", {a: _ALIGNMENT * rng.randrange(top // _ALIGNMENT + 3)}
        case 4:
            kind, changes = "file: offset left to the runtime", {a: -1}
        case 5:
            kind, changes = "file: offset unaligned or negative", {a: offsets[a] + rng.choice((1, 4, 8, -16, -32))}
        case _:
            count = len(read_tflite(honest).main.calls)
            k = rng.randrange(max(count - 1, 1))
            return "file: operators exchanged", with_operators_exchanged(honest, k, min(k + 1, count - 1))
    return kind, patched_offsets(honest, changes)


def change_onnx_files(seed: int, changes: int, folder: Path, tally: Tally) -> None:
    """Plans a random ONNX file and exchanges nodes of the planned file."""
    rng = Random(f"onnx file {seed}")
    source, path = folder / f"{seed}.onnx", folder / f"{seed}.planned.onnx"
    data, forms = random_onnx(rng)
    source.write_bytes(data)
    try:
        target = rng.choice(("generic", "onnxruntime", "gpu-buffer"))
        planset = edgemem.plan(source, target=target, strategy="offsets/greedy_by_size")
        edgemem.save(source, planset, path)
    except EdgememError as e:
        tally.not_planned[f"{type(e).__name__}: {' '.join(str(e).split()[:4])}"] += 1
        return
    tally.graphs["onnx files"] += 1
    honest = path.read_bytes()
    if not _accepted(path, honest, tally, f"onnx file {seed}"):
        tally.findings.append(f"onnx file {seed}: the planned file is refused")
    count = len(read_onnx(honest, shapes=forms).main.calls)
    for _ in range(changes if count > 1 else 0):
        k = rng.randrange(count - 1)
        changed = reordered_onnx(honest, k, k + 1)
        try:
            program = read_onnx(changed, shapes=forms)
            wrongs = Checker(program).wrongs(planset) if _well_ordered(program) else ["nodes out of order"]
        except KeyError:  # a body reads what is written later
            wrongs = ["nodes out of order"]
        accepted = _accepted(path, changed, tally, f"onnx file {seed}")
        tally.changes["file: nodes exchanged", bool(wrongs), accepted] += 1
        if wrongs and accepted:
            tally.findings.append(f"onnx file {seed}: verify accepts nodes {k} and {k + 1} exchanged: {wrongs[0]}")


def reorder_tflite(seed: int, folder: Path, tally: Tally) -> None:
    """Has the operators of a random file put in another order, as `order` of edgemem shrink does, and plans it."""
    rng = Random(f"reordered {seed}")
    source, path = folder / f"{seed}.tflite", folder / f"{seed}.reordered.tflite"
    data = random_tflite(rng)
    source.write_bytes(data)
    try:
        opened = edgemem.load(source)
        assert isinstance(opened, Model)
        model = opened.with_order(edgemem.order(opened, target="tflm").order)
        written = edgemem.save(model, edgemem.plan(model, target="tflm", strategy="offsets/greedy_by_size"), path)
    except EdgememError as e:
        tally.not_planned[f"{type(e).__name__}: {' '.join(str(e).split()[:4])}"] += 1
        return
    if not written:
        tally.not_planned[_LARGER] += 1
        return
    tally.graphs["reordered files"] += 1
    made = path.read_bytes()
    before, after = read_tflite(data), read_tflite(made)
    if wrongs := wrongs_of_offsets(made):
        tally.findings.append(f"reordered file {seed}: the offsets of the planned file are wrong: {wrongs[0]}")
    elif not _accepted(path, made, tally, f"reordered file {seed}"):
        tally.findings.append(f"reordered file {seed}: the planned file is refused")
    # Tensors of bodies are called after the position of the operator, which is another one now.
    elif not before.has_control and _results(before) != _results(after):
        tally.findings.append(f"reordered file {seed}: the outputs are others")


def _results(program: Program) -> list[int]:
    stage = Checker(program).stage(BUILT_IN["generic"])
    count = len(program.main.outputs)
    return stage.expected[0][-count:]
