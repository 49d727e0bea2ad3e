"""docs/gpu.md names the operators that the converters turn into operations of GPU kernels."""

from __future__ import annotations

import re

import pytest

from edgemem_converters.onnx.computation.tensor_program import RULES as ONNX
from edgemem_converters.tflite.computation.tensor_program import RULES as TFLITE
from tests.data import ROOT


@pytest.mark.parametrize(("name", "rules"), [("ONNX", ONNX), ("TFLite", TFLITE)])
def test_the_page_names_every_operator(name: str, rules: dict[str, object]) -> None:
    lines = (ROOT / "docs" / "gpu.md").read_text(encoding="utf-8").splitlines()
    (row,) = [line for line in lines if line.startswith(f"| {name} | ")]
    assert set(re.findall(r"`([^`]+)`", row)) == set(rules), "write the table anew: python docs/gpu_figures.py"
