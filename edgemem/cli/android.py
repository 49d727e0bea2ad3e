"""`edgemem android aar`, `project`, `package` and `verify`: apps for Android that run a planned model."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from edgemem.cli.exit_codes import EXIT_FAILED, EXIT_INVALID
from edgemem.cli.options import FILE, FileCommand, write_examples

if TYPE_CHECKING:
    from collections.abc import Callable

    from edgemem.android.inspection import Inspection
    from edgemem.android.package import Apk
    from edgemem.plans import PlanSet

__all__ = ["android"]

_F = TypeVar("_F", bound="Callable[..., Any]")
_PASSWORD = "EDGEMEM_KEY_PASSWORD"  # noqa: S105 - the variable's name


class _AndroidCommands(click.Group):
    command_class = FileCommand

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        write_examples(ctx, formatter)


@click.group(cls=_AndroidCommands)
def android() -> None:
    """Make and check Android apps that run a planned model (docs/android.md)."""


_RUNTIME_HELP = "ONNX Runtime for Android: onnxruntime-android of Maven Central."
_TOOLCHAIN_HELP = "CMake's toolchain file of the compiler  [default: the NDK's]"


def _abi_option(text: str) -> Callable[[_F], _F]:
    return click.option(
        "--abi", "abis", default="arm64-v8a,x86_64", show_default=True, metavar="ABI,...", callback=_split, help=text
    )


def _split(_context: click.Context, _parameter: click.Parameter, text: str) -> tuple[str, ...]:
    return tuple(abi.strip() for abi in text.split(","))


@android.command()
@click.option("-o", "--output", required=True, type=FILE, metavar="FILE.aar", help="Write the library.")
@click.option("--onnxruntime", required=True, type=FILE, metavar="FILE.aar", help=_RUNTIME_HELP)
@_abi_option("Machines to compile for: arm64-v8a (devices), x86_64 (the emulator on a PC).")
@click.option("--toolchain", type=FILE, metavar="FILE.cmake", help=_TOOLCHAIN_HELP)
def aar(output: Path, *, onnxruntime: Path, abis: tuple[str, ...], toolchain: Path | None) -> None:
    """Build edgemem's library for Android (AAR), which runs planned ONNX models in an app.

    Example: edgemem android aar --onnxruntime onnxruntime-android-1.29.0.aar -o edgemem.aar
    """
    from edgemem.android.library import build_library
    from edgemem.cli.console import logged_steps
    from edgemem.report.sizes import size_text
    from edgemem.system.files import atomic_write

    _keep((onnxruntime, toolchain), output)
    with logged_steps("edgemem.android"):
        made = build_library(onnxruntime, abis=abis, toolchain=toolchain)
    with atomic_write(output) as file:
        file.write(made)
    click.echo(f"{output}: {size_text(len(made))}, edgemem's library for {', '.join(abis)}")


@android.command()
@click.argument("model", type=FILE)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Write the project; the folder is new or empty.",
)
@click.option(
    "--library", type=FILE, metavar="FILE.aar", help="Copy edgemem's library into it (`edgemem android aar`)."
)
@_abi_option("Machines that the app is for.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def project(model: Path, output: Path, *, library: Path | None, abis: tuple[str, ...], as_json: bool) -> None:
    """Write a sample app as a Gradle project around a planned model; the plan is proved first. Nothing is built.

    A .tflite model gets LiteRT with its GPU accelerator and a screen in Kotlin, an .onnx model ONNX Runtime with
    edgemem's library for Android and a screen in Java.

    Example: edgemem android project planned.onnx --library edgemem.aar -o demo
    """
    from edgemem.android.project import write_project
    from edgemem.cli.console import echo_labelled
    from edgemem.report.sizes import size_text

    made = write_project(model, output, abis=abis, library=library)
    if as_json:
        data = {"folder": str(output), "runtime": made.runtime, "version": made.version, "files": sorted(made.files)}
        click.echo(json.dumps(data, indent=1))
        return
    name = {"litert": "LiteRT", "onnxruntime": "ONNX Runtime"}[made.runtime]
    total = sum(map(len, made.files.values()))
    click.echo(f"{output}: a Gradle project with {name} {made.version}, {len(made.files)} files, {size_text(total)}")
    if made.runtime == "litert":
        used = "the app shows it beside what LiteRT does, which does not read plans on Android"
    elif _recorded(made.recording):
        used = "the app tries it in its first run, and says which plan ran"
    else:
        used = "made on the device, of the first run"
    lines = [("plan", used), ("not built", "README.md says how, and what nobody has tried")]
    if not made.has_library:
        lines.insert(1, ("library", "missing: edgemem android aar makes it; README.md says how"))
    echo_labelled(lines)
    if made.runtime == "onnxruntime" and (warning := _warning(made.recording, model)):
        click.echo(f"edgemem: {warning}", err=True)


@android.command()
@click.argument("model", type=FILE)
@click.option("-o", "--output", required=True, type=FILE, metavar="FILE.apk", help="Write the package.")
@click.option("--onnxruntime", required=True, type=FILE, metavar="FILE.aar", help=_RUNTIME_HELP)
@click.option(
    "--library", type=FILE, metavar="FILE.aar", help="edgemem's library (`edgemem android aar`)  [default: build it]"
)
@_abi_option("Machines to put native libraries in for: arm64-v8a (devices), x86_64 (the emulator on a PC).")
@click.option("--toolchain", type=FILE, metavar="FILE.cmake", help=_TOOLCHAIN_HELP)
@click.option("--key", type=FILE, metavar="FILE.p12", help="Sign with this key  [default: Android's debug key]")
@click.option("--key-password", envvar=_PASSWORD, show_envvar=True, metavar="TEXT", help="Of the key's file.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def package(
    model: Path,
    output: Path,
    *,
    onnxruntime: Path,
    library: Path | None,
    abis: tuple[str, ...],
    toolchain: Path | None,
    key: Path | None,
    key_password: str | None,
    as_json: bool,
) -> None:
    """Make the sample app (APK) of a planned ONNX model with Android's own tools; the plan is proved first.

    The app runs the model with ONNX Runtime inside its plan and beside it, and compares. Needs the Android SDK
    (ANDROID_HOME) and a JDK, and the NDK without --library.

    Example: edgemem android package planned.onnx --onnxruntime onnxruntime-android-1.29.0.aar -o demo.apk
    """
    from edgemem.android.package import Key, build_apk
    from edgemem.cli.console import logged_steps
    from edgemem.system.files import atomic_write

    if key is not None and key_password is None:
        raise click.UsageError(f"--key needs the password of its file: give --key-password, or set {_PASSWORD}")
    _keep((model, onnxruntime, library, toolchain, key), output)
    with logged_steps("edgemem.android"):
        made = build_apk(
            model,
            onnxruntime,
            library=library,
            key=None if key is None else Key(key, key_password or ""),
            abis=abis,
            toolchain=toolchain,
        )
    with atomic_write(output) as file:
        file.write(made.content)
    if as_json:
        click.echo(json.dumps(_describe(made, output), indent=1))
    else:
        _show(made, output, is_debug=key is None)
    if warning := _warning(made.model.recording, model):
        click.echo(f"edgemem: {warning}", err=True)


@android.command("verify")
@click.argument("apk", type=FILE)
@click.option("--json", "as_json", is_flag=True, help="Print the checks as JSON.")
def verify_apk(apk: Path, *, as_json: bool) -> None:
    """Check a package: signature (apksigner), manifest (aapt2), alignment, libraries, model, and the plan's proof.

    Exit code 0, 1 if the package is wrong, or 4 if only the plan in it is.
    """
    from edgemem.android.inspection import inspect

    found = inspect(apk)
    if as_json:
        checks = [{"check": c.name, "right": c.is_right, "of_plan": c.of_plan, "message": c.says} for c in found.checks]
        data = {"right": not found.wrong, "bytes": found.size, "abis": found.abis}
        click.echo(json.dumps({**data, "checks": checks}, indent=1))
    else:
        _show_inspection(apk, found)
    if found.wrong:
        sys.exit(EXIT_INVALID if all(c.of_plan for c in found.wrong) else EXIT_FAILED)


def _keep(given: tuple[Path | None, ...], output: Path) -> None:
    """Refuse an output that would replace a file which is read."""
    if any(path is not None and output.exists() and path.exists() and output.samefile(path) for path in given):
        raise click.UsageError(f"{output} would be overwritten, and is needed to make it; write another file")


def _recorded(planset: PlanSet | None) -> tuple[str, int] | None:
    """The version of the runtime that was recorded as an app runs, and the plan's arena in bytes; None without one."""
    from edgemem.android.app_model import is_for_apps

    if planset is None or planset.recording is None or planset.best_offsets is None or not is_for_apps(planset):
        return None
    return planset.recording.fingerprint.version, planset.best_offsets.size


