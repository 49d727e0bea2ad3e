"""The run option `memory.enable_memory_arena_shrinkage` in a session whose allocator is edgemem's.

ONNX Runtime shrinks its own arenas alone, and refuses a run that names another allocator. Here the entry is taken out
of the run's options, and the session gives back what no run uses when the run has ended.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.replay.families import Family
    from edgemem.replay.replayer import Replayer
    from edgemem.trace.recording import Signature

__all__ = ["run_with_options"]

_ENTRY: Final = "memory.enable_memory_arena_shrinkage"
_HOST: Final = "cpu:0"  # the arena in whose place edgemem's allocator is
_REFUSAL: Final = "memory arena shrink list"  # in what ONNX Runtime says of the entry, before the first operator runs
_ASKED: Final[WeakSet[Any]] = WeakSet()  # options whose entry was taken out


def run_with_options(
    replayer: Replayer, family: Family, described: Callable[[], Signature], call: Callable[..., Any], *arguments: Any
) -> Any:
    """As `Replayer.run`; the last argument is the run's options, or None."""
    options = arguments[-1]
    if options is None:
        return replayer.run(family, described, call, *arguments)

    def made(*arguments: Any) -> Any:
        try:
            return call(*arguments)
        except Exception as e:
            # Another failure may come after operators have written into the caller's memory: it is not done again.
            if _REFUSAL not in str(e) or not _take_out(options):
                raise
        return call(*arguments)

    result = replayer.run(family, described, made, *arguments)
    if options in _ASKED:
        replayer.trim()
    return result


def _take_out(options: Any) -> bool:
    """Whether the options asked to shrink the host's arena. They ask no longer: ONNX Runtime reads "" as no entry."""
    try:
        asked = options.get_run_config_entry(_ENTRY)
    except Exception:  # noqa: BLE001 - ONNX Runtime's own class: there is no entry
        return False
    if asked != _HOST:
        return False
    options.add_run_config_entry(_ENTRY, "")
    _ASKED.add(options)
    return True
