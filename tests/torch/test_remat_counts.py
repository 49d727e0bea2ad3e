"""The simulator and `rematerialize` agree on these programs and budgets: they evict as often, ask for memory as often
and run as many calls again, or neither finds room.

Before the runtime evicts gradients it moves blocks together, which the simulator does not do. With `coop-per-byte`,
budgets under which that happens are not compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402

import edgemem.torch  # noqa: E402
from edgemem.errors import BudgetExceededError  # noqa: E402
from edgemem.torch.remat import operators, repeater  # noqa: E402
from tests.bench.remat import recorder  # noqa: E402
from tests.bench.remat.simulation import simulate  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.usefixtures("_one_thread")

WIDTH = 64
ALIGNMENT = 64  # of the runtime


class Clock(TorchDispatchMode):
    """Costs that follow from an operator and the bytes of its results, in the place of measured ones.

    It asks no tensor for its storage: what is read besides operators, `rematerialize` keeps in memory. Neither does it
    change a result: `rematerialize` is not told of it, as it evicts nothing that it makes within another mode.

    A product costs much more a byte than anything else, so that both sides call the same operators expensive.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0

    def perf_counter_ns(self) -> int:
        return self.now

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        made = sum(t.nbytes for t in tree_leaves(result) if isinstance(t, torch.Tensor))
        self.now += made * (20 if "mm" in str(func) else 1) + 17 * sum(map(ord, str(func)))
        return result


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    for module in (operators, recorder, repeater):
        monkeypatch.setattr(module, "time", found)
    monkeypatch.setattr(operators, "has_outer_mode", lambda: False)
    return found


def matrices(count: int) -> list[Any]:
    torch.manual_seed(0)
    return [torch.rand(WIDTH, WIDTH) / WIDTH for _ in range(count)]


def branches() -> Callable[[], None]:
    """Each layer has three branches, of which nothing is kept; the backward pass reads one value of each layer."""
    a, b = matrices(2)

    def run() -> None:
        kept = [a.mm(b)]
        for _ in range(6):
            x = kept[-1]
            kept.append((x * a) * (x * b) * x.mm(b))
        gradient = kept[-1]
        while kept:
            gradient = gradient * kept.pop()

    return run


def in_place() -> Callable[[], None]:
    a, b = matrices(2)

    def run() -> None:
        kept = [a.mm(b)]
        for _ in range(10):
            kept.append(kept[-1].mm(b).add(a).relu_())
        gradient = kept[-1]
        while kept:
            gradient = gradient * kept.pop()

    return run


def training(*, update: bool) -> Callable[[], None]:
    a, b, *parameters = matrices(9)
    for parameter in parameters:
        parameter.requires_grad_()
    optimizer = torch.optim.SGD(parameters, lr=0.1, foreach=False)

    def run() -> None:
        optimizer.zero_grad()
        hidden = a.mm(b)
        for parameter in parameters:
            hidden = torch.tanh(hidden.mm(parameter))
        (hidden * hidden).sum().backward()
        if update:
            optimizer.step()
        optimizer.zero_grad()

    return run


PROGRAMS: dict[str, Callable[[], Callable[[], None]]] = {
    "branches": branches,
    "in place": in_place,
    "gradients": lambda: training(update=False),
    "training": lambda: training(update=True),
}


@pytest.mark.parametrize("policy", ["coop", "coop-per-byte", "dtr", "dte"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_simulator_counts_what_the_runtime_does(name: str, policy: str, clock: Clock) -> None:
    work = PROGRAMS[name]()
    with clock:
        log = recorder.record_operators(work, count_inputs=False)
    compared = evictions = 0
    for share in (0.9, 0.7, 0.5, 0.4, 0.3):
        budget = int(share * log.peak)
        run = simulate(log, budget, policy, limit=1000, alignment=ALIGNMENT)
        memory = edgemem.torch.rematerialize(budget, policy=policy)
        if not run.is_done:
            with pytest.raises(BudgetExceededError), clock, memory:
                work()
            compared += 1
            continue
        with clock, memory:
            work()
            stats = memory.stats
        if stats.moves and policy == "coop-per-byte":
            continue
        compared += 1
        found = (stats.evictions, stats.recomputed_calls, stats.requests)
        assert found == (run.evictions, run.recomputed_calls, run.requests), share
        assert stats.fragmentation == pytest.approx(run.fragmentation), share
        evictions += run.evictions
    assert compared == 5 or (policy == "coop-per-byte" and compared > 0)
    assert evictions > 0
