"""`edgemem android project`: a Gradle project of an app that carries a planned model. Text only: nothing is built.

A TFLite model gets LiteRT's CompiledModel and a screen in Kotlin, an ONNX model ONNX Runtime with edgemem's library for
Android, whose sources come along.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from edgemem.android import contents
from edgemem.android.archive import MOST_BYTES
from edgemem.android.packaging import check_abis, planned_model
from edgemem.android.sources import folder as sources_folder
from edgemem.android.sources import native_sources
from edgemem.android.template import filled, template_files
from edgemem.android.toolchain import ABIS
from edgemem.distribution import VERSION
from edgemem.errors import ApkError, ModelError
from edgemem.files import new_folder, temporary_folder
from edgemem.reading import read_bounded
from edgemem.report.sizes import size_text
from edgemem.suitability import has_regions
from edgemem.verification import right_plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from edgemem.model.graph import Graph
    from edgemem.plans import OffsetPlan, PlanSet

__all__ = ["KOTLIN_COMPILER", "LITERT", "ONNXRUNTIME", "Project", "project_of", "write_project"]

LITERT: Final = "2.3.0"  # the version of LiteRT's libraries that a project names
ONNXRUNTIME: Final = "1.29.0"
KOTLIN_COMPILER: Final = "2.4.20"  # what the template's Kotlin is compiled with in edgemem's tests

_ASSETS: Final = "app/src/main/assets"
_LIBRARY: Final = "edgemem-android/src/main"
_MOST_NAME: Final = 50  # characters of a model's name


@dataclass(frozen=True, slots=True)
class Project:
    """A project that is not written yet.

    Attributes:
        runtime: `litert` or `onnxruntime`.
        version: of that runtime.
        plan: the plan in the file that the app shows, or tries first.
        files: content by path, with `/` between folders.
    """

    runtime: str
    version: str
    plan: PlanSet
    files: Mapping[str, bytes]


def write_project(model: Path, folder: Path, *, abis: Sequence[str] = ABIS) -> Project:
    """Write the project of a planned model into a new or empty folder: all of it, or nothing.

    Raises ApkError if the folder has something in it, OSError if it cannot be written, and as `project_of`.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ApkError(f"{folder} is there already and is no empty folder; name another one")
    project = project_of(model, abis=abis)
    with new_folder(folder) as unfinished:
        for name, content in project.files.items():
            file = unfinished / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
    return project


def project_of(model: Path, *, abis: Sequence[str] = ABIS) -> Project:
    """The project of a planned .tflite or .onnx file for these ABIs; equal for equal files.

    Raises ModelError for a file that no app can load, PlanFileError for one without a plan, InvalidPlanError for a
    wrong plan, UnknownAbiError, and ToolError if this edgemem lacks the sources for Android.
    """
    abis = check_abis(abis)
    suffix = model.suffix.lower()
    if suffix == ".tflite":
        project = _litert(model, abis)
    elif suffix == ".onnx":
        project = _onnxruntime(model, abis)
    else:
        raise ModelError(
            f"{model.name} is no model that an app can run; give a planned .onnx or .tflite file: "
            "edgemem plan MODEL -o PLANNED"
        )
    return project


def _litert(path: Path, abis: Sequence[str]) -> Project:
    """The project of a TFLite model."""
    try:
        content = read_bounded(path, MOST_BYTES)
    except OSError as e:
        raise ModelError(f"cannot read {path}: {e.strerror or e}") from None
    with temporary_folder() as place:
        copy = place / path.name
        copy.write_bytes(content)  # what is proved is what goes into the project, whatever becomes of the file
        proved, model = right_plan(copy)
    assert model is not None  # only stand-alone plans have none
    planset = proved.planset
    plan = planset.best_offsets
    if plan is None or planset.target is None or planset.target.texels or has_regions(planset):
        raise ModelError(
            f"{path.name} carries no plan of offsets in one arena; make one with: edgemem plan -t litert {path.name} "
            "-o PLANNED"
        )
    values = _values(path, content, abis, LITERT) | {
        "ARENA": f"{plan.size:,}",
        "KOTLIN_COMPILER": KOTLIN_COMPILER,
        "LOWER_BOUND": f"{planset.proved.offsets:,}",
        "NAIVE": f"{planset.naive:,}",
        "STRATEGY": plan.strategy,
        "TARGET": planset.target.name,
    }
    files = {name: filled(text, values).encode() for name, text in template_files("litert").items()}
    files[f"{_ASSETS}/model.tflite"] = content
    files[f"{_ASSETS}/edgemem.json"] = _litert_asset(values, model.graph(), planset, plan)
    return Project("litert", LITERT, planset, files)


