"""Programs compute the same under budgets, or are refused and their tensors are right.

Each program runs with each policy, under one setting each; the next program has the next settings.
`python -m tests.torch.remat_programs` runs all of them.
"""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from tests.torch.remat_programs import families
from tests.torch.remat_programs.judge import EVERYTHING, SHARES, Subject

SETTINGS = (*SHARES, EVERYTHING)


@pytest.mark.full
@pytest.mark.usefixtures("_one_thread", "_steady_costs")
@pytest.mark.parametrize(("place", "name"), list(enumerate(families.load())), ids=families.load())
def test_same_or_refused(place: int, name: str) -> None:
    subject = Subject(name)
    measured = subject.measure()
    assert measured.right, measured.detail
    for k, policy in enumerate(("coop", "dtr", "dte")):
        # 0, 2 and 4 places on: three settings of five, others for the next program.
        setting = SETTINGS[(place + 2 * k) % len(SETTINGS)]
        if setting == EVERYTHING:
            # Before every operator takes the square of their number.
            outcome = subject.squeezed(policy, at_most=40)
        else:
            ((_, outcome),) = subject.outcomes(policy, (setting,))
        assert outcome.right, f"{policy}, {setting}: {outcome.kind}: {outcome.detail}"
