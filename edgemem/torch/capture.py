"""From a model, a loss, a batch and an optimizer to the graph of one training step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.func import functional_call
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree

from edgemem.errors import ModelError, UnsupportedError
from edgemem.torch.accesses import access, is_pure, storages
from edgemem.torch.assembly import assemble
from edgemem.torch.fakes import aliases, fake, find_mode, form
from edgemem.torch.graph import Source, StepProgram
from edgemem.torch.lstm import measure_workspaces
from edgemem.torch.optimizers import rule_of
from edgemem.torch.surroundings import Surroundings, find_hook
from edgemem.torch.tracing import constants_of, trace
from edgemem.torch.updates import add_updates

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from edgemem.torch.graph import TrainingGraph
    from edgemem.torch.optimizers import ParameterGroup

__all__ = ["capture", "run_model"]

_SAME = (torch.ops.aten.detach.default, torch.ops.aten.alias.default)
# They synchronise gradients by hooks of parameters, for which a step is traced with stand-ins.
_WRAPPERS = frozenset(("DistributedDataParallel", "FullyShardedDataParallel", "FSDPModule"))


def capture(
    model: torch.nn.Module,
    loss_fn: Callable[[Any, Any], torch.Tensor],
    example_batch: Sequence[Any],
    optimizer: torch.optim.Optimizer | None = None,
    *,
    device: str | torch.device = "cpu",
) -> TrainingGraph:
    """One training step as a graph: forward, backward and the optimizer's update, in PyTorch's order.

    Nothing is computed and no memory is taken: the model may be as large as it likes, and may itself be made under
    `FakeTensorMode` or on the meta device. The one exception is the LSTM of oneDNN, whose layers run once with zeros,
    one at a time, because only oneDNN knows what they keep. The model, the optimizer and the random number generators
    stay as they are; meanwhile no other thread may draw random numbers. What the model decides in Python is decided
    here once and for all: the code of the model and the loss runs twice, and has to do the same.

    Args:
        model: in the mode (`train`, `eval`) in which it will run.
        loss_fn: gives the loss, a scalar, for the model's output and the target.
        example_batch: the model's input and the target. An input that is a tuple or list stands for several arguments,
            a dict for named ones. Tensors are read for their shapes, strides, dtypes and devices alone.
        optimizer: SGD, Adam or AdamW of torch.optim over parameters of the model. Without one the step ends with the
            gradients of all parameters that require one; with one, others than its own get none.
        device: where parameters are that the model has on the meta device.

    Raises:
        ModelError: the batch is no pair, the loss is no scalar, or the optimizer has parameters that the model has not.
        UnsupportedError: another optimizer; hooks of parameters or of the optimizer, which would not be called; sparse
            gradients; the model looks at values of tensors, or gives tensors whose sizes depend on them; it sets or
            seeds a random generator, as a checkpoint with dropout does; or it does something else each time.
    """
    if not isinstance(example_batch, (tuple, list)) or len(example_batch) != 2:
        raise ModelError("a batch is a pair: the model's input, and the target that the loss compares its output with")
    parameters, buffers = dict(model.named_parameters()), dict(model.named_buffers())
    leaves, spec = pytree.tree_flatten(tuple(example_batch))
    mode = find_mode([*parameters.values(), *buffers.values(), *(v for v in leaves if isinstance(v, torch.Tensor))])
    on = torch.device(device)
    _refuse(model, parameters, leaves, optimizer)
    trained = _trained(parameters, optimizer)
    if optimizer is not None:
        rule_of(type(optimizer))  # raises early

    def faked(tensor: torch.Tensor) -> torch.Tensor:
        return fake(tensor, mode, on)

    sources: list[Source] = []
    values: list[torch.Tensor] = []

    def add(tensor: torch.Tensor, role: Any, name: str, index: int = -1) -> None:
        values.append(faked(tensor))
        sources.append(Source(role, name, index=index, form=form(values[-1])))

    for name, tensor in parameters.items():
        add(tensor, "parameter", name)
    for name, tensor in buffers.items():
        add(tensor, "buffer", name)
    for index, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor):
            add(leaf, "batch", f"batch[{index}]", index)
    at = {s.index: k for k, s in enumerate(sources) if s.role == "batch"}

    def step(flat: list[torch.Tensor]) -> tuple[Any, ...]:
        given = dict(zip((*parameters, *buffers), flat, strict=False))
        state = {**given, **{name: given[name].detach().requires_grad_() for name in trained}}
        leaf = dict(state)
        batch = pytree.tree_unflatten([flat[at[k]] if k in at else v for k, v in enumerate(leaves)], spec)
        loss = loss_fn(run_model(model, state, batch[0]), batch[1])
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1 or not loss.requires_grad:
            raise ModelError("the loss is no tensor of one element that depends on parameters; loss_fn has to give one")
        _check_backward(loss, with_optimizer=optimizer is not None)
        gradients = torch.autograd.grad(loss, [leaf[name] for name in trained], allow_unused=True)
        if any(g is not None and g.layout is not torch.strided for g in gradients):
            raise UnsupportedError("a gradient is sparse; make the embedding with sparse=False")
        with torch.no_grad():
            for name in buffers:  # the model may have put other tensors into their places
                if state[name] is not given[name]:
                    given[name].copy_(state[name])
            if optimizer is None:
                gradients = _apart(gradients, [leaf[name] for name in trained], [loss, *flat])
        return (loss.detach(), *gradients)

    module, set_by_step = trace(step, values, mode, (model, loss_fn))
    graph = module.graph
    measure_workspaces(graph, mode)
    output = next(n for n in graph.nodes if n.op == "output")
    loss, *found = output.args[0]
    gradients = {n: (k, g) for (n, k), g in zip(trained.items(), found, strict=True) if isinstance(g, Node)}
    updating: frozenset[Node] = frozenset()
    groups: tuple[ParameterGroup, ...] = ()
    if optimizer is not None:
        with graph.inserting_before(output):
            updating, groups = add_updates(graph, sources, gradients, optimizer, mode)
    graph.output((loss, *(() if optimizer else (g for _, g in gradients.values()))))
    graph.erase_node(output)
    _prune(graph)
    others = {k: v for k, v in enumerate(leaves) if not isinstance(v, torch.Tensor)}
    kind = type(optimizer) if optimizer is not None else None
    left = () if optimizer else tuple(gradients)
    module = GraphModule(module, graph)
    inputs = [n for n in graph.nodes if n.op == "placeholder"]
    written = _written(graph, inputs)
    program = StepProgram(
        module,
        tuple(sources),
        (spec, others),
        groups,
        kind,
        left,
        {name: p.requires_grad for name, p in parameters.items()},
        _members(parameters, optimizer),
        written,
        aliases([n.meta["val"] for n in inputs[: len(values)]], written),
        Surroundings.of(model, loss_fn, constants_of(module).values(), set_by_step),
    )
    return assemble(program, updating, type(model).__name__)


def run_model(model: torch.nn.Module, state: Mapping[str, torch.Tensor], given: Any) -> Any:
    """The model's output for the first half of a batch, with other parameters and buffers than its own."""
    if isinstance(given, dict):
        return functional_call(model, state, (), given)
    return functional_call(model, state, tuple(given) if isinstance(given, (tuple, list)) else (given,))


