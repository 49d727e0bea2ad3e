"""What training programs do besides forward and backward passes, within a budget: the same bits as PyTorch."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

import edgemem.torch  # noqa: E402
from tests.torch.budgets import Layers, assert_same, peak_of  # noqa: E402
from tests.torch.steps import NAMES, make_step  # noqa: E402
from tests.torch.training import bits  # noqa: E402

pytestmark = pytest.mark.usefixtures("_one_thread", "_steady_costs")


# Shares of the peak in which a small step fits: tensors are few, so that one operator needs much of it, and how much
# workspace a convolution takes depends on the processor.
_FITTING: dict[str, tuple[float, ...]] = {
    "resnet18": (0.9, 0.8),
    "unet": (0.95,),
    "gpt": (0.9, 0.8, 0.7, 0.6),
    "lstm": (0.9,),
    "bert": (0.9, 0.8, 0.7),
}


@pytest.mark.parametrize("policy", ["coop", "dtr", "dte"])
@pytest.mark.parametrize("name", NAMES)
def test_a_step_has_the_gradients_of_pytorch(name: str, policy: str) -> None:
    expected = make_step(name)
    loss = expected.loss()
    peak = peak_of(make_step(name).loss)
    for share in _FITTING[name]:
        step = make_step(name)
        with edgemem.torch.rematerialize(budget=int(share * peak), policy=policy, poison=True) as memory:
            found = step.loss()
        assert memory.stats.peak <= share * peak
        assert bits([found, *step.gradients()]) == bits([loss, *expected.gradients()])
        assert bits(step.model.buffers()) == bits(expected.model.buffers())


@pytest.mark.parametrize("name", NAMES)
def test_checkpoints_within_a_budget(name: str) -> None:
    def work() -> Any:
        step = make_step(name).checkpointed()
        return [step.loss(), *step.gradients(), *step.model.buffers()]

    assert_same(work, (0.97,))


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam", "LBFGS"])
def test_optimizers_over_several_steps(kind: str) -> None:
    def work() -> Any:
        layers = Layers(getattr(torch.optim, kind), depth=3)

        def closure() -> Any:
            layers.optimizer.zero_grad()
            loss = layers.loss()
            loss.backward()
            return loss

        for _ in range(3):
            layers.optimizer.step(closure)
        return layers.state()

    assert_same(work, (1.0,) if kind == "LBFGS" else (0.95, 0.85))


def test_gradients_are_added_up_over_several_batches() -> None:
    def work() -> Any:
        layers = Layers()
        for _ in range(3):
            layers.loss().backward()
        nn.utils.clip_grad_norm_(layers.model.parameters(), 0.1)
        layers.optimizer.step()
        return layers.state()

    assert_same(work, (0.9, 0.8))


@pytest.mark.filterwarnings("ignore")
def test_mixed_precision_with_a_scaler() -> None:
    def work() -> Any:
        layers = Layers()
        scaler = torch.amp.GradScaler("cpu")
        for _ in range(2):
            layers.optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = functional.mse_loss(layers.model(layers.given).float(), layers.target)
            scaler.scale(loss).backward()
            scaler.step(layers.optimizer)
            scaler.update()
        return layers.state()

    assert_same(work, (0.95, 0.9))


def test_an_average_of_the_weights_is_kept() -> None:
    def work() -> Any:
        layers = Layers()
        averaged = torch.optim.swa_utils.AveragedModel(
            layers.model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
        )
        for _ in range(3):
            layers.optimizer.zero_grad()
            layers.loss().backward()
            layers.optimizer.step()
            averaged.update_parameters(layers.model)
        return [*layers.state(), *averaged.parameters()]

    assert_same(work, (0.9, 0.8))


def test_a_gradient_penalty_is_differentiated_twice() -> None:
    def work() -> Any:
        layers = Layers(depth=3)
        given = layers.given.clone().requires_grad_()
        loss = functional.mse_loss(layers.model(given), layers.target)
        (gradient,) = torch.autograd.grad(loss, given, create_graph=True)
        (loss + gradient.square().sum()).backward()
        return [*layers.state(), given.grad]

    assert_same(work, (0.9, 0.8))


def test_functional_transforms() -> None:
    def work() -> Any:
        layers = Layers(depth=3)
        parameters = {k: v.detach() for k, v in layers.model.named_parameters()}

        def loss(given: Any, x: Any, y: Any) -> Any:
            return functional.mse_loss(torch.func.functional_call(layers.model, given, (x[None],)), y[None])

        each = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))(parameters, layers.given[:8], layers.target[:8])
        return list(each.values())

    assert_same(work, (0.9, 0.8))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forward_mode() -> None:
    def work() -> Any:
        layers = Layers(depth=3)
        x = layers.given
        return list(torch.func.jvp(layers.model, (x,), (x.sin(),)))

    assert_same(work, (0.9, 0.8))


def test_sparse_gradients_of_an_embedding() -> None:
    def work() -> Any:
        torch.manual_seed(0)
        table = nn.Embedding(64, 32, sparse=True)
        optimizer = torch.optim.SparseAdam(table.parameters())
        words = torch.randint(0, 64, (32, 8))
        for _ in range(2):
            optimizer.zero_grad()
            (table(words).tanh().exp().sin().sum()).backward()
            optimizer.step()
        assert table.weight.grad is not None
        return [table.weight, table.weight.grad.coalesce().values()]

    assert_same(work, (0.97,))


def test_normalised_weights() -> None:
    def work() -> Any:
        torch.manual_seed(0)
        model = nn.Sequential(
            nn.utils.parametrizations.weight_norm(nn.Linear(32, 64)),
            nn.Tanh(),
            nn.utils.parametrizations.spectral_norm(nn.Linear(64, 32)),
        )
        for _ in range(2):
            model(torch.randn(64, 32)).square().mean().backward()
        return [*(p.grad for p in model.parameters()), *model.buffers()]

    assert_same(work, (0.9, 0.8))


def test_recurrent_layers() -> None:
    def work() -> Any:
        torch.manual_seed(0)
        model = nn.LSTM(16, 32, num_layers=3, dropout=0.2, bidirectional=True, batch_first=True)
        y, _ = model(torch.randn(8, 24, 16))
        y.square().mean().backward()
        return [p.grad for p in model.parameters()]

    assert_same(work, (0.9, 0.8))


def test_complex_numbers_and_other_dtypes() -> None:
    def work() -> Any:
        torch.manual_seed(0)
        x = torch.randn(64, 64, requires_grad=True)
        spectrum = torch.fft.fft2(x)
        y = (torch.fft.ifft2(spectrum * spectrum.conj()).real.double() + x).tanh()
        z = (y.float() * (y > 0) + torch.view_as_real(spectrum.conj().resolve_conj())[..., 1]).half().float()
        z.square().mean().backward()
        return [x.grad, z]

    assert_same(work, (0.95, 0.9))


def test_saved_tensors_that_hooks_pack() -> None:
    def work() -> Any:
        layers = Layers()
        hooks = torch.autograd.graph.saved_tensors_hooks(
            lambda x: (x.detach().numpy().copy(), x.dtype), lambda packed: torch.from_numpy(packed[0])
        )
        with hooks:
            loss = layers.loss()
        loss.backward()
        return layers.state()

    assert_same(work, (1.5,))  # what is made of memory that NumPy shares is not evicted


def test_saved_tensors_on_the_host() -> None:
    def work() -> Any:
        layers = Layers()
        with torch.autograd.graph.save_on_cpu():
            loss = layers.loss()
        loss.backward()
        return layers.state()

    assert_same(work, (0.9, 0.7))


def test_a_checkpoint_inside_a_checkpoint() -> None:
    def work() -> Any:
        layers = Layers()
        parts = list(layers.model)

        def inner(x: Any) -> Any:
            return parts[4](parts[3](x))

        def outer(x: Any) -> Any:
            return parts[6](checkpoint(inner, parts[2](parts[1](x)), use_reentrant=False))

        x = parts[0](layers.given)
        checkpoint(outer, x, use_reentrant=False).square().mean().backward()
        return layers.state()

    assert_same(work, (0.97, 0.9))
