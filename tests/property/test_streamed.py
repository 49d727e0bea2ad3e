"""Streamed models compute what the models compute, bit for bit: random models, random stages, three inputs each."""

from __future__ import annotations

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from edgemem.errors import TilingError
from edgemem.passes.streaming.stream import StripeStage, stream
from edgemem_converters.tflite import TfliteConverter

pytest.importorskip("ai_edge_litert")

from tests import extent
from tests.row_models import row_models, run_litert, run_micro

# LiteRT's own float32 kernels compute several elements at once, and the rest at the end of a tensor in another way. So
# what they make of an element may depend on where it is: sums over channels unless these are many at a time, and exp.
PLACELESS = ("RELU", "RELU6", "LEAKY_RELU", "ABS", "TANH")


@st.composite
def stages(draw: st.DrawFn, count: int) -> list[StripeStage]:
    """One or two stages among this many operators."""
    first, last = sorted((draw(st.integers(0, count - 1)), draw(st.integers(0, count - 1))))
    found = [StripeStage(first, last, draw(st.integers(1, 15)))]
    if last < count - 1 and draw(st.booleans()):
        found.append(StripeStage(last + 1, draw(st.integers(last + 1, count - 1)), draw(st.integers(1, 15))))
    return found


def streamed(data: bytes, draw: st.DataObject) -> bytes:
    model = TfliteConverter.from_bytes(data)
    graph = model.graph()
    try:
        rewrite = stream(graph, draw.draw(stages(len(graph.ops))), draw.draw(st.sampled_from((0, 16, 64))))
    except TilingError as refused:
        event(refused.why)
        assume(False)
    new = model.rewritten(rewrite)
    assert len(new.graph().ops) == len(rewrite.graph.ops)
    return new.content()


@pytest.mark.full
@settings(max_examples=extent.examples(150))
@given(row_models(), st.data())
def test_streamed_models_in_the_reference_kernels(data: bytes, draw: st.DataObject) -> None:
    new = streamed(data, draw)
    assert run_litert(new, reference=True) == run_litert(data, reference=True)


@pytest.mark.full
@settings(max_examples=extent.examples(150))
@given(row_models(PLACELESS, float_sums=False), st.data())
def test_streamed_models_in_the_built_in_kernels(data: bytes, draw: st.DataObject) -> None:
    new = streamed(data, draw)
    assert run_litert(new, reference=False) == run_litert(data, reference=False)


@pytest.mark.full
@settings(max_examples=extent.examples(150))
@given(row_models(), st.data())
def test_streamed_models_in_tensorflow_lite_micro(data: bytes, draw: st.DataObject) -> None:
    pytest.importorskip("tflite_micro")
    graph = TfliteConverter.from_bytes(data).graph()
    new = streamed(data, draw)
    ends = len(graph.inputs), len(graph.outputs)
    assert run_micro(new, *ends) == run_micro(data, *ends)
