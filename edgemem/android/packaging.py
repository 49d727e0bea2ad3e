"""A planned ONNX model becomes an APK: proved first, then put together with the app, ONNX Runtime and libedgemem.so."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import escape

import numpy as np

from edgemem.android import contents, manifest, toolchain
from edgemem.android.archive import MOST_BYTES, write_archive
from edgemem.android.contents import Info, Value
from edgemem.android.libraries import library_faults
from edgemem.android.signing import sign, verify_signature
from edgemem.android.sources import folder
from edgemem.distribution import VERSION
from edgemem.errors import ApkError, ModelError, PlanFileError, StalePlanError, UnknownAbiError, UnknownShapeError
from edgemem.files import temporary_folder
from edgemem.lists import listed
from edgemem.planfile import decode_all, encode_all
from edgemem.reading import read_bounded
from edgemem.runtime.onnxruntime.file import model_digest, weight_files
from edgemem.verification import plans_of, right_plan

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from edgemem.android.contents import Task
    from edgemem.android.keys import SigningKey
    from edgemem.android.signing import Signature
    from edgemem.plans import PlanSet

__all__ = ["Package", "PlannedModel", "build_package", "check_abis", "planned_model"]

_MOST_LABELS: Final = 1 << 20  # bytes
_NAME: Final = "edgemem demo"
_MOST_NAME: Final = 50  # characters; a launcher shows some fifteen
_RUNTIME: Final = "onnxruntime"


@dataclass(frozen=True, slots=True)
class PlannedModel:
    """A model whose plans were proved, as it goes into an APK.

    Attributes:
        content: the file's bytes.
        plansets: all its plan sets.
        recording: the plan set that the app tries first; None if the file has none for ONNX Runtime.
        inputs, outputs: with the sizes that the plan is for.
        layout: of images, as `Graph.layout`.
    """

    content: bytes
    plansets: tuple[PlanSet, ...]
    recording: PlanSet | None
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    layout: str


@dataclass(frozen=True, slots=True)
class Package:
    """An APK that is not written yet, and what went into it."""

    content: bytes
    model: PlannedModel
    info: Info
    abis: tuple[str, ...]
    signature: Signature


def build_package(
    model: Path,
    key: SigningKey,
    *,
    abis: Sequence[str] = toolchain.ABIS,
    aar: Path | None = None,
    labels: Path | None = None,
    label: str | None = None,
    task: Task | None = None,
) -> Package:
    """The APK of a planned model: equal arguments and files give the same bytes.

    Args:
        model: an .onnx file that carries its plan.
        key: what signs the APK.
        abis: of `toolchain.ABIS`.
        aar: ONNX Runtime for Android; None for the pinned one.
        labels: a text file with a line for each class.
        label: the app's name on the device.
        task: what the app shows of the outputs; None decides by their shapes.

    Raises ModelError for a model that does not go into an APK, PlanFileError and InvalidPlanError as `right_plan`,
    StalePlanError if its recordings belong to another model, UnknownAbiError, ToolError, and ApkError for everything
    else.
    """
    abis = check_abis(abis)
    planned = planned_model(model)
    lines = None if labels is None else _labels_in(labels, planned)
    possible = contents.task_for(planned.inputs, planned.outputs)
    if task not in (None, possible, "tensors"):
        raise ApkError(f"the app cannot show {task} of this model, by the shapes of its outputs; leave out the task")
    named = manifest.encode(_manifest(_NAME if label is None else label))
    runtime = toolchain.runtime(aar)
    libraries = {
        abi: {**runtime.libraries(abi), contents.OWN_LIBRARY: toolchain.native_library(abi)} for abi in abis
    }
    for abi, files in libraries.items():
        if faults := library_faults(abi, files):
            raise ApkError(f"{listed(faults, separator='; ')}; take another ONNX Runtime (--aar)")
    info = Info(
        sha256=hashlib.sha256(planned.content).hexdigest(),
        edgemem=VERSION,
        runtime=runtime.version,
        task=task or possible,
        labels=lines is not None,
        layout=planned.layout,
        inputs=planned.inputs,
        outputs=planned.outputs,
    )
    assets = {
        contents.MODEL: planned.content,
        contents.INFO: contents.encode_info(info),
        contents.NOTICES: f"ONNX Runtime {runtime.version}\n\n{runtime.licence}".encode(),
    }
    if lines is not None:
        assets[contents.LABELS] = lines
    entries = contents.arranged(named, toolchain.dex(runtime), libraries, assets)
    signed = sign(write_archive(entries), key)
    return Package(signed, planned, info, abis, verify_signature(signed))


def check_abis(abis: Sequence[str]) -> tuple[str, ...]:
    """The ABIs, each once. Raises UnknownAbiError for none, and for one that APKs are not made for."""
    unknown = [abi for abi in abis if abi not in toolchain.ABIS]
    if unknown or not abis:
        wrong = listed(map(repr, unknown)) or "without a name"
        raise UnknownAbiError(f"no ABI {wrong}; there are {' and '.join(toolchain.ABIS)} (64 bits)")
    return tuple(dict.fromkeys(abis))


def planned_model(path: Path) -> PlannedModel:
    """An ONNX model with its plans, which are proved against the same bytes that are returned.

    Raises as `build_package`.
    """
    if path.suffix.lower() == ".tflite":
        raise ModelError(
            f"{path.name} is a TFLite model, and no LiteRT for Android is at hand to put into a package; make a Gradle "
            f"project, which fetches it: edgemem android project {path.name} -o DIR"
        )
    if path.suffix.lower() != ".onnx":
        raise ModelError(f"{path.name} is no ONNX model; give an .onnx file that `edgemem plan --record -o` wrote")
    try:
        content = read_bounded(path, MOST_BYTES)
    except OSError as e:
        raise ModelError(f"cannot read {path}: {e.strerror or e}") from None
    if outside := weight_files(content):
        raise ModelError(
            f"{path.name} has weights in other files ({listed(outside)}), and the app loads one file; save the model "
            "without external data and plan again"
        )
    with temporary_folder() as place:
        copy = place / path.name
        copy.write_bytes(content)  # what is proved is what goes into the package, whatever becomes of the file
        _, model = right_plan(copy)
        assert model is not None  # only stand-alone plans have none
        plansets = plans_of(model)
        if encode_all(decode_all(model.plan() or b"")) != model.plan():
            raise PlanFileError(f"{path.name} has a plan that another version of edgemem wrote; plan again")
        recording = _recording(path.name, content, plansets)
        try:
            graph = model.graph()
            (inputs, outputs), layout = contents.values_of(graph), graph.layout
        except UnknownShapeError:  # there is no plan of the graph, which has the sizes
            inputs, outputs, layout = _recorded_inputs(recording), (), ""
    return PlannedModel(content, plansets, recording, inputs, outputs, layout)


def _recorded_inputs(planset: PlanSet | None) -> tuple[Value, ...]:
    """The inputs that a recorded run was fed; () without one."""
    if planset is None or planset.recording is None:
        return ()
    given = planset.recording.fingerprint.signature.inputs
    return tuple(Value(name, np.dtype(dtype).name, shape) for name, dtype, shape in given)


def _recording(name: str, content: bytes, plansets: Sequence[PlanSet]) -> PlanSet | None:
    """The largest plan of a recording of this model in ONNX Runtime; None if there is no recording.

    Raises StalePlanError if there are recordings, and none is of this model.
    """
    recorded = [p for p in plansets if p.recording is not None]
    digest = model_digest(content)
    fitting = [
        p
        for p in recorded
        if p.recording is not None
        and p.recording.fingerprint.runtime == _RUNTIME
        and p.recording.fingerprint.model == digest
        and p.best_offsets is not None
    ]
    if recorded and not fitting:
        raise StalePlanError(
            f"{name} carries a recording of another model, or of another runtime than ONNX Runtime; record this one: "
            f"edgemem plan {name} --record -o PLANNED"
        )
    return max(fitting, key=lambda p: p.best_offsets.size if p.best_offsets else 0, default=None)


def _labels_in(path: Path, model: PlannedModel) -> bytes:
    """The labels, a line each. Raises ApkError if they are no text, or not as many as the model has classes."""
    classes = contents.classes_of(model.outputs)
    if classes is None or contents.task_for(model.inputs, model.outputs) != "classes":
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
        raise ApkError(f"{path.name} has {len(lines):,} labels, the model has {classes:,} classes; give a line for each")
    return ("\n".join(lines) + "\n").encode()


def _manifest(label: str) -> str:
    """The manifest's text for an app of this name. Raises ApkError for a name that Android cannot show."""
    if not label.strip() or len(label) > _MOST_LABEL or not label.isprintable() or label.startswith(("@", "?")):
        # `@` and `?` begin references to resources
        raise ApkError(f"{label!r} cannot be an app's name: take 1 to {_MOST_LABEL} characters, the first not @ or ?")
    text = (folder("android") / contents.MANIFEST).read_text(encoding="utf-8")
    major, minor, patch = (int(part) for part in VERSION.split("."))
    values = {"label": label, "versionName": VERSION, "versionCode": str(major * 10_000 + minor * 100 + patch)}
    for name, value in values.items():
        text = text.replace("${" + name + "}", escape(value, {'"': "&quot;"}))
    return text
