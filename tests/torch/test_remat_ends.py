"""What a budget took is given back, whatever the calls that do it raise."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from edgemem.torch.remat.ends import Ends


def test_a_call_that_is_interrupted_is_made_again_and_one_that_fails_stops_no_other() -> None:
    made: list[str] = []

    def once() -> None:
        made.append("once")
        if made.count("once") == 1:
            raise InterruptedError

    def always() -> None:
        made.append("always")
        raise ValueError("it cannot be")

    ends = Ends()
    for call in (lambda: made.append("first"), once, always, lambda: made.append("last")):
        ends.callback(call)
    with pytest.raises(ValueError, match="it cannot be"):
        ends.close()
    assert made == ["last", "always", "always", "once", "once", "first"]
    ends.close()
    assert len(made) == 6
