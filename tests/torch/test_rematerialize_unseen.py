"""Accesses to memory that no operator shows, random operators, and refusals: nothing is made again wrongly."""

from __future__ import annotations

import ctypes
import threading
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch")

import numpy as np
import torch
from torch.utils.dlpack import from_dlpack, to_dlpack

import edgemem.torch
from edgemem.errors import BudgetExceededError, RecomputationError
from edgemem.torch.remat.results import storage_of
from tests.torch.budgets import Layers, peak_of
from tests.torch.training import bits

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.usefixtures("_one_thread", "_steady_costs")

SHARES = (0.9, 0.8, 0.65, 0.5)


OUTSIDE = torch.zeros(128, 128)


class Sub(torch.Tensor):
    pass


def fill(count: int = 6) -> Any:
    """Leaves no room for what was made before."""
    return sum((torch.full((40000,), float(k)) * 2).sum() for k in range(count))


def _written(writer: Callable[[Any], Any]) -> Callable[[], Any]:
    """What was made of a result before and after something else has written it."""

    def work() -> Any:
        x = torch.arange(16384.0)
        y = x * 2
        before = y + 1
        kept = writer(y)
        after = y * 3
        fill()
        del kept
        return [before, y, after]

    return work


def _numpy_in_a_hook() -> Any:
    torch.manual_seed(0)
    parts = [part for _ in range(4) for part in (torch.nn.Linear(96, 96), torch.nn.GELU())]
    model = torch.nn.Sequential(*parts)

    def clip(g: Any) -> None:
        g.numpy().clip(-1e-3, 1e-3, out=g.numpy())

    for p in model.parameters():
        p.register_hook(clip)
    model(torch.randn(64, 96)).sum().backward()
    return [p.grad for p in model.parameters()]


class _AddsByNumpy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        del ctx
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        del ctx
        r = g * 2
        a = r.numpy()
        a += 1
        return r


def _numpy_in_a_backward_function() -> Any:
    torch.manual_seed(0)
    x = torch.randn(64, 512).requires_grad_()
    h = x
    for _ in range(4):
        h = _AddsByNumpy.apply(h).sin()
    fill(3)
    (h * h).sum().backward()
    return [x.grad]


def _parameter_in_a_hook() -> Any:
    """A parameter is written where no mode is on, and what was made from it before is needed afterwards."""
    w = OUTSIDE.fill_(1.0)
    before = w * 2

    def act(g: Any) -> None:
        del g
        a = torch._C.TensorBase.numpy(w)
        a += 1

    x = torch.randn(128, 128, requires_grad=True)
    x.register_hook(act)
    (x * 3).sum().backward()
    fill()
    return [before, w, w * 2]


def _shared_array() -> Any:
    a = np.arange(16384.0)
    t = torch.from_numpy(a)
    before = t * 2
    a += 1
    fill()
    return [before, t * 2]


def _array_taken_before_the_first_use() -> Any:
    x = torch.arange(16384.0)
    a = x.numpy()
    before = x * 2
    fill(2)
    a += 1
    fill()
    return [before, x * 2]


def _thread() -> Any:
    torch.manual_seed(0)
    layers = Layers()
    loss = layers.loss()
    thread = threading.Thread(target=loss.backward)
    thread.start()
    thread.join()
    return layers.state()


def _distributions() -> Any:
    g = torch.Generator().manual_seed(3)
    r = torch.full((8192,), 9.0)
    made = [torch.poisson(r, generator=g), torch._standard_gamma(r, generator=g)]
    made.append(torch.binomial(r, r / 20, generator=g))
    made.append(torch.ops.aten.rrelu_with_noise(r - 9.5, torch.empty_like(r), 0.1, 0.3, True, g))
    made += [
        torch.normal(r, r, generator=g),
        torch.rand(8192, generator=g),
        torch.empty(8192).exponential_(generator=g),
    ]
    fill()
    return made


