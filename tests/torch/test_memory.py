"""What a process holds while it trains inside a plan: the arena, and nothing that the plan has made superfluous."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

import edgemem.torch  # noqa: E402
from edgemem.system.process_memory import anonymous_bytes  # noqa: E402

pytestmark = [
    pytest.mark.usefixtures("_one_thread"),
    pytest.mark.skipif(anonymous_bytes() is None, reason="the system does not tell what a process holds"),
]

LARGE = 32 << 20  # bytes
SLACK = LARGE // 2  # for all that a process does besides


def held() -> int:
    found = anonymous_bytes()
    assert found is not None
    return found


def test_gradients_from_before_the_plan_are_given_back() -> None:
    side = 2048
    model = nn.Sequential(nn.Linear(side, side), nn.Linear(side, side))
    assert sum(p.nbytes for p in model.parameters()) >= LARGE
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step() -> None:
        optimizer.zero_grad()
        model(torch.ones(1, side)).sum().backward()
        optimizer.step()

    plan = edgemem.torch.profile(step).plan()
    before = held()  # with the gradients of the last step of the profile, which lie outside of the arena
    with plan.session() as session:
        for _ in range(2):
            with session.iteration():
                step()
        assert session.stats.last.hits == session.stats.last.requests
        assert held() - before < plan.size - LARGE + SLACK


def test_what_an_evaluation_took_is_given_back() -> None:
    def evaluate() -> int:
        result = torch.ones(LARGE // 4)
        result.add_(1)
        return held()

    with edgemem.torch.Session() as session:
        before = held()
        with session.paused():
            assert evaluate() - before > LARGE - SLACK
        assert held() - before < SLACK