def _trained(parameters: Mapping[str, torch.nn.Parameter], optimizer: torch.optim.Optimizer | None) -> dict[str, int]:
    """The parameters that get a gradient, in the order of the optimizer, and the group of each."""
    found = {name: -1 for name, p in parameters.items() if optimizer is None and p.requires_grad}
    if optimizer is not None:
        names = {id(p): name for name, p in parameters.items()}
        for number, group in enumerate(optimizer.param_groups):
            for parameter in group["params"]:
                if id(parameter) not in names:
                    raise ModelError("the optimizer has a parameter that the model has not; capture its own model")
                if parameter.requires_grad:
                    found[names[id(parameter)]] = number
    if not found:
        raise ModelError("nothing is to be trained: no parameter requires a gradient")
    for name in found:
        if parameters[name].is_complex() and optimizer is not None:
            raise UnsupportedError(f"{name} is complex, whose updates are not captured; capture without an optimizer")
    return found


def _members(
    parameters: Mapping[str, torch.nn.Parameter], optimizer: torch.optim.Optimizer | None
) -> tuple[tuple[str, ...], ...]:
    """The names of all parameters of each group of the optimizer."""
    names = {id(p): name for name, p in parameters.items()}
    return tuple(tuple(names[id(p)] for p in g["params"]) for g in optimizer.param_groups) if optimizer else ()


