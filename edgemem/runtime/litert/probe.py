"""What the installed LiteRT does with a model's memory, read from the interpreter itself.

LiteRT makes these decisions when it prepares a model: kernels request workspace, constants are decompressed into a
separate arena, tensors become dynamic. The file contains none of this. A delegate that takes no operator reads it
(`delegate`), in this process (`probe`) or in one of its own (`probe_apart`), which a damaged file may crash.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from edgemem.errors import ModelError, RuntimeBindError
from edgemem.formats import Resizable
from edgemem.replay.digest import sha256
from edgemem.runtime.litert.observation import observe
from edgemem.runtime.litert.package import interpreter_class, op_resolvers
from edgemem.runtime.litert.probe_data import decode_probe
from edgemem.runtime.litert.process import ask
from edgemem.system.child_call import Message

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from edgemem.formats import Model
    from edgemem.model.graph import Graph, Tensor
    from edgemem.runtime.litert.probe_data import Probe, ProbedTensor

__all__ = ["LiteRTProbe", "annotate", "probe", "probe_apart"]

_CHILD: Final = "edgemem.runtime.litert.probe_child"
_TIMEOUT_S: Final = 120.0
_REMEMBERED: Final = 8  # answers of processes; a command asks several times about one file


def probe(model: bytes, input_shapes: Mapping[int, Sequence[int]] | None = None) -> Probe:
    """Let LiteRT prepare a model with its builtin kernels, and read where it puts everything.

    This process loads the file, which crashes it if LiteRT does; `probe_apart` is safe.

    A model with tensors of dynamic size is run once on zeros and empty strings, because LiteRT places what follows them
    only then.

    Args:
        model: a .tflite file.
        input_shapes: tensor index of an input -> its shape, where the file's is not wanted.

    Raises:
        MissingDependencyError: neither ai-edge-litert nor tflite-runtime is installed.
        RuntimeBindError: LiteRT cannot run the model, or its structures are not laid out as edgemem knows them.
    """
    make = interpreter_class()
    kernels = op_resolvers().BUILTIN_WITHOUT_DEFAULT_DELEGATES
    delegate = None
    try:
        interpreter, delegate = observe(
            lambda delegates: make(
                model_content=model, experimental_delegates=delegates, experimental_op_resolver_type=kernels
            )
        )
        for index, shape in (input_shapes or {}).items():
            interpreter.resize_tensor_input(index, list(shape))
        interpreter.allocate_tensors()
        if any(t.allocation == "dynamic" for t in delegate.read().main.tensors):
            # The inputs in a fresh arena hold arbitrary bytes, and kernels that look up values need valid ones.
            for details in interpreter.get_input_details():
                interpreter.set_tensor(details["index"], _zeros(details))
            interpreter.invoke()
    except (RuntimeError, ValueError, TypeError) as e:
        reason = " ".join(str(e).split()) or "no reason given"
        raise RuntimeBindError(f"LiteRT cannot run the model: {reason}") from None
    return delegate.read()


def _zeros(details: Mapping[str, Any]) -> NDArray[Any]:
    """A value for an input as LiteRT's Python interface shows it."""
    shape, dtype = tuple(details["shape"]), np.dtype(details["dtype"])
    return np.full(shape, b"", object) if dtype.kind == "S" else np.zeros(shape, dtype)


def probe_apart(model: bytes, input_shapes: Mapping[int, Sequence[int]] | None = None) -> Probe:
    """As `probe`, in a process of its own. The last few answers are remembered.

    Raises as `probe`, and RuntimeBindError if LiteRT crashes or does not end.
    """
    shapes = sorted((int(index), tuple(map(int, shape))) for index, shape in (input_shapes or {}).items())
    key = (sha256([model]), tuple(shapes))
    if key not in _answers:
        answer = ask(
            _CHILD, Message({"shapes": shapes}, content=model), doing="preparing the model", timeout_s=_TIMEOUT_S
        )
        while len(_answers) >= _REMEMBERED:
            _answers.pop(next(iter(_answers)), None)
        _answers[key] = decode_probe(answer.data["subgraphs"])
    return _answers[key]


_answers: dict[tuple[str, tuple[tuple[int, tuple[int, ...]], ...]], Probe] = {}


class LiteRTProbe:
    """What the installed LiteRT says about models (`edgemem.formats.RuntimeProbe`)."""

    def annotated(self, graph: Graph, model: Model) -> Graph:
        """`annotate` for the graph of a model file, in the sizes that it is bound to. Raises as `probe`."""
        if ".tflite" not in model.suffixes or not isinstance(model, Resizable):
            raise ModelError("LiteRT runs .tflite files; choose another target than litert for this model")
        return annotate(graph, probe_apart(model.content(), model.inputs()))

    def shapes(
        self, content: bytes, inputs: Mapping[int, Sequence[int]]
    ) -> tuple[tuple[tuple[int, ...] | None, ...], ...]:
        """The shapes of all tensors when inputs are resized. Raises as `probe`."""
        return tuple(
            tuple(None if t.allocation == "dynamic" else t.shape for t in subgraph.tensors)
            for subgraph in probe_apart(content, inputs).subgraphs
        )


def annotate(graph: Graph, probed: Probe) -> Graph:
    """The graph as LiteRT runs it: kernels' workspace is on the operators, and what is not in the arena is marked.

    Tensors that LiteRT computes once, or keeps between runs, become constants; those it allocates as it runs become
    opaque. Raises ModelError if the graph is not of the probed model.
    """
    main = probed.main
    if len(main.scratch) != len(graph.ops) or len(main.tensors) < len(graph.tensors):
        raise ModelError("the graph and the probed model differ")
    tensors = tuple(map(_as_run, graph.tensors, main.tensors))
    ops = tuple(
        replace(op, scratch=tuple(main.tensors[i].size for i in added if main.tensors[i].allocation == "arena"))
        for op, added in zip(graph.ops, main.scratch, strict=True)
    )
    return replace(graph, tensors=tensors, ops=ops)


def _as_run(tensor: Tensor, probed: ProbedTensor) -> Tensor:
    if tensor.kind == "opaque" or probed.allocation == "none":
        return tensor
    if probed.allocation in ("constant", "persistent", "folded"):
        return replace(tensor, kind="constant", note="LiteRT keeps it outside the arena")
    if probed.allocation != "arena":
        return replace(tensor, kind="opaque", note=f"LiteRT allocates it as it runs ({probed.allocation})")
    if not probed.size:
        return tensor
    # LiteRT decompresses sparse weights into the arena, at every run.
    return replace(tensor, kind="activation" if tensor.kind == "constant" else tensor.kind, shape=probed.shape)
