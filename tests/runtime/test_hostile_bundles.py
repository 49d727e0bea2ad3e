"""Bundles that somebody changed: refused before a device is opened, or contained by WebGPU, each with a clear error."""

from __future__ import annotations

import copy
import hashlib
import json
import shutil
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import onnx
import pytest
from onnx import helper as make

import edgemem
from edgemem.model.tensor_ops import Concat
from edgemem.runtime.webgpu.web_bundle import write_bundle
from tests.web_bundles import Page, page
from tests.webgpu_programs import Net, Ready, classifier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray

__all__ = ["page"]  # the fixture

FILES: Final = ("program.json", "kernels.wgsl", "weights.bin")
NUMBERS: Final[tuple[Any, ...]] = (-1, 0, 1, 3, 255, 256, 4096, 2**31, 2**53, 1.5, None, "1", [], 10**30)


def convolutions() -> onnx.ModelProto:
    """Two convolutions and a classifier."""
    rng = np.random.default_rng(0)
    weights = {
        name: onnx.numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in {"a": (8, 3, 3, 3), "b": (16, 8, 3, 3), "c": (16, 10)}.items()
    }
    nodes = [
        make.make_node("Conv", ["x", "a"], ["s"], pads=[1, 1, 1, 1]),
        make.make_node("Relu", ["s"], ["t"]),
        make.make_node("Conv", ["t", "b"], ["u"], strides=[2, 2]),
        make.make_node("GlobalAveragePool", ["u"], ["v"]),
        make.make_node("Flatten", ["v"], ["w"]),
        make.make_node("MatMul", ["w", "c"], ["y"]),
    ]
    x = make.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (1, 3, 16, 16))
    y = make.make_tensor_value_info("y", onnx.TensorProto.FLOAT, (1, 10))
    graph = make.make_graph(nodes, "convolutions", [x], [y], list(weights.values()))
    return make.make_model(graph, opset_imports=[make.make_opsetid("", 17)], ir_version=8)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values in a document."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


def change_document(program: dict[str, Any], rng: np.random.Generator) -> str:
    """Put another value, or none, somewhere, or swap two passes; returns what was done."""
    found = [p for p in places(program) if p[0] != "files"]
    kind = rng.integers(8)
    if kind == 0:
        a, b = rng.choice(len(program["passes"]), 2, replace=False)
        program["passes"][a], program["passes"][b] = program["passes"][b], program["passes"][a]
        return f"passes {a} and {b}"
    *path, last = found[rng.integers(len(found))]
    holder = program
    for key in path:
        holder = holder[key]
    was = holder[last]
    if kind == 1:
        del holder[last]
    elif isinstance(was, int) and not isinstance(was, bool) and kind < 6:
        holder[last] = was + int(rng.choice([-256, -16, -4, -1, 1, 4, 16, 256]))
    else:
        holder[last] = NUMBERS[rng.integers(len(NUMBERS))]
    return f"{[*path, last]}: {was} is {holder[last] if kind != 1 else 'gone'}"[:200]


def change_bytes(data: bytes, rng: np.random.Generator) -> bytes:
    """Change, remove or add bytes."""
    changed = bytearray(data)
    at = int(rng.integers(len(changed)))
    kind = rng.integers(4)
    if kind == 0:
        del changed[at : at + int(rng.integers(1, 40))]
    elif kind == 1:
        changed[at:at] = bytes(rng.integers(32, 127, int(rng.integers(1, 40)), np.uint8))
    else:
        changed[at] ^= 1 << int(rng.integers(7))
    return bytes(changed)


def seal(folder: Path, program: dict[str, Any]) -> None:
    """Write the program with digests that fit the files."""
    for name in FILES[1:]:
        data = (folder / name).read_bytes()
        program["files"][name] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / "program.json").write_text(json.dumps(program))


