"""Branches, loops and scans of ONNX in a poisoned arena: ONNX Runtime keeps their bodies in memory of its own."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest

import edgemem
from edgemem.runtime.onnxruntime.bound_nodes import BoundNodes
from edgemem.runtime.onnxruntime.split_model import split_model

if TYPE_CHECKING:
    from pathlib import Path

ort = pytest.importorskip("onnxruntime")

POISON = 0xFF
EACH = 8
KINDS = ("If", "Loop", "Scan", "nested")


class Maker:
    """A random model in ONNX's text format: x, z are float[n], m is float[3, n], and c is a bool."""

    def __init__(self, seed: int, kind: str) -> None:
        self.rng = random.Random(f"{kind}{seed}")
        self.kind = kind
        self.n = self.rng.choice((1, 3, 17, 64))
        self.made = 0

    def name(self) -> str:
        self.made += 1
        return f"v{self.made}"

    def model(self) -> str:
        values, lines = ["x", "z"], ["trips = Constant <value = int64 {3}> ()", "yes = Constant <value = bool {1}> ()"]
        lines.append("axes = Constant <value = int64[1] {0}> ()")
        for _ in range(self.rng.randint(2, 3)):
            for _ in range(self.rng.randint(0, 2)):
                lines += self.simple(values)
            lines += self.control(values, self.kind, 0)
        lines += self.simple(values)
        outputs = list(dict.fromkeys([values[-1], self.rng.choice(values[2:])]))
        listed = ", ".join(f"float[{self.n}] {name}" for name in outputs)
        head = f"g (float[{self.n}] x, float[{self.n}] z, float[3,{self.n}] m, bool c) => ({listed})"
        return f'<ir_version: 8, opset_import: ["" : 17]> {head} {{ {" ".join(lines)} }}'

    def simple(self, values: list[str]) -> list[str]:
        one, other, new = self.rng.choice(values), self.rng.choice(values), self.name()
        values.append(new)
        binary = self.rng.random() < 0.5
        return [f"{new} = Add ({one}, {other})" if binary else f"{new} = {self.rng.choice(('Tanh', 'Relu'))} ({one})"]

    def body(self, values: list[str], depth: int) -> tuple[list[str], list[str]]:
        """Lines of a body that captures values, and all values there are then."""
        inner, lines = list(values), []
        for _ in range(self.rng.randint(1, 3)):
            lines += self.simple(inner)
        if self.kind == "nested" and depth < 1:
            lines += self.control(inner, self.rng.choice(("If", "Loop")), depth + 1)
            lines += self.simple(inner)
        return lines, inner

    def control(self, values: list[str], kind: str, depth: int) -> list[str]:
        n, kind = self.n, self.rng.choice(("If", "Loop", "Scan")) if kind == "nested" else kind
        new, other, total = self.name(), self.name(), self.name()
        if kind == "If":
            arms = []
            for side in ("then_branch", "else_branch"):
                lines, inner = self.body(values, depth)
                arms.append(f"{side} = {self.name()} () => (float[{n}] {inner[-1]}) {{ {' '.join(lines)} }}")
            values.append(new)
            return [f"{new} = If (c) <{', '.join(arms)}>"]
        state, element, go, k = self.name(), self.name(), self.name(), self.name()
        lines, inner = self.body([*values, state, *([element] if kind == "Scan" else [])], depth)
        lines += self.simple(inner)
        after, out = inner[-1], self.name()
        lines.append(f"{out} = Neg ({state})")
        taken = self.rng.choice(values)
        if kind == "Loop":
            given = f"(bool {k}, float[{n}] {after}, float[{n}] {out})"
            body = f"b (int64 {element}, bool {go}, float[{n}] {state}) => {given} {{ {k} = Identity ({go}) "
            made = f"{new}, {other} = Loop (trips, yes, {taken}) <body = {body} {' '.join(lines)} }}>"
        else:
            given = f"(float[{n}] {after}, float[{n}] {out})"
            body = f"b (float[{n}] {state}, float[{n}] {element}) => {given} {{"
            made = f"{new}, {other} = Scan <num_scan_inputs = 1, body = {body} {' '.join(lines)} }}> ({taken}, m)"
        values += [new, total]
        return [made, f"{total} = ReduceSum <keepdims = 0> ({other}, axes)"]


@pytest.mark.full
@pytest.mark.parametrize("target", ["generic", "tflm"])
@pytest.mark.parametrize("kind", KINDS)
def test_planned_as_it_is(kind: str, target: str, tmp_path: Path) -> None:
    for seed in range(EACH):
        path = tmp_path / f"{kind}{seed}.onnx"
        model = onnx.parser.parse_model(Maker(seed, kind).model())
        onnx.checker.check_model(model)
        onnx.save(model, path)
        planset = edgemem.plan(path, target=target, strategy="offsets/greedy_by_size")
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        plain = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        nodes = BoundNodes(split_model(path, planset), poison=POISON)
        rng = np.random.default_rng(seed)
        shapes = {i.name: i.shape for i in plain.get_inputs()}
        for run in range(3):
            feeds = {name: rng.standard_normal(shape).astype("f4") for name, shape in shapes.items() if name != "c"}
            feeds |= {"c": np.array(run % 2 == 0)} if "c" in shapes else {}
            for one, other in zip(nodes.run(feeds).values(), plain.run(None, feeds), strict=True):
                assert one.tobytes() == other.tobytes(), (kind, seed)
        assert nodes.report.planned == planset.best_offsets.size  # type: ignore[union-attr]
