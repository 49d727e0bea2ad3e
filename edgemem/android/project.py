"""`edgemem android project`: a Gradle project of an app that carries a planned model. Text only: nothing is built.

A TFLite model gets LiteRT's CompiledModel and a screen in Kotlin, an ONNX model ONNX Runtime with edgemem's library for
Android, whose sources come along.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from edgemem.android.contents import encode_info
from edgemem.android.packaging import known_abis
from edgemem.android.planned import described, is_for_apps, planned_model
from edgemem.android.sources import folder as sources_folder
from edgemem.android.sources import native_sources
from edgemem.android.template import filled, template_files
from edgemem.android.toolchain import ABIS
from edgemem.errors import ApkError, ModelError
from edgemem.report.sizes import size_text
from edgemem.suitability import has_regions
from edgemem.system.distribution import VERSION
from edgemem.system.files import new_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from edgemem.android.planned import PlannedModel
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
        recording: the plan that an app with ONNX Runtime tries first; None if the file has none.
        files: content by path, with `/` between folders.
    """

    runtime: str
    version: str
    recording: PlanSet | None
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
    abis = known_abis(abis)
    planned = planned_model(model)
    return _litert(model, planned, abis) if planned.form == "tflite" else _onnxruntime(model, planned, abis)


def _litert(path: Path, model: PlannedModel, abis: Sequence[str]) -> Project:
    """The project of a TFLite model."""
    planset = model.plansets[0]
    plan, target = planset.best_offsets, planset.target
    if plan is None or target is None or not target.is_dense or has_regions(planset):
        raise ModelError(
            f"{path.name} carries no plan of offsets in one arena; make one with: edgemem plan -t litert {path.name} "
            "-o PLANNED"
        )
    values = {
        "ARENA": f"{plan.size:,}",
        "KOTLIN_COMPILER": KOTLIN_COMPILER,
        "LOWER_BOUND": f"{planset.bounds.offsets:,}",
        "NAIVE": f"{planset.naive:,}",
        "STRATEGY": plan.strategy,
        "TARGET": target.name,
    }
    files, asset = _common(path, model, abis, LITERT, values)
    inputs, outputs = ([asdict(value) for value in given] for given in (model.inputs, model.outputs))
    asset |= {"name": _plain(path.stem), "inputs": inputs, "outputs": outputs, "plan": _plan(planset, plan)}
    files[f"{_ASSETS}/edgemem.json"] = (json.dumps(asset, indent=1, sort_keys=True) + "\n").encode()
    return Project("litert", LITERT, None, files)


def _plan(planset: PlanSet, plan: OffsetPlan) -> dict[str, Any]:
    """What the Kotlin app draws: each tensor's place, and the figures of the plan in bytes."""
    places = [
        {"name": r.name, "first": r.first_op, "last": r.last_op, "offset": int(offset), "size": r.size}
        for r, offset in zip(planset.problem.records, plan.offsets, strict=True)
        if r.size
    ]
    return {
        "arena": plan.size,
        "lower_bound": planset.bounds.offsets,
        "naive": planset.naive,
        "places": places,
        "steps": len(planset.steps),
        "strategy": plan.strategy,
        "target": planset.target and planset.target.name,
    }


def _onnxruntime(path: Path, model: PlannedModel, abis: Sequence[str]) -> Project:
    """The project of an ONNX model, with the sources of edgemem's library."""
    files, asset = _common(path, model, abis, ONNXRUNTIME, {"PLANS": _plans_text(model.recording)})
    files[f"{_ASSETS}/edgemem.json"] = (json.dumps(asset, indent=1, sort_keys=True) + "\n").encode()
    java = sources_folder("android") / "java"
    for file in sorted(java.rglob("*.java")):
        name = file.relative_to(java).as_posix()
        module = "app/src/main" if name.startswith("ai/edgemem/demo/") else _LIBRARY
        files[f"{module}/java/{name}"] = file.read_bytes()
    root = sources_folder("kernels").parent
    for name in native_sources():
        files[f"{_LIBRARY}/cpp/{name}"] = (root / name).read_bytes()
    return Project("onnxruntime", ONNXRUNTIME, model.recording, files)


def _common(
    path: Path, model: PlannedModel, abis: Sequence[str], version: str, values: Mapping[str, str]
) -> tuple[dict[str, bytes], dict[str, Any]]:
    """The filled templates and the model, and what edgemem.json says of any model."""
    info = described(model, runtime=version)
    values = dict(values) | {
        "ABIS": ", ".join(f'"{abi}"' for abi in abis),
        "LABEL": _plain(path.stem),
        "MODEL": _plain(path.name),
        "RUNTIME_VERSION": version,
        "SHA256": info.sha256,
        "VERSION": VERSION,
    }
    runtime = "litert" if model.form == "tflite" else "onnxruntime"
    files = {name: filled(text, values).encode() for name, text in template_files(runtime).items()}
    files[f"{_ASSETS}/{info.model}"] = model.content
    return files, json.loads(encode_info(info))


def _plans_text(recording: PlanSet | None) -> str:
    """What the README says about the plan that the app tries first."""
    if recording is None or recording.recording is None or recording.best_offsets is None:
        return (
            "The file carries no plan of a recording. The first run on the device is recorded and planned there, and "
            "the\nlater ones use that plan. `edgemem plan MODEL --record --android -o PLANNED` makes one."
        )
    fingerprint, arena = recording.recording.fingerprint, recording.best_offsets.size
    made = f"The file carries a plan of a recording: an arena of {arena:,} bytes ({size_text(arena)}), recorded in\n"
    if is_for_apps(recording):
        return f"{made}ONNX Runtime {fingerprint.version} on a desktop, with the settings that this app has."
    return (
        f"{made}ONNX Runtime {fingerprint.version} on a desktop, with settings that Java's sessions do not have. "
        "They ask for other\nblocks, so the device will record its first run and plan it. "
        "`edgemem plan MODEL --record --android -o PLANNED`\nrecords with the app's settings."
    )


def _plain(name: str) -> str:
    """A file's name as it can stand in XML, Markdown and Kotlin: letters, digits, `_`, `-`, `.` and no others."""
    kept = re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[:_MOST_NAME].strip("._-")
    return kept or "model"
