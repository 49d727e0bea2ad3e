"""LiteRT's interpreter running inside an arena of ours: LiteRT's own class with the same calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from edgemem.errors import RuntimeBindError
from edgemem.replay.arena import Arena
from edgemem.runtime.litert.binding import Binding
from edgemem.runtime.litert.file import Source, is_for_litert
from edgemem.runtime.litert.memory import Memory, Mode
from edgemem.runtime.litert.observing import observe
from edgemem.runtime.litert.package import interpreter_class, op_resolvers
from edgemem.runtime.litert.placement import Boundary, Planned
from edgemem.runtime.litert.request import PlanRequest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from edgemem.runtime.litert.delegate import Delegate
    from edgemem.runtime.litert.placement import Placement
    from edgemem.runtime.litert.places import Layout
    from edgemem.runtime.litert.request import Inputs, WantedPlan

_LiteRT: Any = interpreter_class()
OpResolverType: Any = op_resolvers()

_BUILTIN: Any = (OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES, OpResolverType.BUILTIN_REF)

__all__ = ["Interpreter", "Memory", "Mode"]


def _computed(source: Source) -> frozenset[int]:
    """The tensors that a run computes and LiteRT would place in its arena."""
    from edgemem.runtime.litert.layout import open_tflite  # loads the planner, which other modes may not need
    from edgemem.runtime.litert.planned_here import computed_tensors, placed_by_litert
    from edgemem.runtime.litert.probe import probe

    data = source.data()
    return computed_tensors(open_tflite(data)) & placed_by_litert(probe(data))


class Interpreter(_LiteRT):  # type: ignore[misc]
    """LiteRT's interpreter with its tensors, and its kernels' workspace, in one planned arena.

    It runs whatever LiteRT runs. What of it is planned depends on who runs the operators:

    - LiteRT's builtin kernels run inside a plan, workspace included. `experimental_op_resolver_type` chooses them, and
      where it is left at AUTO, a plan for LiteRT in the file, or `plan` or `strategy`.
    - Delegates, XNNPACK among them, which LiteRT adds by default, keep memory of their own: only the tensors that they
      leave to LiteRT are in the arena.
    - A model whose sizes depend on the data, or with branches and loops, runs in LiteRT's own memory.

    `memory` says which it was and why. All arguments and methods of `ai_edge_litert.interpreter.Interpreter`, and:

    Args:
        mode: how to bind; None is `repoint` for builtin kernels and `boundary` where delegates take operators. `plain`
            leaves everything to LiteRT.
        inputs: `keep` them after a run, as LiteRT does, or `release` their memory to what comes after their last use:
            a smaller arena, but they must be set before every run. With a plan in the file, that plan decides.
        plan: `file` runs the plan in the file as it stands, proved against the model inside this LiteRT; `make` makes
            a new one; a plan set for this model under the target `litert` is proved and run. By default the plan in
            the file, if it can be run and no strategy is named, and else one that is made now; `memory.origin` and
            `memory.reason` say which, and why. Where inputs were resized, so that the file's plan is for other sizes,
            one is made with the file's settings.
        strategy: what a new plan is made with; quick ones by default.
        arena: to run in; one of its own by default.
        refuse: `raise` when the model cannot be bound or the plan cannot be run, or run it `plain`, in LiteRT's own
            memory. By default `raise` where `mode`, `plan` or `strategy` is given, and else `plain`.
        poison: fill the arena with a pattern before every run, so that reading unwritten memory shows in the outputs.

    Raises:
        RuntimeBindError: when it is made or its tensors are allocated, unless it runs plain instead: LiteRT's
            structures are not as expected, the sizes of tensors depend on the data, the arena is too small, or the
            plan in the file is not for LiteRT.
        InvalidPlanError: the plan is wrong, or not for this model.
        StalePlanError: the plan was made for another LiteRT, or for other sizes.
    """

    def __init__(
        self,
        model_path: str | Path | None = None,
        model_content: bytes | None = None,
        experimental_delegates: Sequence[Any] | None = None,
        num_threads: int | None = None,
        experimental_op_resolver_type: Any = OpResolverType.AUTO,
        experimental_preserve_all_tensors: bool = False,
        *,
        mode: Mode | None = None,
        inputs: Inputs = "keep",
        plan: WantedPlan = None,
        strategy: str | Sequence[str] | None = None,
        arena: Arena | None = None,
        refuse: Literal["raise", "plain"] | None = None,
        poison: bool = False,
        **experimental: Any,
    ) -> None:
        theirs = tuple(experimental_delegates or ())
        source = Source(None if model_path is None else str(model_path), model_content)
        is_chosen = plan is not None or bool(strategy)
        kernels = experimental_op_resolver_type
        if kernels == OpResolverType.AUTO and not theirs and mode is None and not experimental_preserve_all_tensors:
            encoded = None if is_chosen else source.plan()
            if is_chosen or (encoded is not None and is_for_litert(encoded)):
                kernels = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        delegates = bool(theirs) or kernels not in _BUILTIN
        chosen: Mode = mode or ("boundary" if delegates else "repoint")
        if chosen in ("custom", "repoint") and delegates:
            raise RuntimeBindError(
                f"mode {chosen!r} is for builtin kernels; give experimental_op_resolver_type="
                "OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES and no delegates"
            )
        reason = "asked for" if chosen == "plain" else ""
        if experimental_preserve_all_tensors and chosen != "plain":
            chosen, reason = "plain", "every tensor is to be preserved, so none may share memory"
        is_strict = refuse == "raise" or (refuse is None and (mode is not None or is_chosen))

        def make(ours: list[Any], *, inspect: bool = False, kernels: Any = kernels) -> Any:
            return _LiteRT(
                model_path=source.path,
                model_content=model_content,
                experimental_delegates=[*ours, *(() if inspect else theirs)] or None,
                num_threads=num_threads,
                experimental_op_resolver_type=kernels,
                experimental_preserve_all_tensors=experimental_preserve_all_tensors,
                **experimental,
            )

        def observed(ours: list[Any]) -> Any:
            return make(ours, inspect=not ours)

        delegate: Delegate | None = None
        if chosen != "plain":
            try:
                outside = _computed(source) if chosen == "custom" else ()
                made, delegate = observe(observed, outside=outside, has_delegates=bool(theirs))
            except RuntimeBindError as e:
                if is_strict:
                    raise
                chosen, reason = "plain", str(e)
        if delegate is None:
            made = make([])
        # The attributes of LiteRT's class: delegates, the model's bytes, signatures. Only the native part is replaced.
        self.__dict__.update(made.__dict__)
        strategies = (strategy,) if isinstance(strategy, str) else tuple(strategy or ())
        options = None if experimental else {"kernels": kernels.name, "num_threads": num_threads}
        request = PlanRequest(plan, strategies, inputs, options, is_strict)
        placement: Placement | None = None
        if delegate is not None:
            is_boundary = chosen == "boundary"
            placement = (
                Boundary(delegate, source, request) if is_boundary else Planned(chosen, delegate, source, request)
            )
        # No other reference may exist: LiteRT's class counts references to find views that are still held.
        self._interpreter = Binding(
            made._interpreter,  # noqa: SLF001
            placement,
            arena or Arena(),
            reason=reason,
            inputs_kept=inputs == "keep" or chosen == "boundary",
            poison=poison,
            # Where there is no plan after all, the kernels are those that the caller has asked for.
            plain=None if is_strict else (lambda: make([], kernels=experimental_op_resolver_type)),
            has_other_kernels=kernels != experimental_op_resolver_type,
            is_shared=arena is not None,
            file=source.path,
        )

    @property
    def memory(self) -> Memory:
        """The memory it runs in. Raises RuntimeBindError before tensors are allocated."""
        memory: Memory = self._interpreter.memory()
        return memory

    @property
    def arena(self) -> Arena:
        """The arena it runs in."""
        arena: Arena = self._interpreter.arena
        return arena

    @property
    def layout(self) -> Layout | None:
        """The place of each tensor in the arena; None before tensors are allocated and bound."""
        layout: Layout | None = self._interpreter.layout
        return layout

    @property
    def delegate(self) -> Delegate | None:
        """The delegate that reads LiteRT's internal structures, for diagnosis."""
        placement: Placement | None = self._interpreter.placement
        return placement.delegate if placement else None
