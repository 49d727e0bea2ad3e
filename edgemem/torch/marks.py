"""Marks in a model: they tell the recorder which module's forward or backward pass makes a request.

A phase is the forward or the backward pass of a microbatch: phase 2m and 2m + 1 for microbatch m. Each marked module
has a section in it. The backward section of a module begins when the gradient of its output is there, which hooks on
the autograd nodes of the output tell. Backward hooks of modules would put nodes of their own between, and in-place
operators fail behind those.
"""

from __future__ import annotations

import threading
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from edgemem.errors import ModelError
from edgemem.torch.sections import SECTIONS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["ModelHooks", "mark"]

_NOTE = "edgemem"  # the key among a node's metadata
_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)


def mark(
    model: nn.Module, *, layers: str | Sequence[str] | None = None, dynamic: str | Sequence[str] = ()
) -> ModelHooks:
    """Let traces tell forward from backward, microbatches, and the layers of a model.

    Requests of dynamic layers may differ in size from one iteration to the next without being misses: they are placed
    where the plan leaves room while the layer runs (a mixture of experts).

    Args:
        model: its parameters and results do not change.
        layers: a pattern of names as in `model.named_modules()`, such as "blocks.*", or several; without them the
            outermost modules in `Sequential`, `ModuleList` and `ModuleDict`.
        dynamic: a pattern, or several, of names of modules whose requests depend on the data.

    Returns:
        The marks, which `remove` takes off.

    Raises:
        ModelError: no module has a name of that pattern.
    """
    chosen = dict.fromkeys(_matching(model, layers), False) if layers is not None else _layers(model)
    for name in _matching(model, dynamic):
        module = model.get_submodule(name)
        # A list of modules is not called itself.
        parts = [f"{name}.{child}" for child, _ in module.named_children()]
        is_list = isinstance(module, (nn.ModuleList, nn.ModuleDict))
        chosen |= dict.fromkeys(parts if is_list else [name], True)
    chosen.pop("", None)
    return ModelHooks(model, chosen)


def _matching(model: nn.Module, patterns: str | Sequence[str]) -> Iterator[str]:
    names = [name for name, _ in model.named_modules()]
    for pattern in (patterns,) if isinstance(patterns, str) else patterns:  # a string is a sequence of strings, too
        found = [name for name in names if fnmatchcase(name, pattern)]
        if not found:
            raise ModelError(
                f"no module of {type(model).__name__} is named like {pattern!r}; see model.named_modules()"
            )
        yield from found


def _layers(model: nn.Module) -> dict[str, bool]:
    chosen: dict[str, bool] = {}
    for name, module in model.named_modules():
        parts = name.split(".")
        if isinstance(module, _CONTAINERS) and not any(".".join(parts[:k]) in chosen for k in range(1, len(parts) + 1)):
            chosen |= {f"{name}.{child}".lstrip("."): False for child, _ in module.named_children()}
    return chosen


class ModelHooks:
    """The hooks of one model. They do nothing while no session runs.

    Args:
        model: the root; a pass of it is a microbatch.
        chosen: whether requests are dynamic, by name of the module below the root.
    """

    def __init__(self, model: nn.Module, chosen: dict[str, bool]) -> None:
        self._thread = threading.local()
        self._handles: list[Any] = []
        self._hook(model, "", is_dynamic=False)
        for name, is_dynamic in chosen.items():
            self._hook(model.get_submodule(name), name, is_dynamic=is_dynamic)
        self._handles.append(register_optimizer_step_pre_hook(_begin_update))
        self._handles.append(register_optimizer_step_post_hook(_end_update))

    def remove(self) -> None:
        """Take the hooks off; again does nothing."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _hook(self, module: nn.Module, name: str, *, is_dynamic: bool) -> None:
        def before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            if SECTIONS.is_followed:
                self._begin(name, is_dynamic, (*args, *kwargs.values()))

        def after(_: nn.Module, __: Any, output: Any) -> None:
            if self._passes:
                self._end(name, output)

        self._handles.append(module.register_forward_pre_hook(before, with_kwargs=True))
        self._handles.append(module.register_forward_hook(after, always_call=True))

    @property
    def _passes(self) -> list[_Pass]:
        """The passes of marked modules that the calling thread is in, the outermost first."""
        if not hasattr(self._thread, "passes"):
            self._thread.passes = []
        passes: list[_Pass] = self._thread.passes
        return passes

    def _begin(self, name: str, is_dynamic: bool, inputs: tuple[Any, ...]) -> None:
        passes = self._passes
        if not name:
            passes.clear()  # of a pass that an exception ended
        outer = passes[-1] if passes else None
        if outer is None:
            # A module that autograd runs again (activation checkpointing) belongs to the backward pass that is on.
            again = torch._C._current_graph_task_id() != -1  # noqa: SLF001 - the only place that tells it
            if again:
                microbatch = SECTIONS.phase // 2
            else:
                microbatch = max(SECTIONS.microbatch - 1, 0) if name else _microbatch()
        else:
            again, microbatch = outer.is_again, outer.microbatch
        way = "forward again" if again else "forward" if torch.is_grad_enabled() else "evaluation"
        label = name or "model"
        is_dynamic = is_dynamic or (outer is not None and outer.is_dynamic)
        section = SECTIONS.number(f"{label} {way}", 2 * microbatch + again, is_dynamic=is_dynamic)
        back = SECTIONS.number(f"{label} backward", 2 * microbatch + 1, is_dynamic=is_dynamic)
        passes.append(_Pass(name, section, back, SECTIONS.now, microbatch, is_dynamic, again))
        if torch.is_grad_enabled() and outer is not None:
            # Where the gradient of an input is there, the module's backward pass has ended.
            _note(inputs, outer.back)
        SECTIONS.enter(section)

    def _end(self, name: str, output: Any) -> None:
        passes = self._passes
        while passes:
            ended = passes.pop()
            if ended.name == name:
                break
        else:
            return
        if torch.is_grad_enabled():
            _note((output,), ended.back)
        SECTIONS.enter(ended.before if passes or ended.is_again else -1)


class _Pass:
    """A pass of a marked module that is on."""

    __slots__ = ("back", "before", "is_again", "is_dynamic", "microbatch", "name", "section")

    def __init__(
        self, name: str, section: int, back: int, before: int, microbatch: int, is_dynamic: bool, is_again: bool
    ) -> None:
        self.name, self.section, self.back, self.before = name, section, back, before
        self.microbatch, self.is_dynamic, self.is_again = microbatch, is_dynamic, is_again


def _microbatch() -> int:
    """The number of the pass of the model that begins; evaluations do not count."""
    return SECTIONS.next_microbatch() if torch.is_grad_enabled() else SECTIONS.microbatch


def _note(values: Any, section: int) -> None:
    """Enter a section when autograd comes to the nodes that made these tensors, if nothing was noted there before."""
    if isinstance(values, torch.Tensor):
        node = values.grad_fn
        if node is not None and _NOTE not in node.metadata:
            node.metadata[_NOTE] = section
            node.register_prehook(lambda _: SECTIONS.enter(section))
    elif isinstance(values, (tuple, list)):
        for value in values:
            _note(value, section)
    elif isinstance(values, dict):
        for value in values.values():
            _note(value, section)


def _begin_update(*_: Any) -> None:
    if SECTIONS.is_followed:
        SECTIONS.enter(SECTIONS.number("update", 2 * max(SECTIONS.microbatch, 1)))


def _end_update(*_: Any) -> None:
    SECTIONS.enter(-1)
