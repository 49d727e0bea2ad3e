"""Which file a session's weights come from: packed ones beside the model, or the model itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from edgemem.replay.logger import logger
from edgemem.runtime.onnxruntime.file import WEIGHTS_KEY, Later, digest_later, digest_of, metadata_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from edgemem.planfile.protobuf import Content
    from edgemem.runtime.onnxruntime.weights.mapped import MappedWeights

__all__ = ["SessionWeights"]

_SMALL: Final = 1 << 20  # bytes, whose digest takes a millisecond; a thread takes 0.3 MiB of the process


class SessionWeights:
    """The weights of one session.

    Args:
        path_or_bytes: the model.
        data: its bytes.
        options: the session's, as they are when it is made.
        providers: of the session.
        kwargs: what else ONNX Runtime is given.

    Attributes:
        level: the optimisation level of the graph that runs.
    """

    def __init__(
        self,
        path_or_bytes: str | bytes | os.PathLike[str],
        data: Content,
        options: Any,
        providers: Sequence[Any] | None,
        kwargs: Mapping[str, Any],
    ) -> None:
        self._model, self._size, self._options = path_or_bytes, len(data), options
        self.level: str = options.graph_optimization_level.name
        self._mapped: MappedWeights | None = None
        if not isinstance(path_or_bytes, bytes) and metadata_of(data, (WEIGHTS_KEY,)):
            from edgemem.runtime.onnxruntime.weights.mapped import UnusableError, find_mapped  # only for these files

            try:
                self._mapped = find_mapped(path_or_bytes, data, options, providers, kwargs)
            except UnusableError as e:
                self._warn(str(e), packing_helps=e.packing_helps)
        self._later: Later | None = None

    def begin_digest(self) -> None:
        """Compute the digest of the model beside the caller, unless it is known with the packed weights.

        That of a small model is computed when it is asked for.
        """
        if self._mapped is None and self._size > _SMALL:
            self._later = digest_later(self._model)

    def load(self, make: Callable[[str | bytes | os.PathLike[str]], Any]) -> Any:
        """ONNX Runtime's session of the packed weights, or of the model where they are not there or not right."""
        if self._mapped is not None:
            try:
                with self._mapped.options(self._options):
                    session = make(self._mapped.graph)
            except Exception as e:  # noqa: BLE001 - ONNX Runtime's own classes; the model's error is raised below
                self._warn(str(e).partition("\n")[0])
            else:
                if self._mapped.is_unchanged():
                    return session
                self._warn("they changed while they were loaded")
            self._mapped = None
        return make(self._model)

    def digest(self) -> str:
        """The digest of the model, as `model_digest` has it, whichever weights are used."""
        if self._mapped is not None:
            return self._mapped.digest
        return self._later.result() if self._later is not None else digest_of(self._model)

    def _warn(self, why: str, *, packing_helps: bool = True) -> None:
        remedy = "pack them again with: edgemem plan MODEL.onnx --weights mapped -o PLANNED.onnx"
        if not packing_helps:
            remedy = "a session without this option uses them"
        text = "the packed weights beside %s are not used, and its plain ones are: %s; %s"
        logger().warning(text, self._model, why, remedy)