def _litert_asset(values: Mapping[str, str], graph: Graph, planset: PlanSet, plan: OffsetPlan) -> bytes:
    """What the Kotlin app reads: the model's inputs and outputs in the file's order, and the plan."""
    inputs, outputs = contents.values_of(graph)
    records = planset.problem.records
    places = [
        {"name": r.name, "first": r.first_op, "last": r.last_op, "offset": int(offset), "size": r.size}
        for r, offset in zip(records, plan.offsets, strict=True)
        if r.size
    ]
    assert planset.target is not None  # checked by the caller
    data = {
        "edgemem": VERSION,
        "form": "tflite",
        "inputs": [asdict(v) for v in inputs],
        "model": "model.tflite",
        "name": values["LABEL"],
        "outputs": [asdict(v) for v in outputs],
        "plan": {
            "arena": plan.size,
            "lower_bound": planset.proved.offsets,
            "naive": planset.naive,
            "places": places,
            "steps": len(planset.steps),
            "strategy": plan.strategy,
            "target": planset.target.name,
        },
        "runtime": LITERT,
        "sha256": values["SHA256"],
    }
    return (json.dumps(data, indent=1, sort_keys=True) + "\n").encode()


def _onnxruntime(path: Path, abis: Sequence[str]) -> Project:
    """The project of an ONNX model, with the sources of edgemem's library."""
    model = planned_model(path)
    values = _values(path, model.content, abis, ONNXRUNTIME) | {"PLANS": _plans_text(model.recording)}
    files = {name: filled(text, values).encode() for name, text in template_files("onnxruntime").items()}
    info = contents.Info(
        sha256=values["SHA256"],
        edgemem=VERSION,
        runtime=ONNXRUNTIME,
        task=contents.task_for(model.inputs, model.outputs),
        labels=False,
        layout=model.layout,
        inputs=model.inputs,
        outputs=model.outputs,
    )
    files[f"{_ASSETS}/model.onnx"] = model.content
    files[f"{_ASSETS}/edgemem.json"] = contents.encode_info(info)
    java = sources_folder("android") / "java"
    for file in sorted(java.rglob("*.java")):
        name = file.relative_to(java).as_posix()
        module = "app/src/main" if name.startswith("ai/edgemem/demo/") else _LIBRARY
        files[f"{module}/java/{name}"] = file.read_bytes()
    root = sources_folder("kernels").parent
    for name in native_sources():
        files[f"{_LIBRARY}/cpp/{name}"] = (root / name).read_bytes()
    return Project("onnxruntime", ONNXRUNTIME, model.recording or model.plansets[0], files)


def _plans_text(recording: PlanSet | None) -> str:
    """What the README says about the plan that the app tries first."""
    if recording is None or recording.recording is None or recording.best_offsets is None:
        return (
            "The file carries no plan of a recording. The first run on the device is recorded and planned there, and "
            "the\nlater ones use that plan."
        )
    fingerprint = recording.recording.fingerprint
    return (
        f"The file carries a plan of a recording: an arena of {recording.best_offsets.size:,} bytes "
        f"({size_text(recording.best_offsets.size)}), recorded in\nONNX Runtime {fingerprint.version} on a desktop. "
        f"Another version, other threads or another processor may ask for other blocks."
    )


def _values(path: Path, content: bytes, abis: Sequence[str], version: str) -> dict[str, str]:
    """What stands for the placeholders of every project."""
    return {
        "ABIS": ", ".join(f'"{abi}"' for abi in abis),
        "LABEL": _plain(path.stem),
        "MODEL": _plain(path.name),
        "RUNTIME_VERSION": version,
        "SHA256": hashlib.sha256(content).hexdigest(),
        "VERSION": VERSION,
    }


def _plain(name: str) -> str:
    """A file's name as it can stand in XML, Markdown and Kotlin: letters, digits, `_`, `-`, `.` and no others."""
    kept = re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[:_MOST_NAME].strip("._-")
    return kept or "model"
