"""Sizes against results: what is inferred for onnx's own test cases is what their expected outputs have.

Two readings of each case: with its inputs as inputs, and with them as initializers, so that sizes follow from values.
The file says nothing about the outputs in either. A size may be unknown, since some follow from data; it may not be
wrong. (onnx's own inference is, for Split, Squeeze and STFT.)
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
import onnx
import pytest
from onnx import TensorProto, numpy_helper

from edgemem.errors import UnknownShapeError, UnsupportedError
from edgemem.formats import Bindings
from edgemem_converters.onnx.model import OnnxConverter
from tests import extent

if TYPE_CHECKING:
    from pathlib import Path

    from onnx.backend.test.case.test_case import TestCase

PLAIN = (
    *(TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE),
    *(TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL),
)


@pytest.fixture(scope="module")
def cases() -> list[TestCase]:
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the cases divide by zero on purpose
        found: list[TestCase] = collect_testcases("")
    return found


@pytest.mark.full
@pytest.mark.parametrize(("as_constants", "at_least"), [(False, 1500), (True, 1800)])
def test_no_size_is_wrong(cases: list[TestCase], tmp_path: Path, as_constants: bool, at_least: int) -> None:
    """A quarter of the cases without `--exhaustive`."""
    wrong, known = [], 0
    for case in cases if extent.exhaustive else cases[::4]:
        for inputs, outputs in case.data_sets or ():
            model = onnx.ModelProto()
            model.CopyFrom(case.model)
            del model.graph.value_info[:]
            for value in model.graph.output:
                if value.type.HasField("tensor_type"):
                    value.type.tensor_type.ClearField("shape")
            for value, array in zip(list(model.graph.input), inputs, strict=False) if as_constants else ():
                if value.type.tensor_type.elem_type in PLAIN and isinstance(array, np.ndarray | np.generic):
                    model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), value.name))
                    model.graph.input.remove(value)
            path = tmp_path / "model.onnx"
            path.write_bytes(model.SerializeToString())
            try:
                graph = OnnxConverter.open(path, Bindings()).graph()
            except (UnknownShapeError, UnsupportedError):
                continue
            known += 1
            for index, array in zip(graph.outputs, outputs, strict=False):
                tensor = graph.tensors[index]
                if tensor.kind != "opaque" and isinstance(array, np.ndarray):
                    made = (tensor.dtype, tensor.shape)
                    if made != (str(array.dtype), array.shape):
                        wrong.append((case.name, tensor.name, made, str(array.dtype), array.shape))
    assert not wrong
    assert known >= (at_least if extent.exhaustive else at_least // 5)
