"""The planned model that goes into an app: read once, proved, and described in assets/edgemem.json."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np

from edgemem.errors import ApkError, ModelError, NoPlanError, PlanFileError, StalePlanError, UnknownShapeError
from edgemem.planfile import decode_all, encode_all
from edgemem.planning.verification import plans_of, right_plan
from edgemem.runtime.onnxruntime.baked_file import LEVELS
from edgemem.runtime.onnxruntime.file import BAKED_KEY, model_digest, plans_in, weight_files
from edgemem.system.distribution import VERSION
from edgemem.system.files import temporary_folder
from edgemem.system.regular_files import read_bounded
from edgemem.system.text import join_names

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from edgemem.model.graph import Graph
    from edgemem.plans import PlanSet

__all__ = [
    "INFO",
    "MODEL",
    "MOST_BYTES",
    "AppModel",
    "Form",
    "Port",
    "describe_model",
    "encode_info",
    "is_for_apps",
    "make_plain",
    "read_info",
    "read_model",
    "read_ports",
]

Form: TypeAlias = Literal["onnx", "tflite"]

INFO: Final = "assets/edgemem.json"
MODEL: Final = "assets/model.onnx"
MOST_BYTES: Final = 1 << 30  # of a model, and of an APK

_FORMS: Final[dict[str, Form]] = {".onnx": "onnx", ".tflite": "tflite"}
_MOST_NAME: Final = 50  # characters of a model's name


class Port(NamedTuple):
    """An input or output of a model: its name, a key of DTYPE_BITS, and the dimensions that the plan is for."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AppModel:
    """A model whose plans were proved, as it goes into an app.

    Attributes:
        form: the format of its file.
        name: of its file, without what XML, Markdown or Kotlin would read otherwise.
        content: the file's bytes.
        plansets: all its plan sets.
        recording: the plan set that an app with ONNX Runtime tries first; None if the file has none.
        inputs, outputs: with the sizes that the plan is for; no outputs where only the inputs' sizes are known.
    """

    form: Form
    name: str
    content: bytes
    plansets: tuple[PlanSet, ...]
    recording: PlanSet | None
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


def read_model(path: Path) -> AppModel:
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
                raise NoPlanError(f"{path.name} carries no plan; make one with: {remedy}") from None
            raise
        assert model is not None  # only stand-alone plans have none
        plansets = plans_of(model)
        plan = model.plan()
        if plan is None or encode_all(decode_all(plan)) != plan:
            raise PlanFileError(f"{path.name} has a plan that another version of edgemem wrote; plan again")
        recording = _recording(path.name, content, plansets)
        try:
            inputs, outputs = read_ports(model.graph())
        except UnknownShapeError:  # there is no plan of the graph, which would have the sizes
            inputs, outputs = _recorded_inputs(recording), ()
    return AppModel(form, make_plain(path.stem), content, plansets, recording, inputs, outputs)


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


def read_ports(graph: Graph) -> tuple[tuple[Port, ...], tuple[Port, ...]]:
    """The inputs and outputs of a graph."""
    inputs, outputs = (
        tuple(Port(t.name, t.dtype, t.shape) for t in (graph.tensors[i] for i in indices))
        for indices in (graph.inputs, graph.outputs)
    )
    return inputs, outputs


def _recorded_inputs(planset: PlanSet | None) -> tuple[Port, ...]:
    """The inputs that a recorded run was fed; () without one."""
    if planset is None or planset.recording is None:
        return ()
    given = planset.recording.fingerprint.signature.inputs
    return tuple(Port(name, np.dtype(dtype).name, shape) for name, dtype, shape in given)


def describe_model(model: AppModel) -> dict[str, Any]:
    """What assets/edgemem.json tells every app.

    `level` is the optimisation level of ONNX Runtime's sessions, `shapes` are the dimensions of each input that the
    plan is for.
    """
    info = {
        "edgemem": VERSION,
        "form": model.form,
        "model": f"model.{model.form}",
        "name": model.name,
        "sha256": hashlib.sha256(model.content).hexdigest(),
        "shapes": {port.name: port.shape for port in model.inputs},
    }
    return info | ({"level": _level(model)} if model.form == "onnx" else {})


def _level(model: AppModel) -> str:
    """The level that an app follows the recording at; a file that is optimised already stays as it is."""
    planset = model.recording
    if planset is None or planset.recording is None or not is_for_apps(planset):
        return "none" if BAKED_KEY.encode() in model.content else "extended"
    recorded = planset.recording.fingerprint.options.get("level")
    return next((level for level in LEVELS if LEVELS[level] == recorded), "extended")


def encode_info(info: Mapping[str, Any]) -> bytes:
    """The content of assets/edgemem.json; equal for equal `info`."""
    return (json.dumps(info, indent=1, sort_keys=True) + "\n").encode()


def read_info(content: bytes) -> dict[str, Any]:
    """The opposite of `encode_info`. Raises ApkError if it is not what an app with ONNX Runtime needs."""
    try:
        info = json.loads(content.decode())
        if info["form"] != "onnx" or f"assets/{info['model']}" != MODEL or info["level"] not in LEVELS:
            raise ApkError(f"{INFO} is not of an ONNX model in {MODEL}")
        shapes = {str(name): tuple(map(_dimension, shape)) for name, shape in info["shapes"].items()}
        return {"level": info["level"], "sha256": str(info["sha256"]), "shapes": shapes}
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError) as e:
        raise ApkError(f"{INFO} is damaged ({type(e).__name__}); make the package again") from None


def _dimension(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError("a dimension is no number")
    return value


def make_plain(name: str) -> str:
    """A file's name as it can stand in XML, Markdown and Kotlin: letters, digits, `_`, `-`, `.` and no others."""
    kept = re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[:_MOST_NAME].strip("._-")
    return kept or "model"
