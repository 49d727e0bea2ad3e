"""Models that Vela compiled, and their offsets changed, against arenas whose bytes have owners."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, cast

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from click.testing import CliRunner, Result

from edgemem import api
from edgemem.cli.main import main
from edgemem.errors import ModelError, NoPlanError, UnsupportedError
from edgemem.formats import Bindings
from edgemem.planning.vela_offsets import ETHOS_U, examine_vela
from edgemem.planning.verification import right_plan, verdict_of
from edgemem.proof import Cause
from edgemem_converters.tflite import TfliteConverter
from models.tflite_net import TfliteNet
from models.tflite_networks import mobilenet_v1, mobilenet_v2
from tests.tflite_models import M, O, S, T, build

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from edgemem.model.graph import Graph


def _mixed() -> bytes:
    """Three parts for the Ethos-U, operators of the processor between them; the last reads `kept` and an input."""
    net = TfliteNet(int8=True)
    image, late = net.input("image", 16, 16, 4), net.input("late", 16, 16, 8)
    kept = net.conv("kept", image, 8, 3, relu6=True)
    deep = net._value("deep", kept.seen.reshape(-1, 8, 8, 32), kept.scale)
    to_depth, to_space = schema.SpaceToDepthOptionsT(), schema.DepthToSpaceOptionsT()
    to_depth.blockSize = to_space.blockSize = 2
    net._operator("SPACE_TO_DEPTH", to_depth, [kept.index], deep.index, version=1)
    middle = net.conv("middle", deep, 32, 3, relu6=True)
    wide = net._value("wide", middle.seen.reshape(-1, 16, 16, 8), middle.scale)
    net._operator("DEPTH_TO_SPACE", to_space, [middle.index], wide.index, version=1)
    return net.content(net.add("sum", net.add("both", wide, kept), late), middle)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiled models: `v1` has a fast scratch tensor, `v2` is one operator, `mixed` has operators of both."""
    pytest.importorskip("ethosu.vela")
    folder = tmp_path_factory.mktemp("vela")
    shape = {"alpha": 0.25, "size": 32, "classes": 10, "int8": True}
    for name, content, options in (
        ("v1", mobilenet_v1(**shape), ("ethos-u65-256", "Dedicated_Sram")),  # type: ignore[arg-type]
        ("v2", mobilenet_v2(**shape), ("ethos-u55-128", "Shared_Sram")),  # type: ignore[arg-type]
        ("mixed", _mixed(), ("ethos-u55-128", "Sram_Only")),
    ):
        (folder / f"{name}.tflite").write_bytes(content)
        flags: tuple[str | Path, ...] = (
            "--accelerator-config",
            options[0],
            "--memory-mode",
            options[1],
            "--output-dir",
            folder,
        )
        path = folder / f"{name}.tflite"
        subprocess.run([sys.executable, "-m", "ethosu.vela", path, *flags], check=True, capture_output=True)
    return folder


def run(*args: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in args])


def _opened(path: Path) -> tuple[TfliteConverter, Graph, dict[str, int]]:
    model = TfliteConverter.open(path, Bindings())
    graph = model.compiled_graph()
    assert graph is not None
    return model, graph, model.offline()


def _changed(path: Path, name: str, offset: int) -> Path:
    """A copy of the file in which a tensor has another offset."""
    model, graph, _ = _opened(path)
    data = cast("bytes", model.offline_metadata())
    numbers = np.frombuffer(data, "<i4").copy()
    numbers[3 + [t.name for t in graph.tensors].index(name)] = offset
    content = path.read_bytes()
    assert content.count(data) == 1
    changed = path.with_name(f"{name}_{offset}.tflite")
    changed.write_bytes(content.replace(data, numbers.tobytes()))
    return changed


def test_offsets_of_vela_are_right(folder: Path) -> None:
    for name in ("v1", "v2", "mixed"):
        verdict = verdict_of(folder / f"{name}_vela.tflite")
        assert verdict.violations == ()
        summary = next(folder.glob(f"{name}_summary_*.csv")).read_text(encoding="utf-8").splitlines()
        (row,) = csv.DictReader(summary)
        assert verdict.planset.plans[0].size == float(row["sram_memory_used"]) * 1024


def test_what_is_not_checked_is_said(folder: Path) -> None:
    text = " ".join(run("verify", folder / "mixed_vela.tflite").output.split())
    assert "3 of ethos-u: what they read and write lies in the scratch tensor" in text
    assert "unchecked the commands of ethos-u operators" in text
    assert "unchecked that commands keep 3 tensors needed later, such as 'kept'" in text
    assert "fast scratch" not in text
    assert "unchecked what lies in the fast scratch" in " ".join(
        run("verify", folder / "v1_vela.tflite").output.split()
    )


