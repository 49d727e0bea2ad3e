"""The packed weights that a session uses in place of the plain ones in its model, or why it does not."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import PlanFileError
from edgemem.runtime.onnxruntime.weights.checking import (
    CheckedWeights,
    UnusableError,
    check,
    checks_folder,
    identity_of,
)
from edgemem.runtime.onnxruntime.weights.note import Note, note_in, place_here

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from edgemem.planfile.protobuf import Content

__all__ = ["MappedWeights", "UnusableError", "find_mapped"]

# Entries of a session's configuration that change its graph or what its kernels pack.
_GRAPH_ENTRIES: Final = (
    "session.disable_prepacking",
    "session.disable_quant_qdq",
    "session.disable_double_qdq_remover",
    "session.enable_quant_qdq_cleanup",
    "session.enable_dq_matmulnbits_fusion",
    "session.disable_aot_function_inlining",
    "session.qdqisint8allowed",
    "session.x64quantprecision",
    "session.qdq_matmulnbits_accuracy_level",
    "session.qdq_matmulnbits_block_size",
    "optimization.enable_gelu_approximation",
    "optimization.enable_cast_chain_elimination",
    "optimization.disable_specified_optimizers",
    "optimization.minimal_build_optimizations",
    "optimization.memory_optimizer_config",
    "mlas.enable_gemm_fastmath_arm64_bfloat16",
    "mlas.disable_kleidiai",
    "mlas.use_lut_gemm",
)


class MappedWeights:
    """Packed weights that were right when they were checked.

    Attributes:
        graph: the file that ONNX Runtime opens.
        digest: of the plain model, as `model_digest` has it.
    """

    def __init__(self, model: Path, note: Note, checked: CheckedWeights) -> None:
        self._model, self._note, self._identity = model, note, checked.identity
        self.graph = str(note.files(model)[0])
        self.digest = checked.model

    @staticmethod
    @contextmanager
    def options(options: Any) -> Iterator[None]:
        """Sets a session's options so that the graph runs as it stands, and restores them.

        ONNX Runtime saves a graph's nodes in the order in which it runs them. Sorted or optimised once more, they could
        run in another order than those of the plain model, whose recorded plans would not fit.
        """
        before = options.graph_optimization_level, options.execution_order
        try:
            options.graph_optimization_level = type(before[0]).ORT_DISABLE_ALL
            options.execution_order = type(before[1]).PRIORITY_BASED
            yield
        finally:
            options.graph_optimization_level, options.execution_order = before

    def is_unchanged(self) -> bool:
        """Whether the files are still those that were checked."""
        try:
            return identity_of(self._model, self._note) == self._identity
        except (OSError, UnusableError):
            return False


def find_mapped(
    path: str | os.PathLike[str],
    data: Content,
    options: Any,
    providers: Sequence[Any] | None,
    kwargs: Mapping[str, Any],
) -> MappedWeights | None:
    """The packed weights of a model for a session; None for a model without any.

    Args:
        path: the model.
        data: its bytes.
        options: the session's, with the level that it will have.
        providers: those that it is made with, None for those in the options.
        kwargs: what else ONNX Runtime is given.

    Raises UnusableError for packed weights that are not for this session, or are wrong.
    """
    try:
        note = note_in(data)
    except PlanFileError as e:
        raise UnusableError(str(e)) from None
    if note is None:
        return None
    import onnxruntime

    available = onnxruntime.get_available_providers()
    named = [p if isinstance(p, str) else p[0] for p in providers or ()]
    level = options.graph_optimization_level.name
    here = place_here(onnxruntime.__version__, level, [name for name in named if name in available])
    if different := note.place.difference(here):
        raise UnusableError(different, packing_helps=note.place.is_elsewhere(here))
    if options.optimized_model_filepath or any(kwargs.values()):
        raise UnusableError("the session was asked for another graph, or to save it", packing_helps=False)
    for entry in _GRAPH_ENTRIES:
        if _is_set(options, entry):
            raise UnusableError(f"the session's options have {entry}", packing_helps=False)
    return MappedWeights(Path(path), note, check(Path(path), note, checks_folder()))


def _is_set(options: Any, entry: str) -> bool:
    try:
        options.get_session_config_entry(entry)
    except Exception:  # noqa: BLE001 - ONNX Runtime raises its own class where there is no entry
        return False
    return True
