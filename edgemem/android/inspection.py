"""What is right in an APK that carries a planned model, and what is wrong: from its signature to the plan's proof."""

from __future__ import annotations

import hashlib
import re
import struct
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from edgemem.android.app_model import INFO, MODEL, MOST_BYTES, read_info, read_ports
from edgemem.android.archive import (
    check_layout,
    check_listing,
    check_manifest_bytes,
    check_member,
)
from edgemem.android.library import OWN_LIBRARY, RUNTIME_LIBRARIES
from edgemem.android.package import PAGE
from edgemem.android.sdk import find_tool, run_tool
from edgemem.commands.verify import report_of
from edgemem.errors import ApkError, EdgememError, ToolError
from edgemem.planfile import decode_all, encode_all
from edgemem.planning.verification import verdict_of
from edgemem.proof import Cause
from edgemem.runtime.onnxruntime.baked_file import LEVELS
from edgemem.runtime.onnxruntime.file import model_digest, weight_files
from edgemem.system.files import temporary_folder
from edgemem.system.regular_files import read_bounded
from edgemem.system.text import join_names
from edgemem.system.zip_errors import ZIP_ERRORS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from pathlib import Path

__all__ = ["Check", "Inspection", "inspect"]

MANIFEST: Final = "AndroidManifest.xml"
_LOCAL: Final = struct.Struct("<26xHH")  # the lengths of a name and of what comes after it, before a file's bytes


@dataclass(frozen=True, slots=True)
class Check:
    """One question about an APK.

    Attributes:
        name: a word.
        says: what was found, in words; what is wrong if `is_right` is false.
        of_plan: whether the plan is wrong, rather than the APK around it.
    """

    name: str
    says: str
    is_right: bool = True
    of_plan: bool = False


