"""What a captured step says of itself, and what cannot be captured."""

from __future__ import annotations

import copy
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.nn import functional  # noqa: E402

import edgemem  # noqa: E402
import edgemem.torch  # noqa: E402
from edgemem.errors import ModelError, RuntimeBindError, UnsupportedError  # noqa: E402
from edgemem.model.graph import digest  # noqa: E402
from tests.torch.networks import Gpt, ResNet18, make  # noqa: E402

BATCH = (torch.zeros(2, 3, 32, 32), torch.zeros(2, dtype=torch.int64))


def sgd(model: Any, **options: Any) -> Any:
    return torch.optim.SGD(model.parameters(), 0.1, **options)


def small() -> tuple[Any, tuple[Any, Any]]:
    return nn.Linear(4, 3), (torch.ones(2, 4), torch.zeros(2, dtype=torch.int64))


def test_a_step_of_one_layer_operator_by_operator() -> None:
    model, batch = small()
    graph = edgemem.torch.capture(model, functional.cross_entropy, batch, sgd(model))
    made = {t.name: t.size for t in graph.tensors if t.kind == "activation"}
    # 2 x 3 numbers of 4 bytes between layer, softmax, loss and back; the gradients of weight (3 x 4) and bias (3).
    assert made == {
        "addmm": 24,
        "_log_softmax": 24,
        "nll_loss_forward.0": 4,
        "nll_loss_forward.1": 4,
        "ones_like": 4,
        "nll_loss_backward": 24,
        "_log_softmax_backward_data": 24,
        "mm": 48,
        "sum_1": 12,
    }
    # Nothing is allocated between the gradient of the bias and its update, which are one operator.
    assert [op.name for op in graph.ops if op.name in graph.updates] == ["sum_1", "add__tensor"]
    assert graph.persistent == 4 * (12 + 3)
    assert graph.batch == 2 * 4 * 4 + 2 * 8
    # In PyTorch's order both gradients are there before the first update, besides the loss and what they came from.
    assert edgemem.order(graph, "greedy").given_peak == 24 + 48 + 12 + 4


def test_a_model_may_be_larger_than_any_memory() -> None:
    with torch.device("meta"):
        model = nn.Linear(10**7, 10**6, bias=False)
        batch = (torch.zeros(1, 10**7), torch.zeros(1, dtype=torch.int64))
    graph = edgemem.torch.capture(model, functional.cross_entropy, batch, sgd(model))
    assert graph.persistent == 40 * 10**12
    assert edgemem.order(graph, "greedy").peak > 40 * 10**12  # the gradient


def test_capture_changes_nothing_and_takes_no_memory() -> None:
    model, batch = make("gpt_dropout")
    optimizer = torch.optim.Adam(model.parameters())
    before = copy.deepcopy(model.state_dict())
    random = torch.get_rng_state()
    with edgemem.torch.LiveBytes() as live:
        edgemem.torch.capture(model, functional.cross_entropy, batch, optimizer)
    assert live.peak == 0
    assert torch.equal(torch.get_rng_state(), random)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert not optimizer.state
    assert all(p.grad is None for p in model.parameters())


@pytest.mark.parametrize("where", ["meta", "fake"])
def test_models_without_memory_give_the_same_graph(where: str) -> None:
    real = ResNet18()
    with torch.device("meta") if where == "meta" else FakeTensorMode():
        bare = ResNet18()
        batch = tuple(torch.zeros(t.shape, dtype=t.dtype) for t in BATCH)
    graphs = [edgemem.torch.capture(m, functional.cross_entropy, b, sgd(m)) for m, b in ((real, BATCH), (bare, batch))]
    assert digest(graphs[0]) == digest(graphs[1])
    # A real model runs what was captured of one without memory.
    twin = copy.deepcopy(real)
    pairs = zip((real, twin), graphs, strict=True)
    losses = [edgemem.torch.reorder(g)(m, sgd(m), BATCH) for m, g in pairs]
    assert torch.equal(losses[0], losses[1])
    assert all(torch.equal(a, b) for a, b in zip(real.parameters(), twin.parameters(), strict=True))


