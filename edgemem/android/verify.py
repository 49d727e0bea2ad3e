"""What is right in an APK that carries a planned model, and what is wrong: from its signature to the plan's proof."""

from __future__ import annotations

import hashlib
import struct
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from edgemem.android import contents, manifest
from edgemem.android.archive import MOST_BYTES, read_archive
from edgemem.android.contents import library_folders
from edgemem.android.libraries import library_faults
from edgemem.android.signing import verify_signature
from edgemem.commands.verify import report_of
from edgemem.errors import ApkError, EdgememError
from edgemem.planfile import decode_all, encode_all
from edgemem.planning.verification import verdict_of
from edgemem.proof import Cause
from edgemem.runtime.onnxruntime.file import model_digest, weight_files
from edgemem.runtime.onnxruntime.optimise import LEVELS
from edgemem.system.files import temporary_folder
from edgemem.system.regular_files import read_bounded
from edgemem.system.text import join_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path
    from xml.etree.ElementTree import Element

    from edgemem.android.archive import Entry
    from edgemem.android.contents import Info

__all__ = ["Check", "Inspection", "inspect"]

_ANDROID: Final = "{http://schemas.android.com/apk/res/android}"
_LEAST_SDK: Final = 24  # the first Android that knows signatures of scheme v2, and ONNX Runtime's own limit
_DEX_MAGIC: Final = (b"dex\n", b"\0")
_DEX_HEADER: Final = 112
_SMALLEST_ALIGNMENT: Final = 4


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
        runtime: the version of ONNX Runtime; "" if unknown.
        checks: in the order in which they were made.
    """

    size: int
    abis: tuple[str, ...]
    runtime: str
    checks: tuple[Check, ...]

    @property
    def wrong(self) -> tuple[Check, ...]:
        """The checks that failed."""
        return tuple(c for c in self.checks if not c.is_right)


def inspect(path: Path) -> Inspection:
    """Examine an APK. Nothing in it is run.

    Raises ApkError if it is no APK, is cut short, or is not signed as it stands: then nothing in it is worth a look.
    """
    try:
        data = read_bounded(path, MOST_BYTES)
    except OSError as e:
        raise ApkError(f"cannot read {path}: {e.strerror or e}") from None
    try:
        entries = read_archive(data)
        signature = verify_signature(data)
    except ApkError as e:
        raise ApkError(f"{path}: {e}") from None
    says = f"{signature.algorithm}, {signature.subject}, certificate {signature.certificate_sha256[:16]}..."
    checks = [Check("signature", f"scheme v2, {says}")]
    files = {entry.name: entry for entry in entries}
    info: list[Info] = []
    questions: tuple[tuple[str, Callable[[], str]], ...] = (
        ("alignment", lambda: _alignment(entries)),
        ("manifest", lambda: _manifest(files)),
        ("code", lambda: _code(files)),
        ("libraries", lambda: _libraries(entries)),
        ("model", lambda: _model(files, info)),
    )
    checks += [_answer(name, question) for name, question in questions]
    if contents.MODEL in files:
        checks += _plan(files[contents.MODEL].data, info[0] if info else None)
    runtime = info[0].runtime if info else ""
    return Inspection(len(data), tuple(sorted(library_folders(entries))), runtime, tuple(checks))


def _answer(name: str, question: Callable[[], str]) -> Check:
    try:
        return Check(name, question())
    except ApkError as e:
        return Check(name, str(e), is_right=False)


def _file(files: dict[str, Entry], name: str) -> bytes:
    """Raises ApkError if there is no such file."""
    if name not in files:
        raise ApkError(f"there is no {name}; make the package again")
    return files[name].data


def _refuse(faults: Iterable[str]) -> None:
    if found := list(faults):
        raise ApkError(join_names(found, separator="; "))


def _alignment(entries: tuple[Entry, ...]) -> str:
    """Libraries are mapped where they lie, so they are stored at a page; other stored files are at 4 bytes."""
    wanted = {e: _wanted_alignment(e) for e in entries}
    faults = [f"{e.name} is packed, and Android cannot map it" for e in entries if wanted[e] > 4 and not e.stored]
    faults += [
        f"{e.name} is at byte {e.offset:,}, which is no multiple of {wanted[e]:,}"
        for e in entries
        if e.stored and e.offset is not None and e.offset % wanted[e]
    ]
    _refuse(faults)
    libraries = sum(alignment == contents.LIBRARY_ALIGNMENT for alignment in wanted.values())
    return f"{libraries} libraries at 16 KiB, {contents.MODEL} at 4 KiB, {len(entries)} files in all"


def _wanted_alignment(entry: Entry) -> int:
    if entry.name.startswith("lib/") and entry.name.endswith(".so"):
        return contents.LIBRARY_ALIGNMENT
    return contents.MODEL_ALIGNMENT if entry.name == contents.MODEL else _SMALLEST_ALIGNMENT


def _manifest(files: dict[str, Entry]) -> str:
    root = manifest.decode(_file(files, contents.MANIFEST))
    application = root.find("application")
    if root.tag != "manifest" or application is None:
        raise ApkError("the manifest describes no application")
    sdk = root.find("uses-sdk")
    least, target = (_number(sdk, name) for name in ("minSdkVersion", "targetSdkVersion"))
    faults = []
    if not root.get("package"):
        faults.append("the app has no package name")
    if least is None or least < _LEAST_SDK:
        faults.append(f"minSdkVersion is {least}; signatures of scheme v2 alone need {_LEAST_SDK}")
    if least is not None and target is not None and target < least:
        faults.append(f"targetSdkVersion is {target}, minSdkVersion {least}")
    if application.get(f"{_ANDROID}extractNativeLibs") != "false":
        faults.append("extractNativeLibs is not false: Android would copy the libraries instead of mapping them")
    if not any(_is_launched(activity) for activity in application.iter("activity")):
        faults.append("no activity can be started from the launcher")
    _refuse(faults)
    version = root.get(f"{_ANDROID}versionName", "")
    return f"{root.get('package')} {version}, from API level {least}, made for {target}"


def _number(element: Element | None, name: str) -> int | None:
    text = "" if element is None else element.get(f"{_ANDROID}{name}", "")
    return int(text) if text.isascii() and text.isdecimal() else None


def _is_launched(activity: Element) -> bool:
    wanted = {"android.intent.action.MAIN", "android.intent.category.LAUNCHER"}
    filters = ({e.get(f"{_ANDROID}name") for e in one.iter()} for one in activity.iter("intent-filter"))
    is_on = activity.get(f"{_ANDROID}exported") == "true" and activity.get(f"{_ANDROID}enabled", "true") == "true"
    return is_on and any(wanted <= names for names in filters)


def _code(files: dict[str, Entry]) -> str:
    """Every dex file's own checksum and digest, and that their numbers have no gap: Android stops at the first gap."""
    named = [name for name in files if "/" not in name and name.startswith("classes") and name.endswith(".dex")]
    wanted = [contents.dex_name(number) for number in range(1, len(named) + 1)]
    faults = [f"there is no {name}" for name in wanted or [contents.dex_name(1)] if name not in files]
    for name in sorted(named):
        data = files[name].data
        size = struct.unpack_from("<I", data, 32)[0] if len(data) >= _DEX_HEADER else -1
        if data[:4] != _DEX_MAGIC[0] or data[7:8] != _DEX_MAGIC[1] or size != len(data):
            faults.append(f"{name} is no dex file, or cut short")
        elif (
            struct.unpack_from("<I", data, 8)[0] != zlib.adler32(data[12:])
            or data[12:32] != hashlib.sha1(data[32:], usedforsecurity=False).digest()
        ):
            faults.append(f"{name} is damaged: its checksum is wrong")
    _refuse(faults)
    return f"{join_names(wanted)}, {sum(len(files[name].data) for name in wanted):,} bytes"


