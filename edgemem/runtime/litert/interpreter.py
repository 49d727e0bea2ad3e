"""LiteRT's interpreter running inside an arena of ours: LiteRT's own class with the same calls."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from edgemem.errors import RuntimeBindError
from edgemem.replay.arena import Arena
from edgemem.runtime.litert.binding import Binding
from edgemem.runtime.litert.layout import open_tflite
from edgemem.runtime.litert.memory import Memory, Mode
from edgemem.runtime.litert.package import interpreter_class, op_resolvers
from edgemem.runtime.litert.placement import PlanRequest, computed_tensors, placed_by_litert, placement_for
from edgemem.runtime.litert.probe import observe, probe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from edgemem.runtime.litert.delegate import Delegate
    from edgemem.runtime.litert.layout import Inputs, Layout, WantedPlan
    from edgemem.runtime.litert.placement import Placement

_LiteRT: Any = interpreter_class()
OpResolverType: Any = op_resolvers()

__all__ = ["Interpreter", "Memory", "Mode"]


class Interpreter(_LiteRT):  # type: ignore[misc]
    """LiteRT's interpreter with its tensors, and its kernels' workspace, in one planned arena.

    All arguments and methods of `ai_edge_litert.interpreter.Interpreter`, and:

    Args:
        mode: how to bind; None is `repoint` for builtin kernels and `boundary` where delegates take operators, which
            LiteRT's default kernels do. `plain` leaves everything to LiteRT.
        inputs: `keep` them after a run, as LiteRT does, or `release` their memory to what comes after their last use:
            a smaller arena, but they must be set before every run. With a plan in the file, that plan decides.
        plan: `file` runs the plan in the file as it stands, proved against the model inside this LiteRT; `make` makes
            a new one; a plan set for this model under the target `litert` is proved and run. By default `file` where
            the file carries a plan and no strategy is named, and `make` elsewhere. Where inputs were resized, so that
            the file's plan is for other sizes, one is made with the file's settings. `memory.origin` says which plan
            runs. Builtin kernels alone run a plan; with delegates `memory.reason` says that it is not used.
        strategy: what a new plan is made with; quick ones by default.
        arena: to run in; one of its own by default.
        refuse: `raise` when the model cannot be bound or the plan cannot be run, or run it `plain`.
        poison: fill the arena with a pattern before every run, so that reading unwritten memory shows in the outputs.

    Raises:
        RuntimeBindError: when it is made or its tensors are allocated: LiteRT's structures are not as expected, the
            sizes of tensors depend on the data, the arena is too small, or the plan in the file is not for LiteRT.
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
        refuse: Literal["raise", "plain"] = "raise",
        poison: bool = False,
        **experimental: Any,
    ) -> None:
        theirs = tuple(experimental_delegates or ())
        builtin = (OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES, OpResolverType.BUILTIN_REF)
        delegates = bool(theirs) or experimental_op_resolver_type not in builtin
        path = None if model_path is None else str(model_path)
        chosen: Mode = mode or ("boundary" if delegates else "repoint")
        if chosen in ("custom", "repoint") and delegates:
            raise RuntimeBindError(
                f"mode {chosen!r} is for builtin kernels; give experimental_op_resolver_type="
                "OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES and no delegates"
            )
        reason = "asked for" if chosen == "plain" else ""
        if experimental_preserve_all_tensors and chosen != "plain":
            chosen, reason = "plain", "every tensor is to be preserved, so none may share memory"

        def make(ours: list[Any], *, inspect: bool = False) -> Any:
            return _LiteRT(
                model_path=path,
                model_content=model_content,
                experimental_delegates=[*ours, *(() if inspect else theirs)] or None,
                num_threads=num_threads,
                experimental_op_resolver_type=experimental_op_resolver_type,
                experimental_preserve_all_tensors=experimental_preserve_all_tensors,
                **experimental,
            )

        def observed(ours: list[Any]) -> Any:
            return make(ours, inspect=not ours)

        data = model_content if model_content is not None else Path(str(path)).read_bytes()
        delegate: Delegate | None = None
        if chosen != "plain":
            try:
                outside = (
                    computed_tensors(open_tflite(data)) & placed_by_litert(probe(data)) if chosen == "custom" else ()
                )
                made, delegate = observe(observed, outside=outside)
            except RuntimeBindError as e:
                if refuse == "raise":
                    raise
                chosen, reason = "plain", str(e)
        if delegate is None:
            made = make([])
        # The attributes of LiteRT's class: delegates, the model's bytes, signatures. Only the native part is replaced.
        self.__dict__.update(made.__dict__)
        strategies = (strategy,) if isinstance(strategy, str) else tuple(strategy or ())
        request = PlanRequest(plan, strategies, inputs)
        # No other reference may exist: LiteRT's class counts references to find views that are still held.
        self._interpreter = Binding(
            made._interpreter,  # noqa: SLF001
            placement_for(chosen, delegate, open_tflite(data), request) if delegate else None,
            arena or Arena(),
            reason=reason,
            inputs_kept=inputs == "keep" or chosen == "boundary",
            poison=poison,
            plain=(lambda: make([])) if refuse == "plain" else None,
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
