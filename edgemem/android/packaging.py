"""A planned ONNX model becomes an APK: proved first, then put together with the app, ONNX Runtime and libedgemem.so."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from edgemem.android import contents, manifest, toolchain
from edgemem.android.archive import write_archive
from edgemem.android.elf import ABIS, check_abi
from edgemem.android.keys import debug_key
from edgemem.android.libraries import library_faults
from edgemem.android.planned import described, labels_in, planned_model
from edgemem.android.signing import sign, verify_signature
from edgemem.android.sources import folder
from edgemem.errors import ApkError, ModelError
from edgemem.system.distribution import VERSION
from edgemem.system.text import join_names, short_repr

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from edgemem.android.contents import Info, Preprocess, Task
    from edgemem.android.keys import SigningKey
    from edgemem.android.planned import PlannedModel
    from edgemem.android.signing import Signature

__all__ = ["Package", "build_package", "known_abis"]

_NAME: Final = "edgemem demo"
_MOST_NAME: Final = 50  # characters; a launcher shows some fifteen


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
    key: SigningKey | None,
    *,
    abis: Sequence[str] = ABIS,
    aar: Path | None = None,
    labels: Path | None = None,
    label: str | None = None,
    task: Task | None = None,
    preprocess: Preprocess | None = None,
) -> Package:
    """The APK of a planned model: equal arguments and files give the same bytes.

    Args:
        model: an .onnx file that carries its plan.
        key: what signs the APK; None for the debug key of this user.
        abis: of `elf.ABIS`.
        aar: ONNX Runtime for Android; None for the pinned one.
        labels: a text file with a line for each class.
        label: the app's name on the device.
        task: what the app shows of the outputs; None decides by their shapes.
        preprocess: how the app makes numbers of an image; None lets it choose by the task.

    Raises UnknownAbiError, ModelError for a model that does not go into an APK, PlanFileError and InvalidPlanError as
    `planned_model`, ToolError where the tools are missing or the archive lacks an ABI, and ApkError for everything
    else.
    """
    abis = known_abis(abis)
    text = _manifest(_NAME if label is None else label)
    if model.suffix.lower() == ".tflite":
        raise ModelError(
            f"{model.name} is a TFLite model, and LiteRT cannot be put into a package here; make a Gradle project, "
            f"which fetches it: edgemem android project {model.name} -o DIR"
        )
    planned = planned_model(model)
    named = None if labels is None else labels_in(labels, planned)
    runtime = toolchain.runtime(aar)
    info = described(planned, runtime=runtime.version, task=task, preprocess=preprocess, labels=named is not None)
    libraries = {abi: {**runtime.libraries(abi), contents.OWN_LIBRARY: toolchain.native_library(abi)} for abi in abis}
    for abi, files in libraries.items():
        if faults := library_faults(abi, files):
            raise ApkError(f"{join_names(faults, separator='; ')}; take another ONNX Runtime (--aar)")
    assets = {
        contents.MODEL: planned.content,
        contents.INFO: contents.encode_info(info),
        contents.NOTICES: _notices(runtime.version, runtime.licence),
    }
    if named is not None:
        assets[contents.LABELS] = named
    entries = contents.arranged(manifest.encode(text), toolchain.dex(runtime), libraries, assets)
    signed = sign(write_archive(entries), debug_key() if key is None else key)
    return Package(signed, planned, info, abis, verify_signature(signed))


def known_abis(abis: Sequence[str]) -> tuple[str, ...]:
    """The ABIs, each once. Raises UnknownAbiError for none, and for one that APKs are not made for."""
    for abi in abis or ("",):
        check_abi(abi)
    return tuple(dict.fromkeys(abis))


def _notices(version: str, licence: str) -> bytes:
    """The licences of what is in the APK besides the model."""
    own = (
        f"edgemem {VERSION} is under the Apache License 2.0 (https://www.apache.org/licenses/LICENSE-2.0).\n"
        "libedgemem.so has parts of LLVM's C++ library, under the same licence with the LLVM exceptions.\n"
    )
    return f"{own}\nONNX Runtime {version}:\n\n{licence}".encode()


def _manifest(label: str) -> str:
    """The manifest's text for an app of this name. Raises ApkError for a name that Android cannot show."""
    if not label.strip() or len(label) > _MOST_NAME or not label.isprintable():
        raise ApkError(f"{short_repr(label)} cannot be an app's name: take 1 to {_MOST_NAME} characters in one line")
    text = (folder("android") / contents.MANIFEST).read_text(encoding="utf-8")
    major, minor, patch = (int(part) for part in VERSION.split("."))
    values = {"label": label, "versionName": VERSION, "versionCode": str(major * 10_000 + minor * 100 + patch)}
    return re.sub(r"\$\{(\w+)\}", lambda found: manifest.quoted(values[found[1]]), text)