@dataclass(frozen=True, slots=True)
class Inspection:
    """What came of an APK.

    Attributes:
        size: bytes.
        abis: of its native libraries, sorted.
        checks: in the order in which they were made.
    """

    size: int
    abis: tuple[str, ...]
    checks: tuple[Check, ...]

    @property
    def wrong(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(c for c in self.checks if not c.is_right)


@dataclass(frozen=True, slots=True)
class _Member:
    """A file in an APK: where its bytes begin, and whether they are stored as they are."""

    at: int
    is_stored: bool


def inspect(path: Path) -> Inspection:
    """Examine an APK with apksigner and aapt2, and prove its plan. Nothing in it is run.

    Raises ApkError if it is no APK, is cut short, or is not signed as it stands: then nothing in it is worth a look.
    Raises ToolError without apksigner or aapt2.
    """
    try:
        data = read_bounded(path, MOST_BYTES)
    except OSError as e:
        raise ApkError(f"cannot read {path}: {e.strerror or e}") from None
    with temporary_folder() as work:
        copy = work / "copy.apk"
        copy.write_bytes(data)  # all checks are of the same bytes
        members = _read_members(copy, data, path)
        apksigner = find_tool("apksigner")
        try:
            signature = _check_signature(apksigner, copy)
        except ToolError as e:
            raise ApkError(f"{path}: {str(e).replace(str(copy), path.name)}") from None
        checks = [Check("signature", signature)]
        abis = tuple(sorted({n.split("/")[1] for n in members if n.startswith("lib/") and n.endswith(".so")}))
        with zipfile.ZipFile(copy) as archive:
            found: list[dict[str, Any]] = []
            questions: tuple[tuple[str, Callable[[], str]], ...] = (
                ("alignment", lambda: _check_alignment(members)),
                ("manifest", lambda: _check_manifest(copy)),
                ("code", lambda: _check_code(members)),
                ("libraries", lambda: _check_libraries(members, abis)),
                ("model", lambda: _check_model(archive, found)),
            )
            checks += [_answer(name, question) for name, question in questions]
            if MODEL in members:
                checks += _check_plan(archive.read(MODEL), found[0] if found else None, work)
    return Inspection(len(data), abis, tuple(checks))


def _read_members(copy: Path, data: bytes, path: Path) -> dict[str, _Member]:
    """The files of an APK by name. Raises ApkError if it is damaged, or unpacks to more than `MOST_BYTES`."""
    try:
        check_layout(data)
        with zipfile.ZipFile(copy) as archive:
            listing = archive.infolist()
            check_listing(listing, MOST_BYTES)
            for entry in listing:
                check_member(archive, entry)
            if MANIFEST in archive.namelist():
                check_manifest_bytes(archive.read(MANIFEST))
    except ZIP_ERRORS as e:
        raise ApkError(f"{path} is no Android package, or damaged: {e}") from None
    return {
        entry.filename: _Member(
            entry.header_offset + 30 + sum(_LOCAL.unpack_from(data, entry.header_offset)),
            entry.compress_type == zipfile.ZIP_STORED,
        )
        for entry in listing
    }


def _answer(name: str, question: Callable[[], str]) -> Check:
    try:
        return Check(name, question())
    except ApkError as e:
        return Check(name, str(e), is_right=False)


def _refuse(faults: Iterable[str]) -> None:
    if found := list(faults):
        raise ApkError(join_names(found, separator="; "))


def _check_signature(apksigner: Path, apk: Path) -> str:
    """Who signed, by apksigner's words. Raises ToolError if the signature is wrong."""
    said = run_tool([apksigner, "verify", "--print-certs", "--min-sdk-version", "24", apk], cwd=apk.parent)
    owner = re.search(r"certificate DN: (.*)", said)
    digest = re.search(r"certificate SHA-256 digest: ([0-9a-f]{16})", said)
    return f"{owner[1] if owner else 'signed'}, certificate {digest[1] if digest else ''}..."


def _check_alignment(members: Mapping[str, _Member]) -> str:
    """Whether Android can map the libraries where they lie: stored, at a page."""
    libraries = {n: m for n, m in members.items() if n.startswith("lib/") and n.endswith(".so")}
    faults = [f"{name} is packed, and Android cannot map it" for name, m in libraries.items() if not m.is_stored]
    faults += [
        f"{name} is at byte {m.at:,}, which is no multiple of {PAGE:,}"
        for name, m in libraries.items()
        if m.is_stored and m.at % PAGE
    ]
    _refuse(faults)
    return f"{len(libraries)} libraries at 16 KiB, {len(members)} files in all"


def _check_manifest(apk: Path) -> str:
    """What aapt2 or aapt reads in the manifest."""
    tool = find_tool("aapt2", "aapt")
    try:
        said = run_tool([tool, "dump", "badging", apk], cwd=apk.parent)
    except ToolError as e:
        raise ApkError(str(e)) from None
    package = re.search(r"^package: name='([^']+)'.* versionName='([^']*)'", said, re.MULTILINE)
    least = re.search(r"^(?:sdkVersion|minSdkVersion):'(\d+)'", said, re.MULTILINE)
    if package is None or "launchable-activity:" not in said:
        raise ApkError("the app has no package name, or no activity can be started from the launcher")
    return f"{package[1]} {package[2]}, from API level {least[1] if least else 1}"


def _check_code(members: Mapping[str, _Member]) -> str:
    """Whether the numbers of the dex files have no gap: Android stops at the first gap."""
    count = sum(bool(re.fullmatch(r"classes\d*\.dex", name)) for name in members)
    wanted = ["classes.dex", *(f"classes{number}.dex" for number in range(2, count + 1))]
    _refuse(f"there is no {name}" for name in wanted if name not in members)
    return join_names(wanted)


def _check_libraries(members: Mapping[str, _Member], abis: Sequence[str]) -> str:
    needed = (OWN_LIBRARY, *RUNTIME_LIBRARIES)
    if not abis:
        raise ApkError("there are no native libraries")
    _refuse(f"there is no lib/{abi}/{name}" for abi in abis for name in needed if f"lib/{abi}/{name}" not in members)
    return f"{join_names(needed)} for {' and '.join(abis)}"


def _check_model(archive: zipfile.ZipFile, found: list[dict[str, Any]]) -> str:
    """The model against what edgemem.json says of it, which is added to `found`."""
    names = archive.namelist()
    _refuse(f"there is no {name}; make the package again" for name in (MODEL, INFO) if name not in names)
    model, info = archive.read(MODEL), read_info(archive.read(INFO))
    found.append(info)
    faults = []
    if hashlib.sha256(model).hexdigest() != info["sha256"]:
        faults.append(f"{MODEL} is not the file whose sha256 {INFO} has")
    if outside := weight_files(model):
        faults.append(f"{MODEL} has weights in files that are not there: {join_names(outside)}")
    _refuse(faults)
    shapes = join_names(f"{name} {','.join(map(str, shape))}" for name, shape in info["shapes"].items())
    return f"{len(model):,} bytes, sha256 {info['sha256'][:16]}... as in {INFO}; {shapes}"


def _check_plan(content: bytes, info: Mapping[str, Any] | None, work: Path) -> list[Check]:
    """The plans in the model: their bytes, their proof against the model, and that they are for the app's session."""
    path = work / "model.onnx"
    path.write_bytes(content)
    try:
        verdict = verdict_of(path)
        report = report_of(path, verdict)
        plan = verdict.model.plan() if verdict.model is not None else None
    except EdgememError as e:
        return [Check("plan", str(e), is_right=False, of_plan=True)]
    checks = []
    if plan is None or encode_all(decode_all(plan)) != plan:
        says = "the plan's bytes change when it is read and written: another version of edgemem wrote it"
        checks.append(Check("plan", says, is_right=False, of_plan=True))
    for entry in report.plans:
        if entry["family"] == "offsets":
            bound = "the lower bound" if entry["size"] == entry["lower_bound"] else f"bound {entry['lower_bound']:,}"
            checks.append(
                Check("plan", f"of the {entry['of']}: {entry['size']:,} bytes by {entry['strategy']}, {bound}")
            )
    recorded = [p.recording.fingerprint for p in verdict.recordings if p.recording is not None]
    if recorded and not any(f.model == model_digest(content) for f in recorded):
        checks.append(Check("plan", "the recording is of another model", is_right=False, of_plan=True))
    violations = [v for v in verdict.violations if v.cause is not Cause.OVER_CAPACITY]
    checks += [Check("proof", str(v), is_right=False, of_plan=True) for v in violations]
    if not violations:
        planned = {} if verdict.graph is None else {port.name: port.shape for port in read_ports(verdict.graph)[0]}
        if planned and info is not None and info["shapes"] != planned:
            checks.append(Check("model", f"{INFO} has other inputs or sizes than the plan is for", is_right=False))
        levels = {f.options.get("level") for f in recorded if f.keeps_reuse}
        if info is not None and levels and LEVELS[info["level"]] not in levels:
            says = f"{INFO} has the optimisation level {info['level']}, and the recording is of another"
            checks.append(Check("model", says, is_right=False))
        checks += [Check("proof", f"{leg.name}: {leg.checked}") for leg in report.legs]
    return checks
