"""What a recorded stream of requests belongs to: the runtime, the model, how it was called, and the stream itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from edgemem.trace.trace import Trace

__all__ = ["REUSE", "Fingerprint", "OptionText", "Recording", "Signature"]

OptionText: TypeAlias = "str | int | bool | float"

# The option of a recording that is there, and true, where ONNX Runtime's own reuse was on.
REUSE: Final = "reuse"
# Options that change the sizes of some requests at most; a run inside a plan checks the size of every request.
_NOT_DECISIVE: Final = frozenset({"intra_threads", "inter_threads"})


@dataclass(frozen=True, slots=True)
class Signature:
    """How a session is called.

    Attributes:
        call: the method.
        inputs: (name, element type, shape) of what is fed, sorted by name.
        outputs: names asked for; () for all.
        bound: whether results live in the arena and `run` returns copies of them.
        shared: whether results live in the arena and stay there while the caller holds them.
    """

    call: str
    inputs: tuple[tuple[str, str, tuple[int, ...]], ...]
    outputs: tuple[str, ...] = ()
    bound: bool = False
    shared: bool = False

    @property
    def family(self) -> Hashable:
        """Equal for calls that differ in their shapes alone: one plan may serve them all."""
        return self.call, tuple(name for name, _, _ in self.inputs), self.outputs, self.bound, self.shared

    @property
    def is_repeatable(self) -> bool:
        """Whether a call that failed midway may be made again: bound outputs may lie on inputs, and change them."""
        return self.call != "run_with_iobinding"


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a stream of requests depends on.

    Attributes:
        runtime: the runtime's name, such as `onnxruntime`.
        version: of the runtime.
        model: digest of the model file without the plans in it.
        options: what else the runtime's requests depend on, by name: optimisation level, threads, providers. The
            numbers of threads tell how it was recorded; a plan is tried with any.
        signature: how the session was called.
    """

    runtime: str
    version: str
    model: str
    options: Mapping[str, OptionText] = field(default_factory=dict)
    signature: Signature = Signature("", ())

    @property
    def key(self) -> Hashable:
        """Equal for equal fingerprints, and only for those; hashable, which a fingerprint with its options is not."""
        return self.runtime, self.version, self.model, tuple(sorted(self.options.items())), self.signature

    @property
    def keeps_reuse(self) -> bool:
        """Whether the runtime reused memory by itself, as ONNX Runtime does where only its Java API is there."""
        return bool(self.options.get(REUSE))

    @property
    def session(self) -> Hashable:
        """Equal for sessions that may run each other's plans, whatever they are called with."""
        options = tuple(sorted((n, v) for n, v in self.options.items() if n not in _NOT_DECISIVE))
        return self.runtime, self.version, self.model, options

    def differences(self, other: Fingerprint) -> tuple[str, ...]:
        """What keeps a plan from being tried, in words such as `version 1.30.0 instead of 1.31.1`.

        `other` is what is wanted. Shapes and numbers of threads are no reason: requests that do not fit are served by
        the heap.
        """
        mine, wanted = self._named(), other._named()
        return tuple(
            f"{name.replace('_', ' ')} {mine.get(name)} instead of {wanted.get(name)}"
            for name in dict.fromkeys((*mine, *wanted))
            if mine.get(name) != wanted.get(name)
        )

    def _named(self) -> dict[str, object]:
        called = self.signature
        decisive = {name: value for name, value in self.options.items() if name not in _NOT_DECISIVE}
        return {
            "runtime": self.runtime,
            "version": self.version,
            "model": self.model,
            **decisive,
            "method": called.call,
            "inputs of the call": tuple(name for name, _, _ in called.inputs),
            "outputs of the call": called.outputs,
            "bound of the call": called.bound,
            "shared of the call": called.shared,
        }


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """A recorded stream and what it belongs to.

    Attributes:
        fingerprint: what the stream depends on.
        trace: the stream. Times and threads are lost when it is stored.
    """

    fingerprint: Fingerprint
    trace: Trace
