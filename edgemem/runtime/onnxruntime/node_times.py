"""How long each node of a model takes in ONNX Runtime, when nothing is rewritten: a node is then a kernel."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

from edgemem.errors import ModelError, UnknownShapeError
from edgemem.formats import Bindings, load_model, onnx_editor
from edgemem.runtime.feeds import make_feeds
from edgemem.runtime.onnxruntime.baked_file import onnxruntime
from edgemem.runtime.onnxruntime.bounded_run import check_run_ends
from edgemem.runtime.onnxruntime.file import planned_bindings
from edgemem.runtime.onnxruntime.profile import kernels_run
from edgemem.runtime.onnxruntime.split_model import node_options

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["NodeTimes", "node_times"]

_RUNS: Final = 10
_WARM_RUNS: Final = 2  # before the timed ones
_WEIGHTS: Final = "session.model_external_initializers_file_folder_path"  # where those of a model in memory are


@dataclass(frozen=True, slots=True)
class NodeTimes:
    """Times of nodes by what they write.

    Attributes:
        ns: the first output of a node of the graph itself -> nanoseconds, the median of the runs. What runs in a body
            is in the time of the node that has it.
        about: how they were measured, as a sentence.
    """

    ns: Mapping[str, int]
    about: str


def node_times(path: Path, bindings: Bindings | None = None) -> NodeTimes:
    """Run an .onnx file on made-up inputs, and read its nodes' times in ONNX Runtime's profile.

    Args:
        path: the file.
        bindings: sizes of the inputs; what is not given is as in the plan that is in the file.

    Raises:
        ModelError: ONNX Runtime cannot run the model. UnknownShapeError: the size of an input is not known.
        MissingDependencyError: onnxruntime is not installed.
    """
    data = path.read_bytes()
    parts = onnx_editor().parts(data, path.parent)
    known = planned_bindings(data, bindings or Bindings())
    feeds = make_feeds(parts.input_forms(), known)
    with suppress(UnknownShapeError):  # a size that follows from values
        check_run_ends(path, load_model(path, known).graph(), [feeds], dims=known.fixed)
    options = node_options()
    options.add_session_config_entry(_WEIGHTS, str(path.parent.resolve()))
    runs: defaultdict[str, list[int]] = defaultdict(list)
    for kernel in kernels_run(parts.named(), [feeds] * (_WARM_RUNS + _RUNS), options):
        runs[kernel.node].append(kernel.duration_ns)
    times = {}
    for node, outputs in zip(parts.names, parts.node_outputs, strict=True):
        if len(runs[node]) == _WARM_RUNS + _RUNS:
            times[next(filter(None, outputs), "")] = int(median(runs[node][_WARM_RUNS:]))
    if not times:
        raise ModelError(f"ONNX Runtime's profile of {path.name} shows none of its nodes")
    about = (
        f"Time is that of a node's kernel in ONNX Runtime {onnxruntime().__version__}, one thread, nothing rewritten: "
        f"the median of {_RUNS} runs on random inputs. A session that fuses nodes takes less."
    )
    return NodeTimes(times, about)
