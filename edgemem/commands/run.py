"""An ONNX model, run inside its plan and, if wanted, beside a plain session."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from edgemem.commands.onnx_file import read_onnx
from edgemem.commands.outcome import Outcome
from edgemem.errors import PlanError
from edgemem.formats import Bindings, onnx_editor
from edgemem.runtime.differences import same
from edgemem.runtime.feeds import complete_feeds, sized_by
from edgemem.runtime.onnxruntime.baked_file import (
    baked_note,
    in_one_line,
    onnxruntime,
    quiet_options,
    session_options_for,
)
from edgemem.runtime.onnxruntime.bound_arena import OrtDevice
from edgemem.runtime.onnxruntime.bound_nodes import BoundNodes
from edgemem.runtime.onnxruntime.file import planned_bindings
from edgemem.runtime.onnxruntime.install import refuse_silent_fallback
from edgemem.runtime.onnxruntime.session import InferenceSession
from edgemem.runtime.onnxruntime.split_model import split_model

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from edgemem.runtime.feeds import Feeds

__all__ = ["run"]


def run(
    model: Path,
    feeds: Mapping[str, NDArray[Any]] | None = None,
    *,
    bindings: Bindings | None = None,
    executor: str = "replay",
    device: str = "cpu",
    threads: int = 1,
    runs: int = 3,
    compare: bool = False,
    poison: bool = False,
) -> Outcome:
    """Run an ONNX model a few times inside its plan.

    Args:
        model: an .onnx file.
        feeds: inputs by name; those that are not given are made up (`edgemem.runtime.feeds.complete_feeds`).
        bindings: sizes of made-up inputs; what is not given is as in the plan that is in the file.
        executor: `replay`, an ordinary session whose requests are served from a plan of its recording, or
            `io-binding`, which runs the plan of the graph that is in the file node by node.
        device: `cpu`, `cuda` or `cuda:NUMBER`; where the arena lies.
        threads: of one operator.
        runs: how many; the first one records for `replay` where no plan is stored.
        compare: run a plain session on the same feeds, too. For `io-binding` it does not optimise the graph either.
        poison: fill unused arena memory with a pattern.

    Raises:
        MissingDependencyError, ModelError, UnknownShapeError, PlanFileError, InvalidPlanError, RuntimeBindError: as the
            session does.
    """
    if executor not in ("replay", "io-binding"):
        raise PlanError(f"no executor {executor!r}; there are replay and io-binding")
    options = quiet_options()
    options.intra_op_num_threads = threads
    place = OrtDevice.parse(device)  # before the file is read
    providers = place.providers
    data = read_onnx(model, "run")
    parts = onnx_editor().parts(data, model.parent)
    memory: Any
    forms = parts.input_forms()
    given = bindings or Bindings()
    values = complete_feeds(forms, feeds, planned_bindings(data, sized_by(forms, feeds or {}, given)))
    with in_one_line(model):
        if executor == "replay":
            with InferenceSession(str(model), options, providers, poison=poison, background=False) as session:
                refuse_silent_fallback(providers, session.get_providers())
                names = [o.name for o in session.get_outputs()]
                results = [session.run(names, values) for _ in range(runs)]
                report, memory = session.memory_report, session.memory
            make_plain: Callable[[], Any] = partial(_plain, model, data, threads, providers)
        else:
            of_nodes = onnxruntime().SessionOptions()
            of_nodes.intra_op_num_threads = threads
            split = split_model(model, bindings=given, feeds=values, options=of_nodes)
            nodes = BoundNodes(split, poison=0xCD if poison else None, device=place)
            names = list(split.outputs)
            results = [list(nodes.run(values).values()) for _ in range(runs)]
            report = memory = nodes.report
            make_plain = partial(_plain, model, data, threads, providers, optimises=False)
        different = _different(make_plain(), values, names, results) if compare else ()
    outputs = dict(zip(names, results[-1], strict=True))
    level = "without optimisations" if executor == "io-binding" else "with its default options"
    if baked_note(data) is not None:
        level = "as the file asks for it, in its own order"
    compared = f"{model.name} in onnxruntime {onnxruntime().__version__} {level}"
    return Outcome(outputs, report, memory, not different if compare else None, different, compared)


def _plain(model: Path, data: bytes, threads: int, providers: Sequence[Any], *, optimises: bool = True) -> Any:
    options = session_options_for(data, quiet_options())
    options.intra_op_num_threads = threads
    if not optimises:
        options.graph_optimization_level = onnxruntime().GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime().InferenceSession(str(model), options, providers=list(providers))


def _different(plain: Any, values: Feeds, names: Sequence[str], results: Sequence[Sequence[Any]]) -> tuple[str, ...]:
    """The outputs that are not those of a plain session in each of the runs."""
    wanted = plain.run(names, values)
    return tuple(name for k, name in enumerate(names) if any(not same(result[k], wanted[k]) for result in results))
