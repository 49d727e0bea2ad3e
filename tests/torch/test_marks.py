"""Marks tell which module's pass asks for memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import edgemem.torch  # noqa: E402
from edgemem.errors import ModelError  # noqa: E402
from edgemem.torch.sections import SECTIONS  # noqa: E402
from tests.torch.networks import MixtureOfExperts, ResNet18  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Followed:
    """Stands for a loop: notes the sections that are entered."""

    def __init__(self) -> None:
        self.entered: list[int] = []

    def enter(self, section: int) -> None:
        self.entered.append(section)

    def names(self) -> list[str]:
        """Names of the sections in order, "" for none; a section that is entered again right away counts once."""
        named = [SECTIONS.all[k].name if k >= 0 else "" for k in self.entered]
        return [name for k, name in enumerate(named) if not k or named[k - 1] != name]

    def phases(self, name: str) -> list[int]:
        return [SECTIONS.all[k].phase for k in self.entered if k >= 0 and SECTIONS.all[k].name == name]


@pytest.fixture
def followed() -> Iterator[_Followed]:
    loop: Any = _Followed()
    SECTIONS.follow(loop)
    SECTIONS.begin_iteration()
    yield loop
    SECTIONS.leave(loop)


def chain() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 2))


def test_forward_backward_and_update_are_told_apart(followed: _Followed) -> None:
    model = chain()
    marks = edgemem.torch.mark(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(torch.randn(3, 4)).sum().backward()
    optimizer.step()
    assert followed.names() == [
        *("model forward", "0 forward", "model forward", "1 forward", "model forward", "2 forward", "model forward"),
        *("", "2 backward", "1 backward", "0 backward", "update", ""),
    ]
    marks.remove()


def test_removed_marks_say_nothing(followed: _Followed) -> None:
    model = chain()
    edgemem.torch.mark(model).remove()
    model(torch.randn(3, 4)).sum().backward()
    torch.optim.SGD(model.parameters(), 0.1).step()
    assert followed.entered == []


def test_marks_change_nothing_that_is_computed(followed: _Followed) -> None:
    gradients = []
    for is_marked in (False, True):
        torch.manual_seed(0)
        model = ResNet18()
        marks = edgemem.torch.mark(model) if is_marked else None
        model(torch.randn(2, 3, 32, 32)).square().sum().backward()
        gradients.append([p.grad.numpy().tobytes() for p in model.parameters()])
        if marks is not None:
            marks.remove()
    assert gradients[0] == gradients[1]
    assert "blocks.7 backward" in followed.names()


def test_microbatches_have_phases_of_their_own_also_when_their_backward_passes_come_late(followed: _Followed) -> None:
    model = chain()
    marks = edgemem.torch.mark(model)
    first, second = model(torch.randn(3, 4)), model(torch.randn(3, 4))
    second.sum().backward()
    first.sum().backward()
    assert set(followed.phases("1 forward")) == {0, 2}
    assert followed.phases("1 backward") == [3, 1]
    followed.entered.clear()
    SECTIONS.begin_iteration()
    model(torch.randn(3, 4))
    assert set(followed.phases("1 forward")) == {0}
    marks.remove()


def test_requests_of_dynamic_modules_are_dynamic_also_in_backward(followed: _Followed) -> None:
    model = MixtureOfExperts()
    marks = edgemem.torch.mark(model, dynamic=("*.experts",))
    model(torch.randint(0, 50, (2, 8))).sum().backward()
    found = {SECTIONS.all[k].name for k in followed.entered if k >= 0 and SECTIONS.all[k].is_dynamic}
    assert found == {f"blocks.{k}.experts {way}" for k in range(2) for way in ("forward", "backward")}
    names = followed.names()
    # What is before the experts in the layer is not in their section.
    assert names[names.index("blocks.1.experts backward") + 1] == "blocks.1 backward"
    marks.remove()


def test_members_of_a_list_that_is_dynamic_are_dynamic(followed: _Followed) -> None:
    model = MixtureOfExperts()
    marks = edgemem.torch.mark(model, dynamic=("blocks.1.experts.parts",))
    model(torch.randint(0, 50, (2, 8)))
    found = {SECTIONS.all[k].name for k in followed.entered if k >= 0 and SECTIONS.all[k].is_dynamic}
    assert found == {f"blocks.1.experts.parts.{k} forward" for k in range(4)}
    marks.remove()


class _Checkpointed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(chain() for _ in range(2))

    def forward(self, x: Any) -> Any:
        return sum(checkpoint(part, x, use_reentrant=False) for part in self.parts)


def test_what_runs_again_in_backward_belongs_to_its_phase(followed: _Followed) -> None:
    model = _Checkpointed()
    marks = edgemem.torch.mark(model)
    model(torch.randn(3, 4)).sum().backward()
    assert followed.phases("parts.0 forward") == [0]
    assert followed.phases("parts.0 forward again") == [1]
    marks.remove()


def test_an_exception_in_a_module_leaves_no_section(followed: _Followed) -> None:
    model = chain()
    marks = edgemem.torch.mark(model)
    with pytest.raises(RuntimeError):
        model(torch.randn(3, 5))
    assert SECTIONS.now == -1
    model(torch.randn(3, 4))
    assert followed.names()[-1] == ""
    marks.remove()


def test_an_evaluation_is_no_microbatch(followed: _Followed) -> None:
    model = chain()
    marks = edgemem.torch.mark(model)
    with torch.no_grad():
        model(torch.randn(3, 4))
    model(torch.randn(3, 4))
    assert "1 evaluation" in followed.names()
    assert set(followed.phases("1 forward")) == {0}
    marks.remove()


def test_sessions_of_two_devices_are_both_told(followed: _Followed) -> None:
    other: Any = _Followed()
    SECTIONS.follow(other)
    SECTIONS.enter(3)
    SECTIONS.leave(other)
    SECTIONS.enter(4)
    assert (followed.entered[-2:], other.entered) == ([3, 4], [3])


def test_a_string_is_one_pattern(followed: _Followed) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    marks = edgemem.torch.mark(model, layers="0", dynamic="*1")
    model(torch.ones(2, 4))
    marks.remove()
    found = {(SECTIONS.all[k].name, SECTIONS.all[k].is_dynamic) for k in followed.entered if k >= 0}
    assert found == {("model forward", False), ("0 forward", False), ("1 forward", True)}


def test_a_pattern_that_nothing_matches_is_refused() -> None:
    with pytest.raises(ModelError, match=r"no module of Sequential is named like 'expert\*'"):
        edgemem.torch.mark(chain(), dynamic=("expert*",))
