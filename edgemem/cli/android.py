"""`edgemem android package`, `project` and `verify`: apps for Android that run a planned model."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edgemem.cli.options import FILE, FileCommand

if TYPE_CHECKING:
    from edgemem.android.packaging import Package
    from edgemem.android.verify import Inspection
    from edgemem.plans import PlanSet

__all__ = ["android"]

EXIT_FAILED, EXIT_INVALID = 1, 4
_PASSWORD = "EDGEMEM_KEY_PASSWORD"  # noqa: S105 - the variable's name
_INDENT = 13


class _AndroidCommands(click.Group):
    command_class = FileCommand


@click.group(cls=_AndroidCommands)
def android() -> None:
    """Make and check Android apps that run a planned model (docs/android.md)."""


@android.command()
@click.argument("model", type=FILE)
@click.option("-o", "--output", required=True, type=FILE, metavar="FILE.apk", help="Write the package.")
@click.option(
    "--abi",
    "abis",
    default="arm64-v8a,x86_64",
    show_default=True,
    metavar="ABI,...",
    help="Machines to put native libraries in for: arm64-v8a (devices), x86_64 (the emulator on a PC).",
)
@click.option(
    "--aar",
    type=FILE,
    metavar="FILE.aar",
    help="ONNX Runtime for Android  [default: a pinned one, which is downloaded once]",
)
@click.option(
    "--key", type=FILE, metavar="FILE.p12", help="Sign with this key  [default: a debug key, which is made once]"
)
@click.option("--key-password", envvar=_PASSWORD, show_envvar=True, metavar="TEXT", help="Of the key's file.")
@click.option("--labels", type=FILE, metavar="FILE.txt", help="Names of the classes, a line each.")
@click.option("--label", metavar="NAME", help="The app's name on the device  [default: edgemem demo]")
@click.option(
    "--task",
    type=click.Choice(["faces", "classes", "tensors"]),
    help="What the app shows of the outputs  [default: by their shapes]",
)
@click.option(
    "--preprocess",
    type=click.Choice(["minus_one_to_one", "zero_to_one", "imagenet"]),
    help="What the app makes of the bytes of an image  [default: by the task]",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def package(
    model: Path,
    output: Path,
    *,
    abis: str,
    aar: Path | None,
    key: Path | None,
    key_password: str | None,
    labels: Path | None,
    label: str | None,
    task: Any,
    preprocess: Any,
    as_json: bool,
) -> None:
    """Make an app (APK) of a planned ONNX model; the plan is proved first.

    The app shows the plan, runs the model with ONNX Runtime inside it and beside it, and compares. The same files and
    key give the same bytes.
    """
    from edgemem.android.keys import load_key
    from edgemem.android.packaging import build_package
    from edgemem.cli.console import logged_steps
    from edgemem.system.files import atomic_write

    if key is not None and key_password is None:
        raise click.UsageError(f"--key needs the password of its file: give --key-password, or set {_PASSWORD}")
    if any(_is_same(output, given) for given in (model, aar, key, labels)):
        raise click.UsageError(f"{output} would be overwritten, and is needed to make the package; write another file")
    with logged_steps("edgemem.android"):
        made = build_package(
            model,
            None if key is None else load_key(key, key_password or ""),
            abis=tuple(abi.strip() for abi in abis.split(",")),
            aar=aar,
            labels=labels,
            label=label,
            task=task,
            preprocess=preprocess,
        )
    with atomic_write(output) as file:
        file.write(made.content)
    if as_json:
        click.echo(json.dumps(_as_data(made, output), indent=1))
    else:
        _show(made, output, is_debug=key is None)
    if warning := _warning(made.model.recording, model):
        click.echo(f"edgemem: {warning}", err=True)


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
    "--abi",
    "abis",
    default="arm64-v8a,x86_64",
    show_default=True,
    metavar="ABI,...",
    help="Machines that the app is for.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def project(model: Path, output: Path, *, abis: str, as_json: bool) -> None:
    """Write a Gradle project of an app that carries a planned model; the plan is proved first. Nothing is built.

    A .tflite model gets LiteRT with its GPU accelerator and a screen in Kotlin, an .onnx model ONNX Runtime with
    edgemem's library for Android.
    """
    from edgemem.android.project import write_project
    from edgemem.report.sizes import size_text

    made = write_project(model, output, abis=tuple(abi.strip() for abi in abis.split(",")))
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
    _show_lines([("plan", used), ("not built", "README.md says how, and what nobody has tried")])
    if made.runtime == "onnxruntime" and (warning := _warning(made.recording, model)):
        click.echo(f"edgemem: {warning}", err=True)


@android.command("verify")
@click.argument("apk", type=FILE)
@click.option("--json", "as_json", is_flag=True, help="Print the checks as JSON.")
def verify_apk(apk: Path, *, as_json: bool) -> None:
    """Check a package: signature, alignment, libraries, model, and the plan's proof.

    Exit code 0, 1 if the package is wrong, or 4 if only the plan in it is.
    """
    from edgemem.android.verify import inspect

    found = inspect(apk)
    if as_json:
        checks = [{"check": c.name, "right": c.is_right, "of_plan": c.of_plan, "message": c.says} for c in found.checks]
        data = {"right": not found.wrong, "bytes": found.size, "abis": found.abis, "runtime": found.runtime}
        click.echo(json.dumps({**data, "checks": checks}, indent=1))
    else:
        _show_inspection(apk, found)
    if found.wrong:
        sys.exit(EXIT_INVALID if all(c.of_plan for c in found.wrong) else EXIT_FAILED)


def _is_same(output: Path, given: Path | None) -> bool:
    return given is not None and output.exists() and given.exists() and output.samefile(given)


def _recorded(planset: PlanSet | None) -> tuple[str, int] | None:
    """The version of the runtime that was recorded as an app runs, and the plan's arena in bytes; None without one."""
    from edgemem.android.planned import is_for_apps

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