def _libraries(entries: tuple[Entry, ...]) -> str:
    folders = library_folders(entries)
    if not folders:
        raise ApkError("there are no native libraries")
    faults = [f for abi, files in sorted(folders.items()) for f in library_faults(abi, _contents(files))]
    every = {name for files in folders.values() for name in files}
    faults += [
        f"lib/{abi} lacks {join_names(sorted(every - set(files)))}, which another ABI has"
        for abi, files in sorted(folders.items())
        if every - set(files) - set(contents.LIBRARIES)
    ]
    _refuse(faults)
    return f"{join_names(sorted(every))} for {' and '.join(sorted(folders))}, segments at 16 KiB"


def _contents(files: dict[str, Entry]) -> dict[str, bytes]:
    return {name: entry.data for name, entry in files.items()}


def _model(files: dict[str, Entry], found: list[Info]) -> str:
    """The model against what edgemem.json says of it, which is added to `found`."""
    model = _file(files, contents.MODEL)
    info = contents.decode_info(_file(files, contents.INFO))
    found.append(info)
    faults = []
    if hashlib.sha256(model).hexdigest() != info.sha256:
        faults.append(f"{contents.MODEL} is not the file whose sha256 {contents.INFO} has")
    if outside := weight_files(model):
        faults.append(f"{contents.MODEL} has weights in files that are not there: {join_names(outside)}")
    if info.form != "onnx":
        faults.append(f"{contents.INFO} is of a {info.form} model")
    if info.labels and contents.LABELS not in files:
        faults.append(f"there is no {contents.LABELS}")
    if contents.NOTICES not in files:
        faults.append(f"there is no {contents.NOTICES}, the licence of ONNX Runtime")
    _refuse(faults)
    shapes = join_names(f"{name} {','.join(map(str, shape))}" for name, shape in info.shapes.items())
    return f"{len(model):,} bytes, sha256 {info.sha256[:16]}... as in {contents.INFO}; {info.task}; {shapes}"


def _plan(content: bytes, info: Info | None) -> list[Check]:
    """The plans in the model: their bytes, their proof against the model, and that they are for the app's session."""
    try:
        with temporary_folder() as place:
            path = place / "model.onnx"
            path.write_bytes(content)
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
        planned = {} if verdict.graph is None else {v.name: v.shape for v in contents.values_of(verdict.graph)[0]}
        if planned and info is not None and info.shapes != planned:
            says = f"{contents.INFO} has other inputs or sizes than the plan is for"
            checks.append(Check("model", says, is_right=False))
        levels = {f.options.get("level") for f in recorded if f.keeps_reuse}
        if info is not None and levels and LEVELS[info.level] not in levels:
            says = f"{contents.INFO} has the optimisation level {info.level}, and the recording is of another"
            checks.append(Check("model", says, is_right=False))
        checks += [Check("proof", f"{leg.name}: {leg.checked}") for leg in report.legs]
    return checks
