"""What the installed LiteRT does with a model's memory: kernels' workspace, and what is not in the arena.

LiteRT decides this when it prepares a model, and the file contains none of it. A process of its own (`probe_child`),
which a damaged file may crash, reads it from the interpreter.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from edgemem.errors import ModelError
from edgemem.formats import Resizable
from edgemem.replay.digest import sha256
from edgemem.runtime.litert.probe_data import decode_probe
from edgemem.runtime.litert.process import ask
from edgemem.system.child_call import Message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from edgemem.formats import Model
    from edgemem.model.graph import Graph, Tensor
    from edgemem.runtime.litert.probe_data import Probe, ProbedTensor

__all__ = ["LiteRTProbe", "annotate", "probe_apart"]

_CHILD: Final = "edgemem.runtime.litert.probe_child"
_TIMEOUT_S: Final = 120.0
_REMEMBERED: Final = 8  # answers of processes; a command asks several times about one file


def probe_apart(
    model: bytes, input_shapes: Mapping[int, Sequence[int]] | None = None, timeout_s: float | None = None
) -> Probe:
    """What LiteRT does with a model, asked for in a process of its own. The last few answers are remembered.

    Args:
        model: a .tflite file.
        input_shapes: tensor index of an input -> its shape, where the file's is not wanted.
        timeout_s: seconds until the process is ended; None for two minutes.

    Raises:
        MissingDependencyError: neither ai-edge-litert nor tflite-runtime is installed.
        RuntimeBindError: LiteRT cannot run the model, crashes, or does not end.
    """
    shapes = sorted((int(index), tuple(map(int, shape))) for index, shape in (input_shapes or {}).items())
    key = (sha256([model]), tuple(shapes))
    if key not in _answers:
        answer = ask(
            _CHILD,
            Message({"shapes": shapes}, content=model),
            doing="preparing the model",
            timeout_s=_TIMEOUT_S if timeout_s is None else timeout_s,
        )
        while len(_answers) >= _REMEMBERED:
            _answers.pop(next(iter(_answers)), None)
        _answers[key] = decode_probe(answer.data)
    return _answers[key]


_answers: dict[tuple[str, tuple[tuple[int, tuple[int, ...]], ...]], Probe] = {}


class LiteRTProbe:
    """What the installed LiteRT says about models (`edgemem.formats.RuntimeProbe`)."""

    def annotated(self, graph: Graph, model: Model) -> Graph:
        """`annotate` for the graph of a model file, in the sizes that it is bound to. Raises as `probe_apart`."""
        if ".tflite" not in model.suffixes or not isinstance(model, Resizable):
            raise ModelError("LiteRT runs .tflite files; choose another target than litert for this model")
        return annotate(graph, probe_apart(model.content(), model.inputs()))

    def shapes(
        self, content: bytes, inputs: Mapping[int, Sequence[int]]
    ) -> tuple[tuple[tuple[int, ...] | None, ...], ...]:
        """The shapes of all tensors when inputs are resized. Raises as `probe_apart`."""
        return probe_apart(content, inputs).shapes


def annotate(graph: Graph, probed: Probe) -> Graph:
    """The graph as LiteRT runs it: kernels' workspace is on the operators, and what is not in the arena is marked.

    Tensors that LiteRT computes once, or keeps between runs, become constants; those it allocates as it runs become
    opaque. Raises ModelError if the graph is not of the probed model.
    """
    if len(probed.workspace) != len(graph.ops) or len(probed.tensors) < len(graph.tensors):
        raise ModelError("the graph and the probed model differ")
    tensors = tuple(map(_as_run, graph.tensors, probed.tensors))
    ops = tuple(replace(op, scratch=sizes) for op, sizes in zip(graph.ops, probed.workspace, strict=True))
    return replace(graph, tensors=tensors, ops=ops)


def _as_run(tensor: Tensor, probed: ProbedTensor) -> Tensor:
    if tensor.kind == "opaque" or probed.place == "none":
        return tensor
    if probed.place == "kept":
        return replace(tensor, kind="constant", note="LiteRT keeps it outside the arena")
    if probed.place == "dynamic":
        return replace(tensor, kind="opaque", note="LiteRT allocates it as it runs (dynamic)")
    if not probed.size:
        return tensor
    # LiteRT decompresses sparse weights into the arena, at every run.
    return replace(tensor, kind="activation" if tensor.kind == "constant" else tensor.kind, shape=probed.shape)
