"""Results that lie in the arena without a copy, and keep it for as long as they are held."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import numpy as np
import pytest

from edgemem import planfile
from edgemem.errors import RuntimeBindError
from edgemem.replay.plan import places_of
from edgemem.runtime.onnxruntime.session import InferenceSession
from tests.onnx_sessions import feeds, plain, small

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("onnxruntime")


@pytest.mark.parametrize("name", ["resnet18", "blazeface", "unet", "transformer"])
def test_nothing_is_left_for_the_heap(name: str) -> None:
    model = small(name)
    given = feeds(plain(model))
    expected = plain(model).run(None, given)
    with InferenceSession(model, cache=False, background=False, share_outputs=True, poison=True) as session:
        for _ in range(4):
            found = session.run(None, given)
            assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
            del found
        memory = session.memory
        assert (memory.mode, memory.bails) == ("replay", 0)
        assert memory.misses == 0
        assert memory.bound <= memory.planned <= 1.01 * memory.bound
        assert memory.arena == memory.planned


def test_a_result_that_is_held_is_never_written_over() -> None:
    model = small("blazeface")
    one = feeds(plain(model))
    two = {name: value + 1 for name, value in one.items()}
    wanted_one, wanted_two = plain(model).run(None, one), plain(model).run(None, two)
    session = InferenceSession(model, cache=False, background=False, share_outputs=True, poison=True)
    session.run(None, one)
    held = [session.run(None, one), session.run(None, two), session.run(None, one)]
    session.close()
    del session
    gc.collect()
    for found, wanted in zip(held, (wanted_one, wanted_two, wanted_one), strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))


def test_such_a_plan_is_kept_and_found_again(tmp_path: Path) -> None:
    model = small("resnet18")
    given = feeds(plain(model))
    with InferenceSession(model, cache=tmp_path, background=False, share_outputs=True) as session:
        session.run(None, given)
        session.run(None, given)
        plan = session.recorded_plan
    assert plan is not None
    again = planfile.decode(planfile.encode(plan))
    assert places_of(again).tolist() == places_of(plan).tolist()
    assert plan.recording is not None
    assert again.recording is not None
    assert again.recording.trace.events.tolist() == plan.recording.trace.events.tolist()
    with InferenceSession(model, cache=tmp_path, background=False, share_outputs=True) as session:
        session.run(None, given)
        assert session.memory.replayed == 1
    with InferenceSession(model, cache=tmp_path, background=False) as session:
        session.run(None, given)
        assert session.memory.replayed == 0, "a plan for other results"


def test_copied_or_shared_not_both() -> None:
    with pytest.raises(RuntimeBindError, match="bind or share"):
        InferenceSession(small("resnet18"), bind_outputs=True, share_outputs=True)
