"""`edgemem`, which has all commands, and its small ones: `help`, `show`, `strategies`, `export`.

Exit codes: 0 ok, 1 a check failed or the model cannot be planned, 2 usage, 3 over budget, 4 invalid plan, 128 + n ended
by the signal n (130 for Ctrl-C).
Heavy imports stay inside the commands, so that `--help` is quick.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

import click

from edgemem.cli.android import android
from edgemem.cli.checking import check
from edgemem.cli.comparing import diff
from edgemem.cli.exit_codes import EXIT_FAILED, EXIT_INTERRUPTED
from edgemem.cli.fit import fit
from edgemem.cli.measuring import measure
from edgemem.cli.options import FILE, FileCommand
from edgemem.cli.planning import plan
from edgemem.cli.probing import probe
from edgemem.cli.reporting import report
from edgemem.cli.running import run
from edgemem.cli.shrinking import shrink
from edgemem.cli.sizing import size
from edgemem.cli.tracing import trace
from edgemem.cli.verifying import verify

__all__ = ["main"]


class _Commands(click.Group):
    """Turns edgemem's errors, and signals that end a command, into one line on stderr and an exit code."""

    command_class = FileCommand

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands by task, each with the first sentence of its help as a whole."""
        for task, names in _TASKS.items():
            with formatter.section(task):
                formatter.write_dl([(name, _first_sentence(self.commands[name])) for name in names])

    def format_epilog(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write_paragraph()
        formatter.write_text("`edgemem COMMAND --help` shows the options of a command, and examples.")

    def main(self, *args: Any, **extra: Any) -> Any:
        from edgemem.cli.printable_text import is_printed, open_closed_streams, plain_warnings, printable_output
        from edgemem.cli.signals import ended_by_signals

        open_closed_streams()
        with ended_by_signals(), printable_output() as output, plain_warnings():
            try:
                return super().main(*args, **extra)
            except SystemExit as e:
                if not is_printed(output) and not e.code:
                    raise SystemExit(EXIT_FAILED) from None
                raise

    def invoke(self, ctx: click.Context) -> Any:
        from edgemem.cli.failures import REPORTED, failure_of
        from edgemem.cli.printable_text import printable
        from edgemem.cli.signals import received, say_once
        from edgemem.errors import BudgetExceededError
        from edgemem.system.text import abbreviate

        remedies: tuple[str, ...] = ()
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            message, code = "interrupted", EXIT_INTERRUPTED
        except BrokenPipeError:
            raise  # the reader has gone, and click ends quietly
        except REPORTED as e:
            message, code = failure_of(e)
            remedies = e.remedies if isinstance(e, BudgetExceededError) else ()
        if ended := received():  # the error may have come of it
            say_once(ended)
            return ctx.exit(ended.code)
        click.echo(f"edgemem: {abbreviate(printable(message))}", err=True)
        for line in remedies:
            click.echo(printable(line), err=True)
        return ctx.exit(code)


def _first_sentence(command: click.Command) -> str:
    return " ".join((command.help or "").split("\n\n")[0].split())


_TASKS: Final = {
    "Plan a model": ("plan", "shrink", "fit", "strategies"),
    "Check and run it": ("verify", "run", "show", "export", "android"),
    "See and compare it": ("report", "diff", "check"),
    "Measure": ("size", "measure", "trace", "probe"),
    "More": ("help",),
}


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
    no_args_is_help=True,
)
@click.option("--version", "show_version", is_flag=True, help="Show the version and exit.")
@click.option("--verbose", is_flag=True, help="With --version: those of runtimes and the processor, too, for reports.")
@click.pass_context
def main(context: click.Context, *, show_version: bool, verbose: bool) -> None:
    """Plan, prove and embed the memory of neural networks (ONNX, TFLite, or usage records as CSV)."""
    from edgemem.system.distribution import VERSION

    if verbose and not show_version:
        raise click.UsageError("--verbose goes with --version")
    if show_version:
        click.echo(f"edgemem, version {VERSION}")
        if verbose:
            from edgemem.commands.versions import versions

            for name, found in versions().items():
                click.echo(f"{name:16} {found or 'not installed'}")
        context.exit()
    if context.invoked_subcommand is None:
        raise click.UsageError("give a command; `edgemem --help` lists them")


@main.command("help")
@click.argument("topic", metavar="[COMMAND|CODE]", required=False)
@click.pass_context
def help_(context: click.Context, topic: str | None) -> None:
    """Show the help of edgemem, of one COMMAND, or what the CODE of an error means, such as E101."""
    parent = context.parent
    assert parent is not None
    if topic is None:
        click.echo(parent.get_help())
        return
    found = main.get_command(parent, topic)
    if found is not None:
        click.echo(found.get_help(click.Context(found, info_name=topic, parent=parent)))
        return
    from edgemem.cli.error_pages import error_text

    text = error_text(topic.upper())
    if not text:
        known = ", ".join(main.list_commands(parent))
        raise click.UsageError(f"no command {topic!r}; there are {known}, and codes of errors, such as E101")
    click.echo(text)


main.add_command(plan)
main.add_command(shrink)
main.add_command(run)
main.add_command(size)
main.add_command(measure)
main.add_command(probe)
main.add_command(fit)
main.add_command(trace)
main.add_command(android)
main.add_command(verify)
main.add_command(report)
main.add_command(diff)
main.add_command(check)


@main.command()
@click.argument("planned", type=FILE)
@click.option("--top", default=10, show_default=True, type=click.IntRange(min=0), help="Live tensors to list.")
@click.option("--all", "all_plans", is_flag=True, help="List all plans, not only the smallest ones.")
@click.option("--tensors", is_flag=True, help="List every tensor with its offset, size and operators.")
@click.option("--profile", is_flag=True, help="List what is alive at every operator.")
@click.option("--json", "as_json", is_flag=True, help="Print the plans as JSON (docs/json.md).")
def show(planned: Path, top: int, *, all_plans: bool, tensors: bool, profile: bool, as_json: bool) -> None:
    """Show the plan in a planned model or .edgemem file; a wrong plan is refused."""
    from edgemem.cli import plan_view, view
    from edgemem.planning.verification import graph_for, recordings_beside, right_plan
    from edgemem.shrinking.note import notes_in

    proved, model = right_plan(planned)
    planset = proved.planset
    notes = () if model is None else notes_in(model)
    graph = graph_for(planset, model) if model is not None and proved.graph else None
    if as_json:
        view.print_json(planset, graph, notes)
    else:
        said = "\n".join(f"made by shrink {note}" for note in notes)
        recorded = recordings_beside(planned, model)
        of = "graph's " if recorded else ""
        if planset.recording is not None:  # the file has no plan of its graph
            of, recorded = "recorded ", recorded[1:]
        view.show_recorded(recorded, graph)
        plan_view.show_plan(planset, top=top, rows=None if all_plans else 4, note=said, of=of)
        if tensors:
            plan_view.show_tensors(planset)
        if profile:
            plan_view.show_profile(planset)


@main.command()
@click.option("--json", "as_json", is_flag=True, help="Print them as JSON.")
def strategies(*, as_json: bool) -> None:
    """List the strategies and the methods that order operators, with their options, paper and complexity."""
    from edgemem.api import order_methods
    from edgemem.cli import plan_view
    from edgemem.strategy.catalogue import registered
    from edgemem.strategy.options import as_data

    if as_json:
        keys = ("name", "family", "paper", "complexity", "extra", "limit")
        entries = [
            {
                **{k: getattr(s, k) for k in keys},
                "options": {k: as_data(v) for k, v in s.options.items()},
                "honours": sorted(s.honours),
            }
            for s in registered()
        ]
        entries += [
            {
                **{k: getattr(s, k) for k in ("name", "paper", "complexity", "extra", "limit")},
                "family": "order",
                "options": {k: as_data(v) for k, v in s.options.items()},
            }
            for s in order_methods()
        ]
        click.echo(json.dumps(entries, indent=1))
    else:
        plan_view.show_strategies(registered(), order_methods())


@main.command()
@click.argument("files", type=FILE, nargs=-1, required=True, metavar="PLANNED...")
@click.option(
    "-f",
    "--format",
    "form",
    required=True,
    type=click.Choice(
        [
            *("json", "csv", "c-array", "c-header", "svg", "tflm-bufferplan", "tflm-metadata"),
            *("arduino", "espidf", "esphome", "zephyr", "web"),
        ]
    ),
    help="What to write; the last five are folders: of files for firmware, and of a page that runs the model.",
)
@click.option("-o", "--output", type=FILE, help="Write to a file, or a folder, instead of the terminal.")
def export(files: tuple[Path, ...], form: str, output: Path | None) -> None:
    """Write the plan in a planned model or .edgemem file in a form other tools read; a wrong plan is refused.

    Several models for firmware have one arena: they run one after the other, with one MicroAllocator.
    """
    from edgemem import api
    from edgemem.formats import MicroPlanned
    from edgemem.planning.verification import graph_for, right_plan
    from edgemem.report.export import export as export_text
    from edgemem.report.firmware import FIRMWARE_FORMS, as_c_array, firmware_files
    from edgemem.system.files import atomic_write

    if len(files) > 1 and (form == "esphome" or form not in ("c-array", *FIRMWARE_FORMS)):
        raise click.UsageError(f"{form} is of one model")
    if form == "web":
        from edgemem.runtime.webgpu.web_bundle import write_bundle

        if output is None:
            raise click.UsageError("web is several files: give -o FOLDER")
        for written in write_bundle(files[0], output):
            click.echo(f"wrote {written}")
        return
    (proved, model), *_ = [right_plan(file) for file in files]
    name = files[0].name.split(".")[0]
    if form in ("c-array", *FIRMWARE_FORMS):
        from edgemem.commands.firmware import firmware_of

        if form != "c-array":
            if output is None:
                raise click.UsageError(f"{form} is several files: give -o FOLDER")
            for path, content in firmware_files(firmware_of(files, Path(os.path.realpath(output)).name), form).items():
                file_path = output / path
                file_path.parent.mkdir(parents=True, exist_ok=True)
                with atomic_write(file_path) as file:
                    file.write(content)
                click.echo(f"wrote {file_path}")
            return
        data = as_c_array(firmware_of(files, output.stem if output else "models")).encode()
    elif form == "tflm-metadata":
        data = api.offline_metadata(model)
    else:
        graph = None
        if model is not None and proved.graph and (form == "json" or isinstance(model, MicroPlanned)):
            graph = graph_for(proved.planset, model)
        data = export_text(proved, form, name=name, graph=graph).encode()
    if output is None:
        click.echo(data, nl=False)
        return
    with atomic_write(output) as file:
        file.write(data)
    click.echo(f"wrote {output}", err=not output.is_file())  # what is no file may be stdout
