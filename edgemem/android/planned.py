"""Planned models that go into an app: read once, proved, and described for the app."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, get_args

import numpy as np

from edgemem.android.archive import MOST_BYTES
from edgemem.android.contents import Info, Level, Value, classes_of, task_for, values_of
from edgemem.errors import ApkError, ModelError, PlanFileError, StalePlanError, UnknownShapeError
from edgemem.planfile import decode_all, encode_all
from edgemem.planning.verification import plans_of, right_plan
from edgemem.runtime.onnxruntime.file import BAKED_KEY, model_digest, plans_in, weight_files
from edgemem.runtime.onnxruntime.optimise import LEVELS
from edgemem.system.distribution import VERSION
from edgemem.system.files import temporary_folder
from edgemem.system.regular_files import read_bounded
from edgemem.system.text import join_names

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from edgemem.android.contents import Form, Preprocess, Task
    from edgemem.plans import PlanSet

__all__ = ["PlannedModel", "described", "is_for_apps", "labels_in", "planned_model"]

_MOST_LABELS: Final = 1 << 20  # bytes
_FORMS: Final[dict[str, Form]] = {".onnx": "onnx", ".tflite": "tflite"}


@dataclass(frozen=True, slots=True)
class PlannedModel:
    """A model whose plans were proved, as it goes into an app.

    Attributes:
        form: the format of its file.
        content: the file's bytes.
        plansets: all its plan sets.
        recording: the plan set that an app with ONNX Runtime tries first; None if the file has none. One of a run
            with ONNX Runtime's own reuse of memory comes first: apps run with it, sessions on a desktop without.
        inputs, outputs: with the sizes that the plan is for; no outputs where only the inputs' sizes are known.
    """

    form: Form
    content: bytes
    plansets: tuple[PlanSet, ...]
    recording: PlanSet | None
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]


def planned_model(path: Path) -> PlannedModel:
    """An ONNX or TFLite model with its plans, which are proved against the same bytes that are returned.

    Raises ModelError for a file that is no such model or has weights in other files, PlanFileError and InvalidPlanError
    as `right_plan`, and StalePlanError if its recordings belong to another model.
    """
    form = _FORMS.get(path.suffix.lower())
    if form is None:
        raise ModelError(f"{path.name} is no model for an app; give an .onnx or .tflite file that `edgemem plan` wrote")
    try:
        content = read_bounded(path, MOST_BYTES)
    except OSError as e:
        raise ModelError(f"cannot read {path}: {e.strerror or e}") from None
    if form == "onnx" and (outside := weight_files(content)):
        raise ModelError(
            f"{path.name} has weights in other files ({join_names(outside)}), and the app loads one file; save the "
            "model without external data and plan again"
        )
    with temporary_folder() as place:
        copy = place / path.name
        copy.write_bytes(content)  # what is proved is what goes into the app, whatever becomes of the file
        try:
            _, model = right_plan(copy)
        except ModelError as e:
            raise ModelError(str(e).replace(str(copy), str(path))) from None
        except PlanFileError:
            if form == "onnx" and not plans_in(content):
                remedy = f"edgemem plan {path.name} --record --android -o PLANNED"
                raise PlanFileError(f"{path.name} carries no plan; make one with: {remedy}") from None
            raise
        assert model is not None  # only stand-alone plans have none
        plansets = plans_of(model)
        plan = model.plan()
        if plan is None or encode_all(decode_all(plan)) != plan:
            raise PlanFileError(f"{path.name} has a plan that another version of edgemem wrote; plan again")
        recording = _recording(path.name, content, plansets)
        try:
            inputs, outputs = values_of(model.graph())
        except UnknownShapeError:  # there is no plan of the graph, which would have the sizes
            inputs, outputs = _recorded_inputs(recording), ()
    return PlannedModel(form, content, plansets, recording, inputs, outputs)


def _recording(name: str, content: bytes, plansets: Sequence[PlanSet]) -> PlanSet | None:
    """The plan that an app tries first: the first recording in the file that is of this model in ONNX Runtime.

    None if there is no recording.

    Raises StalePlanError if there are recordings, and none is of this model.
    """
    recorded = [(p, p.recording.fingerprint) for p in plansets if p.recording is not None]
    digest = model_digest(content)
    fitting = [p for p, of in recorded if (of.runtime, of.model) == ("onnxruntime", digest) and p.best_offsets]
    if recorded and not fitting:
        raise StalePlanError(
            f"{name} carries a recording of another model or runtime; record this model in ONNX Runtime: "
            f"edgemem plan {name} --record --android -o PLANNED"
        )
    return fitting[0] if fitting else None


def is_for_apps(planset: PlanSet | None) -> bool:
    """Whether it is a plan of a recording that an app's session can follow (`--record --android`)."""
    return planset is not None and planset.recording is not None and planset.recording.fingerprint.keeps_reuse


def _level(planset: PlanSet | None, content: bytes) -> Level:
    """The optimisation level that an app follows a recording at; a file that is optimised already stays as it is."""
    if planset is None or planset.recording is None or not is_for_apps(planset):
        return "none" if BAKED_KEY.encode() in content else "extended"
    recorded = planset.recording.fingerprint.options.get("level")
    return next((level for level in get_args(Level) if LEVELS[level] == recorded), "extended")


def _recorded_inputs(planset: PlanSet | None) -> tuple[Value, ...]:
    """The inputs that a recorded run was fed; () without one."""
    if planset is None or planset.recording is None:
        return ()
    given = planset.recording.fingerprint.signature.inputs
    return tuple(Value(name, np.dtype(dtype).name, shape) for name, dtype, shape in given)


def described(
    model: PlannedModel,
    *,
    runtime: str,
    task: Task | None = None,
    preprocess: Preprocess | None = None,
    labels: bool = False,
) -> Info:
    """What the app is told about a model.

    `runtime` is the version of the runtime in the app, `labels` says whether there is a file of labels. Raises ApkError
    for a `task` that does not fit the model; None decides by the shapes.
    """
    possible = task_for(model.inputs, model.outputs)
    if task not in (None, possible, "tensors"):
        raise ApkError(f"the app cannot show {task} of this model: its inputs and outputs have other shapes")
    return Info(
        form=model.form,
        sha256=hashlib.sha256(model.content).hexdigest(),
        edgemem=VERSION,
        runtime=runtime,
        task=task or possible,
        labels=labels,
        preprocess=preprocess or "",
        shapes={value.name: value.shape for value in model.inputs},
        level=_level(model.recording, model.content),
    )


def labels_in(path: Path, model: PlannedModel) -> bytes:
    """The content of a file of labels, a line each. Raises ApkError unless there is one for each class of the model."""
    classes = classes_of(model.outputs)
    if classes is None or task_for(model.inputs, model.outputs) != "classes":
        raise ApkError("labels are for a model of one image with one output of a number for each class; leave them out")
    try:
        text = read_bounded(path, _MOST_LABELS).decode("utf-8-sig")
    except OSError as e:
        raise ApkError(f"cannot read the labels {path}: {e.strerror or e}") from None
    except UnicodeDecodeError:
        raise ApkError(f"the labels {path} are no UTF-8 text; save them as UTF-8, a line for each class") from None
    lines = [line.strip() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    if len(lines) != classes:
        raise ApkError(
            f"{path.name} has {len(lines):,} labels, the model has {classes:,} classes; give a line for each"
        )
    return ("\n".join(lines) + "\n").encode()
