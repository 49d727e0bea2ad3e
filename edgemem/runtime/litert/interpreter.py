"""LiteRT's interpreter running inside an arena of ours: LiteRT's own class with the same calls.

What runs plain is LiteRT's own interpreter and loads nothing of what plans need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from edgemem.errors import RuntimeBindError
from edgemem.runtime.litert.file import ModelSource, is_for_litert
from edgemem.runtime.litert.package import interpreter_class, op_resolvers
from edgemem.runtime.litert.pages import give_back

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from edgemem.replay.arena import Arena
    from edgemem.runtime.litert.arena_layout import ArenaLayout
    from edgemem.runtime.litert.delegate import Delegate
    from edgemem.runtime.litert.memory import InterpreterMemory, Mode
    from edgemem.runtime.litert.probe_data import Probe
    from edgemem.runtime.litert.request import Inputs, PlanRequest, Resized, WantedPlan

_LiteRT: Any = interpreter_class()
OpResolverType: Any = op_resolvers()

_BUILTIN: Any = (OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES, OpResolverType.BUILTIN_REF)

__all__ = ["Interpreter"]


_DELEGATED = "delegates, LiteRT's default ones among them, keep the tensors of their operators to themselves"
_PLAN_UNUSED = (
    "the plan in the file is not used, because a plan is for builtin kernels alone "
    "(experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES), under the target "
    "litert (`edgemem plan --target litert`)"
)


class Interpreter(_LiteRT):  # type: ignore[misc]
    """LiteRT's interpreter with its tensors, and its kernels' workspace, in one planned arena.

    It runs whatever LiteRT runs. What of it is planned depends on who runs the operators:

    - LiteRT's builtin kernels run inside a plan, workspace included. `experimental_op_resolver_type` chooses them, and
      where it is left at AUTO, a plan for LiteRT in the file, or `plan` or `strategy`.
    - Delegates, XNNPACK among them, which LiteRT adds by default, keep memory of their own: nothing is planned.
    - A model whose sizes depend on the data, or with branches and loops, runs in LiteRT's own memory.

    `memory` says which it was and why. All arguments and methods of `ai_edge_litert.interpreter.Interpreter`, and:

    Args:
        mode: `planned` runs builtin kernels inside a plan, `plain` leaves everything to LiteRT; None is `planned` where
            builtin kernels run the model, and else `plain`.
        inputs: `keep` them after a run, as LiteRT does, or `release` their memory to what comes after their last use:
            a smaller arena, but they must be set before every run. By default as the plan in the file has it; without
            one they are kept.
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
        inputs: Inputs | None = None,
        plan: WantedPlan = None,
        strategy: str | Sequence[str] | None = None,
        arena: Arena | None = None,
        refuse: Literal["raise", "plain"] | None = None,
        poison: bool = False,
        **experimental: Any,
    ) -> None:
        theirs = list(experimental_delegates or ())
        source = ModelSource(None if model_path is None else str(model_path), model_content)
        is_chosen = plan is not None or bool(strategy)
        in_file = source.plan()
        kernels = experimental_op_resolver_type
        is_open = kernels == OpResolverType.AUTO and not theirs and mode is None
        if is_open and not experimental_preserve_all_tensors and (is_chosen or (in_file and is_for_litert(in_file))):
            kernels = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        is_delegated = bool(theirs) or kernels not in _BUILTIN
        if is_delegated and (mode == "planned" or is_chosen) and refuse != "plain":
            raise RuntimeBindError(
                "a plan is for builtin kernels; give experimental_op_resolver_type="
                "OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES and no delegates"
            )
        self._arena = arena
        self._is_bound = False
        self._mapped = source.path if is_delegated else None
        self._reason = ""
        if mode == "plain":
            self._reason = "asked for"
        elif is_delegated:
            self._reason = _DELEGATED if in_file is None else f"{_DELEGATED}; {_PLAN_UNUSED}"
        elif experimental_preserve_all_tensors:
            self._reason = "every tensor is to be preserved, so none may share memory"
        others = {
            "model_path": source.path,
            "model_content": model_content,
            "num_threads": num_threads,
            "experimental_preserve_all_tensors": experimental_preserve_all_tensors,
            **experimental,
        }
        if not self._reason:
            from edgemem.runtime.litert.request import PlanRequest  # what runs plain needs none of it

            is_strict = refuse == "raise" or (refuse is None and (mode is not None or is_chosen))
            strategies = (strategy,) if isinstance(strategy, str) else tuple(strategy or ())
            options = None if experimental else {"kernels": kernels.name, "num_threads": num_threads}
            request = PlanRequest(plan, strategies, inputs, options, is_strict)
            self._bind(source, request, (kernels, experimental_op_resolver_type), others, poison=poison)
        if not self._is_bound:
            super().__init__(
                experimental_delegates=theirs or None,
                experimental_op_resolver_type=experimental_op_resolver_type,
                **others,
            )

    def _bind(
        self, source: ModelSource, request: PlanRequest, kinds: tuple[Any, Any], others: dict[str, Any], *, poison: bool
    ) -> None:
        """Run builtin kernels in an arena, or note the reason why it is not possible.

        Args:
            source: the model.
            request: which plan is wanted.
            kinds: the kernels that run inside a plan, and those that the caller has asked for, which run without one.
            others: LiteRT's other arguments.
            poison: as in `__init__`.
        """
        from edgemem.runtime.litert.binding import Binding
        from edgemem.runtime.litert.observation import observe

        kernels, asked = kinds

        def make(delegates: list[Any], which: Any = kernels) -> Any:
            return _LiteRT(experimental_delegates=delegates or None, experimental_op_resolver_type=which, **others)

        try:
            made, delegate = observe(make)
        except RuntimeBindError as e:
            if request.is_strict:
                raise
            self._reason = str(e)
            return

        def place(native: Any, resized: Resized) -> tuple[ArenaLayout, Probe]:
            from edgemem.runtime.litert.placement import place_tensors  # only once tensors are allocated

            return place_tensors(native, delegate, source, request, resized)

        # The attributes of LiteRT's class: delegates, the model's bytes, signatures. Only the native part is replaced.
        self.__dict__.update(made.__dict__)
        # No other reference may exist: LiteRT's class counts references to find views that are still held.
        self._interpreter = Binding(
            made._interpreter,  # noqa: SLF001
            delegate,
            place,
            self.arena,
            inputs_kept=request.inputs != "release",
            poison=poison,
            plain=None if request.is_strict else (lambda: make([], asked)),
            has_other_kernels=kernels != asked,
            file=source.path,
        )
        self._is_bound = True

    def allocate_tensors(self) -> None:
        """As LiteRT's. Where delegates have packed the weights, the file's pages are given back to the system."""
        super().allocate_tensors()
        if self._mapped is not None:
            give_back(self._mapped)

    @property
    def memory(self) -> InterpreterMemory:
        """The memory it runs in. Raises RuntimeBindError before tensors are allocated, unless it runs plain."""
        from edgemem.runtime.litert.memory import plain_memory

        memory: InterpreterMemory = self._interpreter.memory() if self._is_bound else plain_memory(self._reason)
        return memory

    @property
    def arena(self) -> Arena:
        """The arena it runs in; one that stays empty where it runs plain."""
        if self._arena is None:
            from edgemem.replay.arena import Arena

            self._arena = Arena()
        return self._arena

    @property
    def layout(self) -> ArenaLayout | None:
        """The place of each tensor in the arena; None before tensors are allocated and bound."""
        layout: ArenaLayout | None = self._interpreter.layout if self._is_bound else None
        return layout

    @property
    def delegate(self) -> Delegate | None:
        """The delegate that reads LiteRT's internal structures, for diagnosis; None where it runs plain."""
        delegate: Delegate | None = self._interpreter.delegate if self._is_bound else None
        return delegate