@pytest.mark.parametrize(
    ("name", "offset", "causes"),
    [
        ("wide", 2048, {Cause.OVERLAP}),  # on `kept`, which the last operator reads
        ("middle", 5120, {Cause.OVERLAP}),  # on `wide`, which the processor makes of it
        ("sum", 4096, {Cause.OVERLAP}),  # on `middle`, another output
        ("image", 0, {Cause.OVERLAP}),  # on `late`, another input
        ("middle", 8200, {Cause.MISALIGNED}),
        ("sum", 10256, {Cause.NOT_WITHIN}),  # 16 bytes beyond the end of the scratch tensor
        ("image", 1 << 20, {Cause.NOT_WITHIN}),
        ("scratch", 16, {Cause.NOT_WITHIN, Cause.OVERLAP}),  # and `late` lies across its beginning
        ("deep", -1, {Cause.MISSING_TENSOR}),
        ("scratch", -1, {Cause.MISSING_TENSOR}),
    ],
)
def test_changed_offsets_are_found(folder: Path, name: str, offset: int, causes: set[Cause]) -> None:
    path = _changed(folder / "mixed_vela.tflite", name, offset)
    assert {v.cause for v in api.verify(path)} == causes
    assert run("verify", path).exit_code == 4


def _faults(graph: Graph, offsets: Mapping[str, int]) -> Iterator[str]:
    """What goes wrong in an arena each byte of which has the name of the tensor that wrote it last."""
    arena = np.full(1 << 14, -1)
    size = {t.name: t.size for t in graph.tensors}
    at = {
        i: slice(offsets[t.name], offsets[t.name] + size[t.name])
        for i, t in enumerate(graph.tensors)
        if t.name in offsets
    }
    for i in (i for i in graph.inputs if graph.tensors[i].name != "scratch"):
        arena[at[i]] = i
    for op in graph.ops:
        is_npu = op.type == ETHOS_U
        reads = [i for i in (op.inputs[4:] if is_npu else op.inputs) if i in at]
        for i in reads:
            if (arena[at[i]] != i).any():
                yield f"{op.name} reads {i}, overwritten"
        for i in op.outputs:
            arena[at[i]] = i
        if not is_npu and any((arena[at[i]] != i).any() for i in reads):
            yield f"{op.name} writes over what it reads"
        low, high = (at[op.inputs[2]].start, at[op.inputs[2]].stop) if is_npu else (0, arena.size)
        if is_npu and any(at[i].start < low or at[i].stop > high for i in (*reads, *op.outputs)):
            yield f"{op.name} reads or writes outside its scratch tensor"
    if any((arena[at[i]] != i).any() for i in graph.outputs):
        yield "an output is overwritten"


def test_verdicts_are_those_of_arenas_with_owned_bytes(folder: Path) -> None:
    _, graph, offsets = _opened(folder / "mixed_vela.tflite")
    rng = np.random.default_rng(0)
    names = [name for name in offsets if name != "scratch"]
    seen: Counter[bool] = Counter()
    for _ in range(1000):
        changed = dict(offsets)
        for name in rng.choice(names, rng.integers(1, 4), replace=False).tolist():
            changed[name] = int(rng.integers(0, 21)) * 512
        is_right = not examine_vela(graph, changed).violations
        assert is_right == (not list(_faults(graph, changed))), changed
        seen[is_right] += 1
    assert min(seen[True], seen[False]) > 50


def test_other_commands_refuse_compiled_models(folder: Path) -> None:
    path = folder / "mixed_vela.tflite"
    with pytest.raises(UnsupportedError, match=r"compiled for an Arm Ethos-U.*before Vela"):
        api.plan(path)
    with pytest.raises(UnsupportedError, match=r"compiled for an Arm Ethos-U.*before Vela"):
        right_plan(path)
    assert "only an Arm Ethos-U runs its commands" in run("verify", "--run", path).output


def test_models_without_offsets_or_scratch(tmp_path: Path) -> None:
    tensors = [T("x"), T("scratch", "uint8", (1, 64)), T("commands", "uint8", data=bytes(4)), T("y")]
    path = tmp_path / "compiled.tflite"
    path.write_bytes(build(M([S(tensors, [O(ETHOS_U, (2, 2, 1, 1, 0), (3,))], (0,), (3,))])))
    with pytest.raises(NoPlanError, match="none of the offsets that Vela writes"):
        api.verify(path)
    entry = {"OfflineMemoryAllocation": np.array([1, 0, 4, 0, 0, -1, 0], "<i4").tobytes()}
    for inputs in ((2, 2), (2, 2, 2, 1, 0)):
        path.write_bytes(build(M([S(tensors, [O(ETHOS_U, inputs, (3,))], (0,), (3,))], entry)))
        with pytest.raises(ModelError, match="no scratch tensor"):
            api.verify(path)
    entry = {"OfflineMemoryAllocation": np.array([1, 0, 3, 0, 0, -1], "<i4").tobytes()}
    path.write_bytes(build(M([S(tensors, [O(ETHOS_U, (2, 2, 1, 1, 0), (3,))], (0,), (3,))], entry)))
    with pytest.raises(ModelError, match="Vela keeps the offsets of a model that is planned"):
        api.verify(path)