def test_persistent_bytes_are_those_of_parameters_buffers_and_states() -> None:
    model, batch = make("resnet18")
    optimizer = torch.optim.Adam(model.parameters())
    graph = edgemem.torch.capture(model, functional.cross_entropy, batch, optimizer)
    edgemem.torch.reorder(graph)(model, optimizer, batch)
    kept = [*model.parameters(), *model.buffers()]
    kept += [v for s in optimizer.state.values() for k, v in s.items() if k != "step"]
    assert graph.persistent == sum(t.numel() * t.element_size() for t in kept)
    assert graph.batch == sum(t.numel() * t.element_size() for t in batch)


def test_weights_that_two_layers_share_count_once() -> None:
    model, batch = make("gpt")
    assert isinstance(model, Gpt)
    graph = edgemem.torch.capture(model, functional.cross_entropy, batch, sgd(model))
    assert graph.persistent == sum(4 * p.numel() for p in model.parameters())


def test_orders_and_plans_are_those_of_any_graph() -> None:
    model, batch = make("resnet18")
    graph = edgemem.torch.capture(model, functional.cross_entropy, batch, sgd(model))
    ordering = edgemem.order(graph, "greedy")
    assert ordering.peak < ordering.given_peak
    reordered = graph.reordered(ordering.order)
    planset = edgemem.plan(reordered, strategy="greedy_by_size")
    assert planset.best_offsets is not None
    assert planset.best_offsets.size >= ordering.peak
    assert planset.target is not None
    assert planset.target.name == "pytorch"
    # A graph that was reordered runs as well.
    step = edgemem.torch.reorder(reordered)
    assert step(model, sgd(model), batch).isfinite()


class Deciding(nn.Linear):
    def forward(self, x: Any) -> Any:
        y = super().forward(x)
        return y if y.sum() > 0 else -y


def hooked() -> Any:
    model, _ = small()
    model.weight.register_hook(lambda g: g)
    return model


def with_a_complex_weight() -> Any:
    model, _ = small()
    model.gain = nn.Parameter(torch.ones(1, dtype=torch.complex64))
    return model


def frozen() -> Any:
    model, _ = small()
    return model.requires_grad_(False)