def _refuse(
    model: torch.nn.Module,
    parameters: Mapping[str, torch.nn.Parameter],
    leaves: Sequence[Any],
    optimizer: torch.optim.Optimizer | None,
) -> None:
    """Raise UnsupportedError for what a captured step would leave out."""
    hooked = find_hook(parameters, optimizer)
    if hooked:
        raise UnsupportedError(f"{hooked} has hooks, which a captured step would not call; remove them")
    for index, leaf in enumerate(leaves):
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad:
            raise UnsupportedError(
                f"batch[{index}] requires a gradient, which a captured step would not give; detach it"
            )
    for part in model.modules():
        wrapper = next((kind.__name__ for kind in type(part).__mro__ if kind.__name__ in _WRAPPERS), None)
        if wrapper:
            raise UnsupportedError(
                f"{wrapper} synchronises gradients, which a captured step would not; capture its module"
            )


def _check_backward(loss: torch.Tensor, *, with_optimizer: bool) -> None:
    """Raise UnsupportedError if the backward pass does something that a captured step would not."""
    nodes, seen = [loss.grad_fn], set()
    while nodes:
        node = nodes.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node.name() == "CheckpointFunctionBackward":
            raise UnsupportedError("a checkpoint with use_reentrant=True cannot be traced; give it use_reentrant=False")
        owner = getattr(node, "variable", None)
        if owner is not None and not isinstance(owner, FakeTensor) and not with_optimizer:
            raise UnsupportedError(
                f"a tensor of {tuple(owner.shape)} that is no parameter of the model requires a gradient, which a "
                "captured step would not give; make it a parameter, or detach it"
            )
        nodes += [n for n, _ in node.next_functions]


def _written(graph: torch.fx.Graph, inputs: Sequence[Node]) -> frozenset[int]:
    """Which inputs of a step it writes, by number."""
    written = {s for n in graph.nodes if n.op == "call_function" for s in access(n).writes}
    return frozenset(k for k, node in enumerate(inputs) if not written.isdisjoint(storages(node)))


def _apart(
    gradients: Sequence[torch.Tensor | None], parameters: Sequence[torch.Tensor], others: Sequence[torch.Tensor]
) -> list[torch.Tensor | None]:
    """Gradients as PyTorch leaves them: each in memory of its own, in the form of its parameter."""
    taken = {t.untyped_storage()._cdata for t in others}  # noqa: SLF001
    found = []
    for gradient, parameter in zip(gradients, parameters, strict=True):
        own = gradient
        if own is not None and (own.untyped_storage()._cdata in taken or own.stride() != parameter.stride()):  # noqa: SLF001
            own = parameter.new_empty_strided(parameter.shape, parameter.stride()).copy_(own)
        if own is not None:
            taken.add(own.untyped_storage()._cdata)  # noqa: SLF001
        found.append(own)
    return found


def _prune(graph: torch.fx.Graph) -> None:
    """Remove what only matters to autograd, and what nothing reads."""
    for node in reversed(list(graph.nodes)):
        if node.target in _SAME:
            node.replace_all_uses_with(node.args[0])
        if not node.users and is_pure(node):
            graph.erase_node(node)
