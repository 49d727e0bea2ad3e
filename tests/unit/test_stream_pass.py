"""The pass that streams a .tflite model: its options, and the limits that it keeps."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgemem.errors import ModelError, UnsupportedError
from edgemem.formats import Bindings
from edgemem.model.macs import count_macs
from edgemem.passes.protocol import PassContext
from edgemem.passes.streaming.stream_pass import StreamOperators
from edgemem.targets import BUILT_IN
from edgemem_converters.tflite.model import TfliteConverter
from models.tflite_networks import mobilenet_v2

TARGET = BUILT_IN["tflm"].changed(kernels="tflm-reference", slots=True)


@pytest.fixture(scope="module")
def model() -> TfliteConverter:
    return TfliteConverter.from_bytes(mobilenet_v2(alpha=0.3, size=80, int8=True, classes=2))


def applied(model: TfliteConverter, **options: str) -> TfliteConverter:
    context = PassContext(Path("m.tflite"), Path(), Bindings(), TARGET, None, options)
    changed = StreamOperators().apply(model, context)
    assert isinstance(changed, TfliteConverter)
    return changed


def test_chosen_and_given_stages_change_operators_and_no_arithmetic(model: TfliteConverter) -> None:
    for stages in ("auto", "head", "0:5:4"):
        changed = applied(model, stages=stages)
        assert len(changed.graph().ops) > len(model.graph().ops)
        assert count_macs(changed.graph()) == count_macs(model.graph())


def test_limits_are_kept(model: TfliteConverter) -> None:
    assert len(applied(model, stages="head", max_ops="100").graph().ops) <= 100
    size = len(model.content())
    assert size < len(applied(model, stages="head", max_file_growth="1.02").content()) <= 1.02 * size
    assert applied(model, stages="auto", max_ops=str(len(model.graph().ops))) is model


def test_limits_that_exclude_everything_are_refused(model: TfliteConverter) -> None:
    with pytest.raises(UnsupportedError, match="allow more"):
        applied(model, stages="auto", max_ops="10")
    with pytest.raises(UnsupportedError, match="allow a growth"):
        applied(model, stages="auto", max_file_growth="1")
    with pytest.raises(ModelError, match="FIRST:LAST:STRIPES"):
        applied(model, stages="most")


def test_a_budget_is_kept_with_fewer_operators(model: TfliteConverter) -> None:
    few, many = applied(model, stages="head", budget="40000"), applied(model, stages="head")
    assert len(model.graph().ops) < len(few.graph().ops) < len(many.graph().ops)