def _as_data(made: Package, output: Path) -> dict[str, Any]:
    import hashlib

    recorded = _recorded(made.model.recording)
    return {
        "apk": str(output),
        "bytes": len(made.content),
        "sha256": hashlib.sha256(made.content).hexdigest(),
        "abis": made.abis,
        "runtime": made.info.runtime,
        "task": made.info.task,
        "model_sha256": made.info.sha256,
        "certificate_sha256": made.signature.certificate_sha256,
        "recorded_with": recorded and recorded[0],
        "recorded_arena": recorded and recorded[1],
    }


def _show(made: Package, output: Path, *, is_debug: bool) -> None:
    """The answer, then what is in the package, then what to do with it."""
    from edgemem.report.sizes import size_text

    recorded = _recorded(made.model.recording)
    arena = f"arena {size_text(recorded[1])} as recorded" if recorded else "planned on the device"
    click.echo(f"{output}: {size_text(len(made.content))}, {arena}, ONNX Runtime {made.info.runtime}")
    shapes = [f"{name} {','.join(map(str, shape))}" for name, shape in made.info.shapes.items()]
    lines = [("model", f"{size_text(len(made.model.content))}, {', '.join(shapes)}; the app shows {made.info.task}")]
    if recorded:
        says = "the app tries it, and says so if it plans again on the device"
        lines.append(("plan", f"recorded in ONNX Runtime {recorded[0]}; {says}"))
    lines.append(("machines", ", ".join(made.abis)))
    lines.append(("signed by", f"{made.signature.subject}{' (a debug key of this user)' if is_debug else ''}"))
    _show_lines(lines)
    click.echo(f"install it with: adb install -r {output}")


def _show_inspection(apk: Path, found: Inspection) -> None:
    from edgemem.cli.printable import printable
    from edgemem.report.sizes import size_text

    wrong = len(found.wrong)
    runtime = f", ONNX Runtime {printable(found.runtime)}" if found.runtime else ""
    verdict = f"{wrong} of {len(found.checks)} checks failed" if wrong else "right"
    click.echo(f"{apk}: {verdict}, {size_text(found.size)}{runtime}")
    _show_lines([(c.name, f"{'' if c.is_right else 'WRONG: '}{c.says}") for c in found.checks])


def _show_lines(lines: list[tuple[str, str]]) -> None:
    from edgemem.cli.printable import printable

    for name, text in lines:
        click.echo(
            textwrap.fill(
                f"  {name:<{_INDENT - 2}}{printable(text)}",
                80,
                subsequent_indent=" " * _INDENT,
                break_on_hyphens=False,
            )
        )