def _warning(recording: PlanSet | None, model: Path) -> str | None:
    """What the user may not expect of an app with ONNX Runtime; None for nothing."""
    if _recorded(recording):
        return None
    what = "no recording" if recording is None else "no recording of a run as apps run"
    return (
        f"{model.name} has {what}: the app records its first run and plans it on the device; to ship a plan for the "
        f"first run: edgemem plan {model.name} --record --android -o PLANNED"
    )


def _describe(made: Apk, output: Path) -> dict[str, Any]:
    import hashlib

    recorded = _recorded(made.model.recording)
    return {
        "apk": str(output),
        "bytes": len(made.content),
        "sha256": hashlib.sha256(made.content).hexdigest(),
        "abis": made.abis,
        "model_sha256": made.info["sha256"],
        "recorded_with": recorded and recorded[0],
        "recorded_arena": recorded and recorded[1],
    }


def _show(made: Apk, output: Path, *, is_debug: bool) -> None:
    """The answer, then what is in the package, then what to do with it."""
    from edgemem.cli.console import echo_labelled
    from edgemem.report.sizes import size_text

    recorded = _recorded(made.model.recording)
    arena = f"arena {size_text(recorded[1])} as recorded" if recorded else "planned on the device"
    click.echo(f"{output}: {size_text(len(made.content))}, {arena}")
    shapes = [f"{name} {','.join(map(str, shape))}" for name, shape in made.info["shapes"].items()]
    lines = [("model", f"{size_text(len(made.model.content))}, {', '.join(shapes)}")]
    if recorded:
        says = "the app tries it, and says so if it plans again on the device"
        lines.append(("plan", f"recorded in ONNX Runtime {recorded[0]}; {says}"))
    lines.append(("machines", ", ".join(made.abis)))
    if is_debug:
        lines.append(("signed by", "Android's debug key of this user; the same key is needed for an update"))
    echo_labelled(lines)
    click.echo(f"install it with: adb install -r {output}")


def _show_inspection(apk: Path, found: Inspection) -> None:
    from edgemem.cli.console import echo_labelled
    from edgemem.report.sizes import size_text

    wrong = len(found.wrong)
    verdict = f"{wrong} of {len(found.checks)} checks failed" if wrong else "right"
    click.echo(f"{apk}: {verdict}, {size_text(found.size)}")
    echo_labelled([(c.name, f"{'' if c.is_right else 'WRONG: '}{c.says}") for c in found.checks])
