"""A sample app as a Gradle project that carries a planned model. Text only: nothing is built.

A TFLite model gets LiteRT's CompiledModel and a screen in Kotlin, an ONNX model ONNX Runtime with edgemem's library for
Android (an AAR) and a screen in Java. The text is in android/template, where @@NAME@@ is a placeholder: a name of
capital letters, digits and underscores.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from edgemem.android.app_model import describe_model, encode_info, is_for_apps, make_plain, read_model
from edgemem.android.library import ABIS, OWN_LIBRARY, check_abis, read_archive
from edgemem.android.sources import find_sources
from edgemem.errors import ApkError, ModelError
from edgemem.report.sizes import size_text
from edgemem.system.distribution import VERSION
from edgemem.system.files import new_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from edgemem.android.app_model import AppModel
    from edgemem.plans import OffsetPlan, PlanSet

__all__ = [
    "KOTLIN_COMPILER",
    "LITERT",
    "ONNXRUNTIME",
    "Project",
    "fill",
    "make_project",
    "read_template",
    "write_project",
]

LITERT: Final = "2.3.0"  # the version of LiteRT's libraries that a project names
ONNXRUNTIME: Final = "1.29.0"
KOTLIN_COMPILER: Final = "2.4.20"  # what the template's Kotlin is compiled with in edgemem's tests

_ASSETS: Final = "app/src/main/assets"
_LIBRARY: Final = "app/libs/edgemem.aar"
_PLACEHOLDER: Final = re.compile(r"@@([A-Z0-9_]+)@@")
_HIDDEN: Final = {"gitignore": ".gitignore"}  # packers leave out files whose names begin with a dot


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

    @property
    def has_library(self) -> bool:
        """Whether edgemem's library is there, or none is needed."""
        return self.runtime == "litert" or _LIBRARY in self.files


def write_project(model: Path, folder: Path, *, abis: Sequence[str] = ABIS, library: Path | None = None) -> Project:
    """Write the project of a planned model into a new or empty folder: all of it, or nothing.

    Raises ApkError if the folder has something in it, OSError if it cannot be written, and as `make_project`.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ApkError(f"{folder} is there already and is no empty folder; name another one")
    project = make_project(model, abis=abis, library=library)
    with new_folder(folder) as unfinished:
        for name, content in project.files.items():
            file = unfinished / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
    return project


def make_project(model: Path, *, abis: Sequence[str] = ABIS, library: Path | None = None) -> Project:
    """The project of a planned .tflite or .onnx file for these ABIs; equal for equal files.

    Args:
        model: the file.
        abis: that the app is for.
        library: edgemem's library (.aar), which goes into a project with ONNX Runtime; None leaves its place empty.

    Raises ModelError for a file that no app can load, PlanFileError for one without a plan, InvalidPlanError for a
    wrong plan, UnknownAbiError, and ToolError if this edgemem lacks the templates or `library` lacks an ABI.
    """
    abis = check_abis(abis)
    found = read_model(model)
    if found.form == "tflite":
        return _make_litert(model, found, abis)
    return _make_onnxruntime(model, found, abis, library)


def _make_litert(path: Path, model: AppModel, abis: Sequence[str]) -> Project:
    planset = model.plansets[0]
    plan, target = planset.best_offsets, planset.target
    if plan is None or target is None or not target.is_dense or planset.has_regions:
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
    inputs, outputs = ([port._asdict() for port in ports] for ports in (model.inputs, model.outputs))
    info = {"inputs": inputs, "outputs": outputs, "plan": _describe_plan(planset, plan)}
    return Project("litert", LITERT, None, _make_files(path, model, abis, "litert", LITERT, values, info))


def _describe_plan(planset: PlanSet, plan: OffsetPlan) -> dict[str, Any]:
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


def _make_onnxruntime(path: Path, model: AppModel, abis: Sequence[str], library: Path | None) -> Project:
    values = {"LIBRARY": _explain_library(library), "PLANS": _explain_plans(model.recording)}
    files = _make_files(path, model, abis, "onnxruntime", ONNXRUNTIME, values, {})
    if library is not None:
        archive = read_archive(library)
        for abi in abis:
            archive.library(abi, OWN_LIBRARY)
        files[_LIBRARY] = library.read_bytes()
    return Project("onnxruntime", ONNXRUNTIME, model.recording, files)


def _make_files(
    path: Path,
    model: AppModel,
    abis: Sequence[str],
    runtime: str,
    version: str,
    values: Mapping[str, str],
    info: Mapping[str, Any],
) -> dict[str, bytes]:
    """The filled templates, the model, and edgemem.json."""
    told = describe_model(model) | dict(info)
    values = dict(values) | {
        "ABIS": ", ".join(f'"{abi}"' for abi in abis),
        "LABEL": model.name,
        "MODEL": make_plain(path.name),
        "RUNTIME_VERSION": version,
        "SHA256": told["sha256"],
        "VERSION": VERSION,
    }
    files = {name: fill(text, values).encode() for name, text in read_template(runtime).items()}
    files[f"{_ASSETS}/{told['model']}"] = model.content
    files[f"{_ASSETS}/edgemem.json"] = encode_info(told)
    return files


def read_template(runtime: str) -> dict[str, str]:
    """The templates of a project for `litert` or `onnxruntime`, by the path of the file in the project.

    Raises ToolError if this edgemem has none.
    """
    root = find_sources() / "android" / "template"
    found = {}
    for kind in ("both", runtime):
        for file in sorted((root / kind).rglob("*")):
            if file.is_file():
                name = file.relative_to(root / kind).as_posix()
                found[_HIDDEN.get(name, name)] = file.read_text(encoding="utf-8")
    return found


def fill(template: str, values: Mapping[str, str]) -> str:
    """A template's text with each placeholder replaced, once. Raises KeyError for one that has no value."""
    return _PLACEHOLDER.sub(lambda match: values[match[1]], template)


def _explain_library(library: Path | None) -> str:
    """What the README says about edgemem's library."""
    if library is not None:
        return "edgemem's library is in `app/libs/edgemem.aar`; `edgemem android aar` made it."
    return (
        "Make edgemem's library first. It needs JDK 17, CMake, the NDK, and ONNX Runtime's archive of Maven Central\n"
        f"(com.microsoft.onnxruntime:onnxruntime-android:{ONNXRUNTIME}):\n\n"
        f"    edgemem android aar --onnxruntime onnxruntime-android-{ONNXRUNTIME}.aar -o {_LIBRARY}"
    )


def _explain_plans(recording: PlanSet | None) -> str:
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