@pytest.mark.parametrize(
    ("model", "optimizer", "error", "what"),
    [
        (small()[0], torch.optim.RMSprop, UnsupportedError, "RMSprop updates parameters, only SGD, Adam, AdamW"),
        (small()[0], lambda p: torch.optim.Adam(p, fused=True), UnsupportedError, "leave fused out"),
        (small()[0], lambda p: torch.optim.Adam(p, lr=torch.tensor(0.1)), UnsupportedError, "lr .* is a tensor"),
        (small()[0], lambda _: torch.optim.SGD(nn.Linear(2, 2).parameters()), ModelError, "that the model has not"),
        (Deciding(4, 3), torch.optim.SGD, UnsupportedError, "depends on values of tensors"),
        (with_a_complex_weight(), torch.optim.Adam, UnsupportedError, "gain is complex"),
        (hooked(), torch.optim.SGD, UnsupportedError, "weight has hooks"),
        (frozen(), torch.optim.SGD, ModelError, "no parameter requires a gradient"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_what_cannot_be_captured_says_why(model: Any, optimizer: Any, error: type[Exception], what: str) -> None:
    with pytest.raises(error, match=what):
        edgemem.torch.capture(model, functional.cross_entropy, small()[1], optimizer(model.parameters()))


def test_sparse_gradients_are_refused() -> None:
    model = nn.Sequential(nn.Embedding(9, 3, sparse=True), nn.Flatten(0, 1))
    words = torch.zeros(2, 2, dtype=torch.int64)
    with pytest.raises(UnsupportedError, match="sparse=False"):
        edgemem.torch.capture(model, functional.cross_entropy, (words, words.flatten()), sgd(model))


def test_a_batch_is_a_pair_and_a_loss_one_number() -> None:
    model, (x, y) = small()
    with pytest.raises(ModelError, match="a batch is a pair"):
        edgemem.torch.capture(model, functional.cross_entropy, (x, x, y), sgd(model))
    with pytest.raises(ModelError, match="one element"):
        edgemem.torch.capture(model, lambda output, _: output, (x, y), sgd(model))


@pytest.mark.parametrize("form", [tuple, dict])
def test_inputs_may_be_several(form: type[Any]) -> None:
    class Two(nn.Linear):
        def forward(self, x: Any, y: Any = None) -> Any:
            return super().forward(x) + y

    model = Two(4, 3)
    x, y = torch.randn(2, 4), torch.randn(2, 3)
    inputs = (x, y) if form is tuple else {"x": x, "y": y}
    batch = (inputs, torch.tensor([1, 2]))
    wanted = functional.cross_entropy(model(x, y), batch[1])
    graph = edgemem.torch.capture(model, functional.cross_entropy, batch, sgd(model))
    assert torch.equal(edgemem.torch.reorder(graph)(model, sgd(model), batch), wanted)


def test_a_step_refuses_what_is_not_like_the_captured() -> None:
    model, (x, y) = small()
    optimizer = sgd(model, momentum=0.9, dampening=0.5)
    graph = edgemem.torch.capture(model, functional.cross_entropy, (x, y), optimizer)
    step = edgemem.torch.reorder(graph)
    before = copy.deepcopy(model.state_dict())
    wrong: list[tuple[Any, Any, Any, str]] = [
        (model, optimizer, (x[:1], y), r"batch\[0\] is not like what was captured: shape \(1, 4\) instead of \(2, 4\)"),
        (model, optimizer, (x.double(), y), "dtype"),
        (model, optimizer, ((x,), y), "not made up like the example"),
        (nn.Linear(4, 3, bias=False), optimizer, (x, y), "no bias"),
        (model, torch.optim.Adam(model.parameters()), (x, y), "captured with SGD, not with Adam"),
        (model, None, (x, y), "captured with SGD"),
        (model, sgd(model), (x, y), "options are not those"),
    ]
    for others in wrong:
        with pytest.raises(RuntimeBindError, match=others[3]):
            step(*others[:3])
    assert not optimizer.state
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())


def test_parameters_of_a_group_have_done_as_many_steps() -> None:
    model, batch = small()
    optimizer = torch.optim.Adam(model.parameters())
    step = edgemem.torch.reorder(edgemem.torch.capture(model, functional.cross_entropy, batch, optimizer))
    step(model, optimizer, batch)
    optimizer.state[model.weight]["step"] += 1
    with pytest.raises(RuntimeBindError, match="groups of their own"):
        step(model, optimizer, batch)


def test_numbers_of_the_optimizer_are_read_at_each_step() -> None:
    model, batch = small()
    twin = copy.deepcopy(model)
    graph = edgemem.torch.capture(model, functional.cross_entropy, batch, sgd(model))
    step = edgemem.torch.reorder(graph)
    pairs = []
    for each in (model, twin):
        groups = [{"params": [each.weight]}, {"params": [each.bias], "lr": 0.01}]
        optimizer = torch.optim.SGD(groups, 0.1)
        pairs.append((optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 1)))
    graph = edgemem.torch.capture(model, functional.cross_entropy, batch, pairs[0][0])
    step = edgemem.torch.reorder(graph)
    for _ in range(3):
        step(model, pairs[0][0], batch)
        pairs[0][1].step()
        pairs[1][0].zero_grad()
        functional.cross_entropy(twin(batch[0]), batch[1]).backward()
        pairs[1][0].step()
        pairs[1][1].step()
        assert torch.equal(model.weight, twin.weight)
        assert torch.equal(model.bias, twin.bias)


def test_a_step_goes_on_where_pytorch_stopped_and_back() -> None:
    model, batch = small()
    twin = copy.deepcopy(model)
    own, plain = (torch.optim.AdamW(m.parameters()) for m in (model, twin))
    step = edgemem.torch.reorder(edgemem.torch.capture(model, functional.cross_entropy, batch, own))
    for k in range(4):
        for each, optimizer in ((model, own), (twin, plain)):
            if each is model and k % 2:
                step(model, own, batch)
                continue
            optimizer.zero_grad()
            functional.cross_entropy(each(batch[0]), batch[1]).backward()
            optimizer.step()
    assert torch.equal(model.weight, twin.weight)


def test_live_bytes_are_those_of_what_is_made_inside() -> None:
    there = torch.ones(1000)
    with edgemem.torch.LiveBytes() as live:
        a = there + 1
        b = a.view(10, 100)
        del a
        there.add_(1)
        c = b * 2
        assert live.now == 8000
        del b
        d = c.sum()
        assert live.now == 4004
    assert live.peak == 8000
    assert d == 4000