WRITERS: dict[str, Callable[[Any], Any]] = {
    "subclass": lambda y: y.as_subclass(Sub).add_(1),
    "capsule": lambda y: from_dlpack(to_dlpack(y)).add_(1),
    "DLPack": lambda y: torch.from_dlpack(y).add_(1),
    "NumPy": lambda y: y.numpy().__iadd__(1),
    "method of the base class": lambda y: torch._C.TensorBase.numpy(y).__iadd__(1),
    "address": lambda y: ctypes.memset(torch._C.TensorBase.data_ptr(y), 0, 64),
    "storage": lambda y: y.untyped_storage().__setitem__(3, 7),
    "bytes of a view": lambda y: y[4:8].view(torch.int32).numpy().__iadd__(1),
    "typed storage": lambda y: y.storage().__setitem__(3, 7.0),
    "set": lambda y: torch.empty(0).set_(y.untyped_storage(), 8, (4,), (1,)).add_(1),
    "data": lambda y: y.data.add_(1),
    "all at once": lambda y: torch._foreach_add_([y, y[:4] + 0], 1.0),
}
PROGRAMS: dict[str, Callable[[], Any]] = {
    **{f"written by {name}": _written(writer) for name, writer in WRITERS.items()},
    "hook": _numpy_in_a_hook,
    "backward function": _numpy_in_a_backward_function,
    "parameter": _parameter_in_a_hook,
    "shared array": _shared_array,
    "array before": _array_taken_before_the_first_use,
    "thread": _thread,
    "distributions": _distributions,
}


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@pytest.mark.parametrize("policy", ["coop", "dtr"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_goes_round_the_operators_is_not_lost(name: str, policy: str) -> None:
    work = PROGRAMS[name]
    expected = bits(work())
    peak = peak_of(work)
    with edgemem.torch.rematerialize(policy=policy, poison=True, check=True) as memory:
        found = work()
    assert bits(found) == expected
    assert memory.stats.recomputed_calls
    for share in SHARES:
        try:
            with edgemem.torch.rematerialize(budget=int(share * peak), policy=policy, poison=True):
                found = work()
        except BudgetExceededError:
            continue
        assert bits(found) == expected, f"with {share} of {peak:,} bytes"


@pytest.mark.parametrize("policy", ["coop", "dtr", "dte"])
@pytest.mark.parametrize("blocks", [9, 12, 14])
def test_a_refused_operator_on_several_tensors_leaves_them_right(policy: str, blocks: int) -> None:
    base = torch.arange(4096.0)
    with edgemem.torch.rematerialize(budget=blocks * 16384 + 4096, policy=policy):
        xs = [base * (k + 1) for k in range(8)]
        y = xs[0] + 1
        factor = 3.0
        try:
            torch._foreach_mul_(xs, 3.0)
        except BudgetExceededError:
            factor = 1.0
        inside = bits(xs)
    assert inside == bits(xs) == bits([base * (k + 1) * factor for k in range(8)])
    assert bits([y]) == bits([base + 1])


@pytest.mark.parametrize("policy", ["coop", "dtr", "dte"])
def test_a_refused_step_of_an_optimizer_leaves_tensors_and_goes_on_outside(policy: str) -> None:
    def work(layers: Layers) -> None:
        layers.loss().backward()
        layers.optimizer.step()

    peak = peak_of(lambda: work(Layers(torch.optim.AdamW, foreach=True)))
    layers = Layers(torch.optim.AdamW, foreach=True)
    before = bits(layers.model.parameters())
    with pytest.raises(BudgetExceededError), edgemem.torch.rematerialize(budget=peak // 2, policy=policy):
        work(layers)
    assert bits(layers.model.parameters()) == before
    assert all(torch.isfinite(p.grad).all() for p in layers.model.parameters() if p.grad is not None)


@pytest.mark.parametrize("policy", ["coop", "dtr"])
def test_a_result_goes_into_a_tensor_without_memory(policy: str) -> None:
    x = torch.arange(4096.0)
    outside = torch.empty(0)
    with edgemem.torch.rematerialize(budget=1 << 20, policy=policy):
        y = torch.add(x, x, out=torch.empty(0))
        z = torch.add(x * 2, x, out=outside)
        filled = [torch.full((8192,), float(k)) for k in range(40)]
        del filled
        u = y + z
    assert bits([y, z, u]) == bits([x * 2, x * 3, x * 5])


_library = torch.library.Library("edgemem_lies", "FRAGMENT")


def test_an_operator_that_lies_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    from edgemem.torch.remat import effects

    monkeypatch.setattr(effects, "_NAMESPACES", (*effects._NAMESPACES, "edgemem_lies"))
    calls: list[Any] = []
    if not hasattr(torch.ops.edgemem_lies, "lie"):
        _library.define("lie(Tensor x) -> Tensor")
    library = torch.library.Library("edgemem_lies", "IMPL")

    def lie(x: Any) -> Any:
        calls.append(x.shape)
        return x + len(calls)

    library.impl("lie", lie, "CPU")
    x = torch.arange(4096.0)
    try:
        with pytest.raises(RecomputationError) as caught, edgemem.torch.rematerialize(check=True):
            (torch.ops.edgemem_lies.lie(x) * 2).sum()
    finally:
        library._destroy()
        effects._known.pop(torch.ops.edgemem_lies.lie.default, None)
    assert caught.value.op == "edgemem_lies.lie.default"
    assert len(calls) == 2


def test_an_operator_that_lies_in_place_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the end of the context makes again must not hide the error."""
    from edgemem.torch.remat import effects

    monkeypatch.setattr(effects, "_NAMESPACES", (*effects._NAMESPACES, "edgemem_lies"))
    if not hasattr(torch.ops.edgemem_lies, "lie_"):
        _library.define("lie_(Tensor(a!) x) -> Tensor(a!)")
    library = torch.library.Library("edgemem_lies", "IMPL")
    calls: list[Any] = []

    def lie(x: Any) -> Any:
        calls.append(x.shape)
        return x.add_(len(calls))

    library.impl("lie_", lie, "CPU")
    x = torch.arange(4096.0)
    try:
        with pytest.raises(RecomputationError) as caught, edgemem.torch.rematerialize(check=True):
            (torch.ops.edgemem_lies.lie_(x * 2) * 2).sum()
    finally:
        library._destroy()
        effects._known.pop(torch.ops.edgemem_lies.lie_.default, None)
    assert caught.value.op == "edgemem_lies.lie_.default"


def test_programs_that_keep_their_word_pass_the_check() -> None:
    layers, expected = Layers(torch.optim.Adam, depth=3), Layers(torch.optim.Adam, depth=3)
    for one, context in ((layers, edgemem.torch.rematerialize(check=True)), (expected, torch.enable_grad())):
        with context:
            for _ in range(2):
                one.optimizer.zero_grad()
                one.loss().backward()
                one.optimizer.step()
    assert bits(layers.state()) == bits(expected.state())


def test_a_write_that_nobody_sees_is_found_by_the_check() -> None:
    x = torch.arange(4096.0)

    def work() -> None:
        with edgemem.torch.rematerialize(check=True) as memory:
            y = x * 2
            assert memory._values is not None
            memory._values.watch.end(storage_of(y)._cdata)
            ctypes.memset(torch._C.TensorBase.data_ptr(y), 0, 64)
            y + 1

    with pytest.raises(RecomputationError, match="written by something"):
        work()


def test_what_stays_in_memory_is_told() -> None:
    with edgemem.torch.rematerialize(budget=1 << 20) as memory:
        y = torch.arange(4096.0) * 2
        kept = y.numpy()
        z = torch.arange(4096.0) * 2
        memory.keep(z)
    del kept
    assert memory.stats.notes == (
        "numpy: 1 tensor of 16,384 bytes in all stay in memory",
        "keep: 1 tensor of 16,384 bytes in all stay in memory",
    )
    assert "numpy" in str(memory.stats)


def test_a_compiled_function_is_told_to_run_eagerly() -> None:
    runs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        del inputs

        def run(*args: Any) -> Any:
            runs.append(len(args))
            return graph.forward(*args)

        return run

    compiled = torch.compile(lambda x: x.sin() + 1, backend=backend)
    x = torch.arange(64.0)
    with edgemem.torch.rematerialize(budget=1 << 20) as memory:
        y = compiled(x)
    assert not runs
    assert any("eagerly" in note for note in memory.stats.notes)
    assert bits([y]) == bits([x.sin() + 1])


def test_the_fast_path_of_a_transformer_stays_on(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    calls: list[Any] = []
    own = torch._transformer_encoder_layer_fwd

    def forward(*args: Any) -> Any:
        calls.append(len(args))
        return own(*args)

    monkeypatch.setattr(torch, "_transformer_encoder_layer_fwd", forward)
    with edgemem.torch.rematerialize(budget=1 << 20), torch.no_grad():
        layer(torch.randn(2, 4, 16))
    assert calls


def test_an_array_that_is_gone_keeps_nothing() -> None:
    w = torch.ones(64, 64)
    with edgemem.torch.rematerialize(budget=1 << 20) as memory:
        array = w.detach().numpy()
        held = w * 2
        array += 1
        del array
        free = w * 3
        assert memory._values is not None
        values = [memory._values.at(storage_of(t)) for t in (held, free)]
        is_evictable = [value is not None and value.recipe is not None for value in values]
    assert is_evictable == [False, True]
    assert bits([held, free]) == bits([torch.full((64, 64), 2.0), torch.full((64, 64), 6.0)])


def test_methods_of_pytorch_are_what_they_were() -> None:
    before = {name: getattr(torch.Tensor, name) for name in ("numpy", "data_ptr", "tolist", "__deepcopy__")}
    own, start = set(vars(torch.Tensor)), threading.Thread.start
    with edgemem.torch.rematerialize(budget=1 << 20):
        assert torch.Tensor.numpy is not before["numpy"]
    assert {name: getattr(torch.Tensor, name) for name in before} == before
    assert set(vars(torch.Tensor)) == own
    assert threading.Thread.start is start
