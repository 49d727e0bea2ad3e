"""The options that a session's file asks for: a baked one runs in its own order."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from edgemem.runtime.onnxruntime.file import BAKED_KEY, has_blocked_layout, metadata_of

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from edgemem.planfile.protobuf import Content

__all__ = ["options_for_file"]


def options_for_file(data: Content, options: Any) -> AbstractContextManager[None]:
    """Options as a model's bytes ask for them while a session is made of it; as they were unless the file is baked.

    Raises as `edgemem.runtime.onnxruntime.baked_file.baked_options`.
    """
    if not metadata_of(data, (BAKED_KEY,)) and not has_blocked_layout(data):
        return nullcontext()
    from edgemem.runtime.onnxruntime.baked_file import baked_options  # only for these files

    return baked_options(data, options)
