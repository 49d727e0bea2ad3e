"""Whether a planned file runs node by node here: a trial, where `edgemem plan` says that it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from edgemem.errors import EdgememError, MissingDependencyError
from edgemem.model.macs import count_macs
from edgemem.runtime.feeds import make_feeds
from edgemem.runtime.onnxruntime.baked_file import in_one_line
from edgemem.runtime.onnxruntime.bound_nodes import BoundNodes
from edgemem.runtime.onnxruntime.file import weight_bytes
from edgemem.runtime.onnxruntime.split_model import split_model

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["trial_refusal"]

_MOST_BYTES: Final = 1 << 28  # of weights or of tensors in a trial
_MOST_MACS: Final = 1 << 30  # of a trial's run


def trial_refusal(file: Path) -> str:
    """Why ONNX Runtime does not run a file node by node inside its plan; "" if it does.

    A small model is run once, of a larger one the sessions of its nodes are made. Also "" if ONNX Runtime is not
    installed, or the model is too large for that.
    """
    try:
        model = split_model(file)
        if max(weight_bytes(file.read_bytes()), sum(map(model.size, model.forms))) > _MOST_BYTES:
            return ""
        forms = {name: model.forms[name] for name in model.inputs if name in model.forms}
        with in_one_line(file):
            nodes = BoundNodes(model)
            if count_macs(model.graph) <= _MOST_MACS:
                nodes.run(make_feeds(forms))
    except MissingDependencyError:
        return ""
    except EdgememError as e:
        return str(e).splitlines()[0]
    return ""