class Bundle:
    """A bundle that is changed, and what the right one computes."""

    def __init__(self, page: Page, model: Any, planset: Any = None) -> None:
        self.page, self.folder = page, page.folder / "hostile"
        self.right = page.folder / "right"
        write_bundle(model, self.right, planset)
        self.digest = hashlib.sha256((self.right / "program.json").read_bytes()).hexdigest()
        self.program = json.loads((self.right / "program.json").read_text())
        rng = np.random.default_rng(0)
        self.feeds = {i["name"]: rng.standard_normal(i["shape"]).astype(np.float32) for i in self.program["inputs"]}
        assert "error" not in page.load("right", sha256=self.digest)
        self.wanted = page.run(self.feeds)

    def changed(self) -> dict[str, Any]:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.right, self.folder)
        return copy.deepcopy(self.program)

    def load(self, **options: Any) -> dict[str, Any]:
        found = self.page.load("hostile", **options)
        if "error" in found:
            assert found["kind"] == "EdgememError", found
            assert found["error"].startswith(
                ("the bundle is damaged: ", "the GPU refuses ", "this GPU is too small")
            ), found
        return found

    def outcome(self) -> dict[str, NDArray[Any]] | str:
        try:
            return self.page.run(self.feeds)
        except RuntimeError as e:
            said = str(e)
        assert said.startswith("EdgememError: "), said
        return said


def check_hostile(bundle: Bundle, cases: int, seed: int) -> dict[str, int]:
    """Change a bundle in so many ways; returns how many came to which end."""
    rng = np.random.default_rng(seed)
    ends = {"digest": 0, "refused": 0, "contained": 0, "ran": 0}
    for case in range(cases):
        program = bundle.changed()
        name = FILES[case % 3]
        file = bundle.folder / name
        is_sealed = case % 2 == 0
        what = f"case {case}: {name}"
        if not is_sealed or name != "program.json":
            file.write_bytes(change_bytes(file.read_bytes() or b"\\0", rng))
        if not is_sealed:
            found = bundle.load(sha256=bundle.digest)
            assert "error" in found, what
            assert found["devices"] == 0, what
            ends["digest"] += 1
            continue
        what += " " + (change_document(program, rng) if name == "program.json" else "")
        seal(bundle.folder, program)
        found = bundle.load()
        if "error" in found:
            ends["refused" if found["devices"] == 0 else "contained"] += 1
            continue
        assert found["bytes"] == bundle.program["plan"]["size"] or found["bytes"] == program["plan"]["size"], what
        results = bundle.outcome()
        ends["contained" if isinstance(results, str) else "ran"] += 1
    return ends


def test_changed_bundles_are_refused_or_contained(page: Page) -> None:
    ends = check_hostile(Bundle(page, classifier()), 60, 1)
    assert ends["digest"] == 30
    assert ends["refused"] > 5


@pytest.mark.full
def test_three_hundred_changed_bundles(page: Page, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(convolutions(), path)
    ends = check_hostile(Bundle(page, path), 300, 2)
    assert ends["digest"] == 150
    assert ends["refused"] > 50
    assert ends["contained"] > 10


def move_tensor(program: dict[str, Any], rng: np.random.Generator) -> None:
    tensor = program["tensors"][rng.integers(len(program["tensors"]))]
    tensor["offset"] = int(rng.integers(0, max(1, program["pieces"][0][0] // 256))) * 256


def swap_passes(program: dict[str, Any], rng: np.random.Generator) -> None:
    at = int(rng.integers(len(program["passes"]) - 1))
    program["passes"][at : at + 2] = program["passes"][at : at + 2][::-1]


def stacked() -> Ready:
    """A tensor that three passes write, one part each, beside others that come and go."""
    net = Net()
    x = net.input("x", 1, 4, 16, 8)
    parts = [net.unary(kind, kind.lower(), x) for kind in ("Sigmoid", "Tanh", "Relu")]
    joined = net.tensor("joined", 1, 4, 48, 8)
    net.op("Concat", parts, joined, Concat(inputs=tuple(parts), output=joined, axis=2))
    return net.ready(net.unary("Abs", "abs", net.unary("Exp", "exp", joined)))


@pytest.mark.parametrize("change", [move_tensor, swap_passes])
@pytest.mark.parametrize("make", [classifier, stacked])
def test_another_plan_is_refused_unless_it_is_right(
    page: Page, make: Callable[[], Ready], change: Callable[[dict[str, Any], np.random.Generator], None]
) -> None:
    """The player proves the plan: tensors elsewhere, or passes in another order, give the same bits."""
    bundle = Bundle(page, make(), edgemem.plan(make().graph(), target="gpu-buffer"))
    rng = np.random.default_rng(3)
    refused = 0
    for _ in range(40):
        program = bundle.changed()
        change(program, rng)
        seal(bundle.folder, program)
        found = bundle.load()
        if "error" in found:
            assert found["devices"] == 0
            refused += 1
            continue
        results = page.run(bundle.feeds)
        assert {k: v.tobytes() for k, v in results.items()} == {k: v.tobytes() for k, v in bundle.wanted.items()}
    assert refused > 10
