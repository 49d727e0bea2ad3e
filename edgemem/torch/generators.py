"""Whether anything but its operators moves a random generator while a training step is traced.

A trace holds operators that draw random numbers, but not what is done to a generator's state between them: seeds,
states that are taken and set again, copies. Each leaves the generator in a state that it would not have otherwise:

    trace    dropout    fork: take A', set B    dropout    set A'
    state    A -> A'    B                       is not A': refused

While a step is traced operators draw nothing. Here each leaves its generator in a state that was never there before.
"""

from __future__ import annotations

import random as python_random
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from edgemem.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

__all__ = ["GeneratorWatch"]

_SEEDS: Final = count(0x5EED << 32)  # none is used twice in a process


class GeneratorWatch:
    """Watches generators over several traces, and gives them and those of Python and NumPy their states back.

        with GeneratorWatch(generators) as watch:
            with watch.operators():
                ...  # trace
            watch.check()

    Args:
        generators: to be watched from the beginning, besides the default ones. Others are once an operator draws from
            them.
    """

    def __init__(self, generators: Iterable[torch.Generator]) -> None:
        defaults = [torch.default_generator, *(torch.cuda.default_generators if torch.cuda.is_initialized() else ())]
        self._given = [*defaults, *generators]
        # By the number of a generator itself: operators get other objects for it.
        self._first: dict[int, tuple[torch.Generator, torch.Tensor]] = {}
        self._expected: dict[int, bytes] = {}

    def __enter__(self) -> Self:
        self._others = python_random.getstate(), np.random.get_state()  # noqa: NPY002 - what a model may use
        for generator in self._given:
            self._begin(generator)
        return self

    def __exit__(self, *_: object) -> None:
        for generator, state in self._first.values():
            generator.set_state(state)
        python_random.setstate(self._others[0])
        np.random.set_state(self._others[1])  # noqa: NPY002

    def operators(self) -> TorchDispatchMode:
        """The mode that sees the operators of a trace."""
        return _Draws(self)

    def draw(self, generator: torch.Generator) -> None:
        """An operator draws from a generator. Raises UnsupportedError if something else has moved it."""
        if generator._cdata not in self._expected:  # noqa: SLF001
            self._begin(generator)
        elif _state(generator) != self._expected[generator._cdata]:  # noqa: SLF001
            raise UnsupportedError(
                "the training step sets or seeds a random generator (as torch.utils.checkpoint does before it draws "
                "numbers again, fork_rng and manual_seed), which a captured step would not; capture it without dropout "
                "there, or draw the numbers outside of the step"
            )
        self._move(generator)

    def check(self) -> None:
        """Raise UnsupportedError if anything but an operator has moved a generator since the beginning."""
        for number, (generator, _) in self._first.items():
            if _state(generator) != self._expected[number]:
                raise UnsupportedError(
                    "the training step leaves a random generator as it has set or seeded it, which a captured "
                    "step would not; set and seed generators outside of the step"
                )
            self._move(generator)  # what reads a state or a seed gets others in the next trace
        mine = python_random.getstate(), np.random.get_state()  # noqa: NPY002
        if repr(mine) != repr(self._others):
            raise UnsupportedError(
                "the training step draws random numbers of Python or NumPy, which a captured step would not draw "
                "again; draw them with PyTorch, or outside of the step"
            )

    def _begin(self, generator: torch.Generator) -> None:
        with _disable_current_modes():
            self._first.setdefault(generator._cdata, (generator, generator.get_state()))  # noqa: SLF001
        self._move(generator)

    def _move(self, generator: torch.Generator) -> None:
        generator.manual_seed(next(_SEEDS))
        self._expected[generator._cdata] = _state(generator)  # noqa: SLF001


class _Draws(TorchDispatchMode):
    """Tells a watch which generator each operator draws from."""

    supports_higher_order_operators = True

    def __init__(self, watch: GeneratorWatch) -> None:
        super().__init__()
        self._watch = watch

    def __torch_dispatch__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded in getattr(func, "tags", ()):
            given = [v for v in (*args, *kwargs.values()) if isinstance(v, torch.Generator)]
            for generator in given or _defaults(args, kwargs):
                self._watch.draw(generator)
        return func(*args, **kwargs)


def _defaults(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Generator]:
    """The default generator of the device that an operator runs on."""
    devices = [v.device for v in args if isinstance(v, torch.Tensor)]
    device = torch.device(kwargs.get("device") or (devices[0] if devices else "cpu"))
    if device.type != "cuda":
        return [torch.default_generator]
    found = torch.cuda.default_generators
    return [found[device.index if device.index is not None else torch.cuda.current_device()]] if found else []


def _state(generator: torch.Generator) -> bytes:
    with _disable_current_modes():
        state: bytes = generator.get_state().numpy().tobytes()
    return state
