"""Runs a model in ONNX Runtime as a whole, operator by operator, and by its tensor operations in NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, TensorProto, helper, numpy_helper

from edgemem.formats import Bindings
from edgemem_converters.onnx import OnnxConverter
from tests.oracle.tensor_ops import evaluate, run_program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from edgemem.model.tensor_ops import TensorOp, TensorProgram

__all__ = ["by_operators", "check_alike", "differences", "fed", "mixed", "one", "outcome", "program_of", "session"]


def one(
    op_type: str,
    inputs: Sequence[NDArray[Any] | None],
    outputs: int | Sequence[str] = 1,
    *,
    fixed: Sequence[int] = (),
    opset: int = 17,
    domain: str = "",
    elems: Sequence[int] = (),
    **attributes: Any,
) -> tuple[ModelProto, dict[str, NDArray[Any]]]:
    """A model of one node, and its feeds.

    Args:
        op_type: of the node.
        inputs: values; None for an absent one.
        outputs: how many, or their names.
        fixed: the inputs that are initializers, as far as they are there.
        opset: of ONNX's operators.
        domain: of the node.
        elems: element types of the outputs, float if it is shorter.
        attributes: of the node.
    """
    names = ["" if value is None else f"i{k}" for k, value in enumerate(inputs)]
    made = [f"o{k}" for k in range(outputs)] if isinstance(outputs, int) else list(outputs)
    node = helper.make_node(op_type, names, made, domain=domain, **attributes)
    given = {f"i{k}": value for k, value in enumerate(inputs) if value is not None and k not in fixed}
    infos = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for n, v in given.items()
    ]
    kinds = [*elems, *[TensorProto.FLOAT] * (len(made) - len(elems))]
    graph = helper.make_graph(
        [node],
        "g",
        infos,
        [helper.make_tensor_value_info(n, e, None) for n, e in zip(made, kinds, strict=True) if n],
        [numpy_helper.from_array(value, f"i{k}") for k, value in enumerate(inputs) if value is not None and k in fixed],
    )
    imports = [helper.make_opsetid("", opset), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(graph, opset_imports=imports, ir_version=8 if opset < 20 else 10), given


def session(model: bytes) -> onnxruntime.InferenceSession:
    """A session that computes what the file says, without rewriting it."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def program_of(model: ModelProto, **dims: int) -> TensorProgram:
    """The tensor operations of a model."""
    return OnnxConverter.from_bytes(model.SerializeToString(), Bindings(dims=dims)).program()


def outcome(program: TensorProgram, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[np.float32]]:
    """The graph's outputs by its tensor operations."""
    number = {t.name: k for k, t in enumerate(program.graph.tensors)}
    found = run_program(program, {number[n]: v for n, v in feeds.items()})
    outputs = program.graph.outputs
    return {program.graph.tensors[k].name: found[k] if k in found else program.constants[k] for k in outputs}


def mixed(
    model: ModelProto, feeds: Mapping[str, NDArray[Any]], **dims: int
) -> tuple[dict[str, NDArray[Any]], set[str]]:
    """The graph's outputs by tensor operations, and in ONNX Runtime where an operator has none; and why it has none."""
    opened = OnnxConverter.from_bytes(model.SerializeToString(), Bindings(dims=dims))
    program = opened.program()
    graph, reasons = program.graph, set()
    number = {t.name: k for k, t in enumerate(graph.tensors)}
    values: dict[int, NDArray[Any]] = {**program.constants, **{number[n]: v for n, v in feeds.items()}}
    for k, step in enumerate(program.steps):
        if isinstance(step, str):
            reasons.add(step)
            runner = session(opened.operator_model(k))
            given = {i.name: number[i.name] for i in runner.get_inputs()}
            names = [o.name for o in runner.get_outputs()]
            made = runner.run(names, {n: values[i].astype(graph.tensors[i].dtype) for n, i in given.items()})
            values |= {number[n]: value for n, value in zip(names, made, strict=True)}
        else:
            for op in step:
                values[op.output] = evaluate(op, values, graph.tensors[op.output].shape, graph.layout)
    return {graph.tensors[k].name: values[k] for k in graph.outputs}, reasons


def by_operators(model: ModelProto, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The graph's outputs by models of one operator each."""
    opened = OnnxConverter.from_bytes(model.SerializeToString(), Bindings())
    graph, opset = opened.graph(), model.opset_import[0].version
    known = opened.program().constants.keys() | {k for k, t in enumerate(graph.tensors) if t.kind == "constant"}
    values: dict[str, NDArray[Any]] = dict(feeds)
    for k, op in enumerate(graph.ops):
        data = opened.operator_model(k)
        if ":" not in op.type and onnx.defs.has(op.type, opset):
            onnx.checker.check_model(onnx.load_from_string(data))
        runner = session(data)
        made = [graph.tensors[index].name for index in op.outputs if index >= 0]
        assert [o.name for o in runner.get_outputs()] == made
        reads = dict.fromkeys(index for index in op.inputs if index >= 0)
        assert [i.name for i in runner.get_inputs()] == [graph.tensors[i].name for i in reads if i not in known]
        values |= dict(zip(made, runner.run(None, {i.name: values[i.name] for i in runner.get_inputs()}), strict=True))
    return {graph.tensors[k].name: values[graph.tensors[k].name] for k in graph.outputs}


def fed(model: ModelProto, feeds: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """The graph's outputs in ONNX Runtime."""
    runner = session(model.SerializeToString())
    names = [o.name for o in runner.get_outputs()]
    return dict(zip(names, runner.run(names, dict(feeds)), strict=True))


def check_alike(
    model: ModelProto, feeds: Mapping[str, NDArray[Any]], tolerance: float = 1e-5
) -> list[tuple[TensorOp, ...]]:
    """Assert that all three ways give the same, and that each operator has tensor operations; returns these.

    `tolerance` is a share of the largest number of an output, or of 1 if that is larger.
    """
    program = program_of(model)
    steps = [step for step in program.steps if not isinstance(step, str)]
    assert len(steps) == len(program.steps), program.steps
    expected = fed(model, feeds)
    for found in (outcome(program, feeds), by_operators(model, feeds)):
        assert list(found) == list(expected)
        assert max(differences(found, expected).values()) <= tolerance
    return steps


def differences(found: Mapping[str, NDArray[Any]], expected: Mapping[str, NDArray[Any]]) -> dict[str, float]:
    """The largest difference of each output, as a share of its largest number, or of 1 if that is larger.

    Outputs of other shapes, and finite numbers in the place of others, differ infinitely.
    """
    shares = {}
    for name, value in expected.items():
        made, wanted = np.asarray(found[name], dtype=np.float64), value.astype(np.float64)
        finite = np.isfinite(wanted)
        if made.shape != wanted.shape or not np.array_equal(np.isfinite(made), finite):
            shares[name] = np.inf
            continue
        largest = max(1.0, float(np.abs(wanted[finite]).max(initial=0)))
        shares[name] = float(np.abs(made - wanted)[finite].max(initial=0)) / largest
    return shares
