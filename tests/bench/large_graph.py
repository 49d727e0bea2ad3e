"""How the stages of planning grow with the number of operators: a generated ONNX model, timed stage by stage.

python tests/bench/large_graph.py [NODES ...] [--strategy greedy_by_size] [--order] [--keep MODEL.onnx]
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import onnx
from onnx import TensorProto, helper

sys.path.append(str(Path(__file__).resolve().parents[2]))

from edgemem import api, formats
from edgemem.formats import Model
from edgemem.model.graph import Graph, digest
from edgemem.model.steps import steps_of
from edgemem.proof import verify_planset
from edgemem.records.lifetime import lifetimes
from edgemem.schedule.order import find_order
from edgemem.targets import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.plans import PlanSet


def large_model(nodes: int, *, seed: int = 1) -> onnx.ModelProto:
    """A chain with branches of 1 to 8 operators, in total `nodes` operators.

    A branch leaves the chain, changes size on its way and is added to the chain again. Names are paths, as exporters
    of PyTorch write them.
    """
    rng = random.Random(seed)
    made: list[onnx.NodeProto] = []
    constants = [helper.make_tensor("zero", TensorProto.INT64, [1], [0])]

    def add(kind: str, *inputs: str, **attributes: int) -> str:
        name = f"/block{len(made) // 100}/{kind}_{len(made)}"
        output = "y" if len(made) == nodes - 1 else f"{name}_output_0"
        made.append(helper.make_node(kind, list(inputs), [output], name, None, None, None, **attributes))
        return output

    trunk = "x"
    while len(made) < nodes:
        length = rng.randint(1, 8)
        if nodes - len(made) <= 2 * length + 2:
            trunk = add(rng.choice(("Relu", "Sigmoid")), trunk)
            continue
        branch = trunk
        for _ in range(length):
            branch = add(rng.choice(("Relu", "Tanh", "Softmax")), branch)
        wide = add("Concat", branch, branch, axis=1)
        small = add("ReduceMean", wide, keepdims=1)
        for _ in range(rng.randint(0, length - 1)):
            trunk = add(rng.choice(("Relu", "Softmax")), trunk)
        trunk = add("Add", trunk, small)
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 8, 4, 4]) for n in ("x", "y")]
    graph = helper.make_graph(made, "large", ends[:1], ends[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])


@contextmanager
def stage(name: str, rows: list[tuple[str, float]]) -> Iterator[None]:
    begin = time.perf_counter()
    yield
    rows.append((name, time.perf_counter() - begin))


def timed(path: Path, folder: Path, strategy: str, *, order: bool) -> list[tuple[str, float]]:
    """Seconds of every stage from the file to the planned file."""
    rows: list[tuple[str, float]] = []
    rules = BUILT_IN["generic"]
    with stage("parse", rows):
        model = formats.load(path)
    assert isinstance(model, Model)
    with stage("infer", rows):
        graph = model.graph()
    with stage("validate", rows):
        Graph(graph.name, graph.tensors, graph.ops, graph.inputs, graph.outputs, graph.layout)
    with stage("digest", rows):
        digest(graph)
    with stage("steps", rows):
        steps_of(graph)
    with stage("lifetimes", rows):
        lifetimes(graph, rules)
    with stage("plan and prove", rows):
        planset: PlanSet = api.plan(model, target=rules, strategy=strategy)
    with stage("proof alone", rows):
        assert not verify_planset(planset, graph)
    with stage("save", rows):
        api.save(model, planset, folder / "planned.onnx")
    if order:
        with stage("order", rows):
            found = find_order(graph, rules)
        print(f"peak {found.given_peak:,} -> {found.peak:,} bytes, bound {found.lower_bound:,}, by {found.method}")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("nodes", nargs="*", type=int, default=[2500, 5000, 10_000])
    parser.add_argument("--strategy", default="auto", help="as for `edgemem plan`")
    parser.add_argument("--order", action="store_true", help="look for an order of the operators, too")
    parser.add_argument("--keep", type=Path, help="save the last model here")
    args = parser.parse_args()
    columns: list[list[tuple[str, float]]] = []
    with tempfile.TemporaryDirectory(prefix="edgemem-") as name:
        for nodes in args.nodes:
            path = Path(name) / f"large{nodes}.onnx"
            onnx.save(large_model(nodes), path)
            columns.append(timed(path, Path(name), args.strategy, order=args.order))
        if args.keep:
            onnx.save(large_model(args.nodes[-1]), args.keep)
    print(f"{'seconds':16}" + "".join(f"{nodes:>10}" for nodes in args.nodes) + f"{'growth':>10}")
    for rows in zip(*columns, strict=True):
        growth = rows[-1][1] / max(rows[0][1], 1e-9)
        print(f"{rows[0][0]:16}" + "".join(f"{seconds:10.3f}" for _, seconds in rows) + f"{growth:9.1f}x")


if __name__ == "__main__":
    main()
