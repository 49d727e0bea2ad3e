"""A captured step trains each program as plain PyTorch does over ten steps, bit for bit, or is refused."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from tests.torch.step_programs import checkpoints, hooks, loops, modules, randomness  # noqa: E402
from tests.torch.step_programs.judge import ORDERS, judge  # noqa: E402
from tests.torch.step_programs.outcomes import REFUSED  # noqa: E402
from tests.torch.step_programs.registry import PROGRAMS  # noqa: E402

FAMILIES = (checkpoints, hooks, loops, modules, randomness)
NAMES = tuple(PROGRAMS)

pytestmark = [pytest.mark.usefixtures("_one_thread"), pytest.mark.filterwarnings("ignore")]


def _check(name: str, order: str) -> None:
    outcome = judge(name, order)
    if name in REFUSED:
        assert outcome.startswith("refused: "), outcome
    else:
        assert outcome == "same"


@pytest.mark.full
@pytest.mark.parametrize(("place", "name"), list(enumerate(NAMES)), ids=NAMES)
def test_a_captured_step_trains_as_pytorch_does_or_is_refused(place: int, name: str) -> None:
    _check(name, ORDERS[place % len(ORDERS)])


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
def test_a_captured_step_trains_as_pytorch_does_in_every_order(name: str) -> None:
    for order in ORDERS:
        _check(name, order)
