"""LiteRT's interpreter with a report of its memory: LiteRT's own class with the same calls.

It loads nothing of edgemem's planner until the report is asked for.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from edgemem.runtime.litert.package import interpreter_class, op_resolvers
from edgemem.runtime.litert.pages import give_back

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from edgemem.runtime.litert.memory import InterpreterMemory

_LiteRT: Any = interpreter_class()
OpResolverType: Any = op_resolvers()

_BUILTIN: Final[Any] = (OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES, OpResolverType.BUILTIN_REF)
_DELEGATED: Final = "delegates, LiteRT's default ones among them, keep the tensors of their operators to themselves"
_PRESERVED: Final = "every tensor is preserved, so that none shares memory"

__all__ = ["Interpreter"]


class Interpreter(_LiteRT):  # type: ignore[misc]
    """LiteRT's interpreter, which also says what memory its tensors take and what edgemem predicts of it.

    All arguments and methods of `ai_edge_litert.interpreter.Interpreter`, and `memory`. LiteRT places tensors by
    itself, in an arena of its own; no plan in a file tells it where. So the way to less memory is another file
    (`edgemem.shrink`), and a plan for the target `litert` says beforehand what LiteRT takes for one. On Linux the pages
    of the model's file that no further run reads go back to the system.
    """

    def __init__(
        self,
        model_path: str | Path | None = None,
        model_content: bytes | None = None,
        experimental_delegates: Sequence[Any] | None = None,
        num_threads: int | None = None,
        experimental_op_resolver_type: Any = OpResolverType.AUTO,
        experimental_preserve_all_tensors: bool = False,
        **experimental: Any,
    ) -> None:
        self._path = None if model_path is None else os.path.abspath(model_path)  # noqa: PTH100 - pathlib is loaded for nothing else
        self._content = model_content
        self._unpredicted = ""  # why edgemem predicts nothing
        if experimental_delegates or experimental_op_resolver_type not in _BUILTIN:
            self._unpredicted = _DELEGATED
        elif experimental_preserve_all_tensors:
            self._unpredicted = _PRESERVED
        self._has_run = False
        self._is_resized = False  # since tensors were allocated
        super().__init__(
            model_path=self._path,
            model_content=model_content,
            experimental_delegates=list(experimental_delegates or ()) or None,
            num_threads=num_threads,
            experimental_op_resolver_type=experimental_op_resolver_type,
            experimental_preserve_all_tensors=experimental_preserve_all_tensors,
            **experimental,
        )

    def resize_tensor_input(self, input_index: int, tensor_size: Any, strict: bool = False) -> None:
        """As LiteRT's."""
        super().resize_tensor_input(input_index, tensor_size, strict)
        self._is_resized = True

    def allocate_tensors(self) -> None:
        """As LiteRT's. Where delegates have packed the weights, the file's pages are given back to the system."""
        super().allocate_tensors()
        self._is_resized = False
        if self._path is not None and self._unpredicted == _DELEGATED:
            give_back(self._path)

    def invoke(self) -> None:
        """As LiteRT's. After the first run, the file's pages are given back; those that later runs read return."""
        super().invoke()
        if not self._has_run:
            self._has_run = True
            if self._path is not None:
                give_back(self._path)

    @property
    def memory(self) -> InterpreterMemory:
        """The arena that LiteRT has now, and what was predicted of it.

        For builtin kernels
        (`experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES`) the prediction is the plan
        in the file, if it is one for LiteRT, and else made now, for which another process prepares the model.

        Raises RuntimeBindError before tensors are allocated, and as `edgemem.runtime.litert.memory.litert_memory`.
        """
        from edgemem.runtime.litert.report import report_of  # it loads a planner

        return report_of(self, self._path, self._content, self._unpredicted, is_allocated=not self._is_resized)
