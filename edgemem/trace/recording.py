"""What a recorded stream of requests belongs to: the runtime, the model, how it was called, and the stream itself."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from edgemem.trace.trace import Trace

__all__ = ["Fingerprint", "OptionText", "Recording", "Signature"]

OptionText: TypeAlias = "str | int | bool | float"


@dataclass(frozen=True, slots=True)
class Signature:
    """How a session is called. Every signature has a plan of its own.

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


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What a stream of requests depends on; a plan of the stream serves no other fingerprint.

    Attributes:
        runtime: the runtime's name, such as `onnxruntime`.
        version: of the runtime.
        model: digest of the model file without the plans in it.
        options: what else the runtime's requests depend on, by name: optimisation level, threads, providers.
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

    def differences(self, other: Fingerprint) -> tuple[str, ...]:
        """What differs, in words such as `version 1.30.0 instead of 1.31.1`; `other` is what is wanted."""
        mine, wanted = self._named(), other._named()
        return tuple(
            f"{name.replace('_', ' ')} {mine.get(name)} instead of {wanted.get(name)}"
            for name in dict.fromkeys((*mine, *wanted))
            if mine.get(name) != wanted.get(name)
        )

    def _named(self) -> dict[str, object]:
        own: dict[str, object] = {"runtime": self.runtime, "version": self.version, "model": self.model}
        called = {f"{f.name} of the call": getattr(self.signature, f.name) for f in fields(self.signature)}
        called["method"] = called.pop("call of the call")
        return own | dict(self.options) | called


@dataclass(frozen=True, slots=True, eq=False)
class Recording:
    """A recorded stream and what it belongs to.

    Attributes:
        fingerprint: what the stream depends on.
        trace: the stream. Times and threads are lost when it is stored.
    """

    fingerprint: Fingerprint
    trace: Trace
