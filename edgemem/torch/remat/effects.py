"""What an operator of PyTorch does besides giving results: which arguments it writes, and whether it may run again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["Effect", "effect_of", "is_accumulating"]

# Batch normalisations write these in training, most of them without a word in their schemas, and read them otherwise.
_STATISTICS: Final = ("running_mean", "running_var")
_IS_TRAINING: Final = ("training", "train", "use_input_stats")
# They give the memory of an argument, though their schemas do not say so.
_HIDDEN_VIEWS: Final = ("aten::_unsafe_view",)
# They give a tensor another storage, or a storage other memory.
_MOVING: Final = ("set_", "resize_", "resize_as_", "resize", "_resize_output_", "set_data")
# Cost that grows faster than the bytes of the results (Coop, section 3.4).
_EXPENSIVE: Final = ("conv", "mm", "matmul", "dot", "linear", "attention", "rnn", "lstm", "gru", "einsum", "mv")
_NAMESPACES: Final = ("aten", "prims", "torchvision")  # whose schemas tell the truth


@dataclass(frozen=True, slots=True)
class Effect:
    """What one operator does.

    Attributes:
        name: such as "aten.add.Tensor".
        is_view: it reads and writes no memory: results name the memory of arguments.
        is_detached: it is the view that takes a tensor from autograd.
        is_moving: it may give an argument other memory.
        is_random: it draws from a generator.
        is_repeatable: run again with the same arguments, and with the same state of its generator, it gives the same.
        is_expensive: its cost grows faster than the bytes of its results.
        writes: position and name of the arguments that it writes.
        statistics: the same of running statistics, which it writes in training, or does not use then.
        is_backward: it does not write them.
        training: the same of the argument that says whether it is training; None: it always is.
        generator: the same of the generator that it draws from; None: it has no such argument.
    """

    name: str
    is_view: bool = False
    is_detached: bool = False
    is_moving: bool = False
    is_random: bool = False
    is_repeatable: bool = True
    is_expensive: bool = False
    writes: tuple[tuple[int, str], ...] = ()
    statistics: tuple[tuple[int, str], ...] = ()
    is_backward: bool = False
    training: tuple[int, str] | None = None
    generator: tuple[int, str] | None = None

    def written(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
        """The tensors among the arguments that it writes, without running statistics."""
        return _tensors(self.writes, args, kwargs)

    def written_statistics(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
        """The running statistics that its results do not depend on: it writes them, or does not use them."""
        if not self.statistics:
            return []
        if self.training is not None and not _argument(self.training, args, kwargs):
            return []
        return _tensors(self.statistics, args, kwargs)

    def drawn_from(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Generator | None:
        """The generator that it draws from; None if it draws from none."""
        if not self.is_random:
            return None
        given = None if self.generator is None else _argument(self.generator, args, kwargs)
        return torch.default_generator if given is None else given


_known: dict[Any, Effect] = {}


def effect_of(func: Callable[..., Any]) -> Effect:
    """What an operator does, from its schema, its tags, and what is known of it."""
    found = _known.get(func)
    if found is None:
        found = _known[func] = _read(func)
    return found


def is_accumulating() -> bool:
    """Whether autograd is giving a leaf its gradient, which the program holds until its optimizer has run."""
    if torch._C._current_graph_task_id() < 0:  # noqa: SLF001 - it is not running
        return False
    node = torch._C._current_autograd_node()  # noqa: SLF001
    return node is not None and node.name() == "torch::autograd::AccumulateGrad"


def _read(func: Any) -> Effect:
    schema = getattr(func, "_schema", None)
    if schema is None:  # of higher order
        return Effect(str(func), is_repeatable=False)
    base = schema.name.partition("::")[2]
    tags = func.tags
    places = [(k, a.name) for k, a in enumerate(schema.arguments)]
    statistics = tuple(p for p in places if p[1] in _STATISTICS)
    written = {
        (k, a.name) for k, a in enumerate(schema.arguments) if a.alias_info is not None and a.alias_info.is_write
    }
    is_moving = base in _MOVING
    generator = next((p for p, a in zip(places, schema.arguments, strict=True) if "Generator" in str(a.type)), None)
    returns = schema.returns
    is_alias = bool(returns) and all(r.alias_info is not None and not r.alias_info.is_write for r in returns)
    own = {
        torch.Tag.nondeterministic_bitwise,
        *([] if statistics else [torch.Tag.maybe_aliasing_or_mutating]),
    }
    return Effect(
        name=str(func),
        is_view=(
            not is_moving
            and not _is_composite(func)
            and ((is_alias and not written) or schema.name in _HIDDEN_VIEWS or torch.Tag.inplace_view in tags)
        ),
        is_detached=schema.name == "aten::detach",
        is_moving=is_moving,
        is_random=torch.Tag.nondeterministic_seeded in tags or generator is not None,
        is_repeatable=func.namespace in _NAMESPACES and not own.intersection(tags),
        is_expensive=any(word in base for word in _EXPENSIVE),
        writes=tuple(p for p in places if p in written and p not in statistics),
        statistics=statistics,
        is_backward="backward" in base,
        training=next((p for p in places if p[1] in _IS_TRAINING), None),
        generator=generator,
    )


def _is_composite(func: Any) -> bool:
    """Whether it is made of other operators, and so may copy: one that is not reaches a mode only without autograd."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"))  # noqa: SLF001


def _argument(place: tuple[int, str], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    position, name = place
    return args[position] if position < len(args) else kwargs.get(name)


def _tensors(places: Sequence[tuple[int, str]], args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for place in places:
        value = _argument(place, args, kwargs)
        items = value if isinstance(value, (list, tuple)) else (value,)
        found += [item for item in items if isinstance(item, torch.Tensor)]
    return found
