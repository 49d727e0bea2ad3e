"""What `--help` says: all commands by task, whole sentences, and two examples that can be typed."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from edgemem.cli.examples import EXAMPLES
from edgemem.cli.main import main
from edgemem.shrinking.steps import CHANGES

if TYPE_CHECKING:
    from collections.abc import Iterator


def _help(*command: str) -> str:
    done = CliRunner().invoke(main, [*command, "--help"], terminal_width=80)
    assert done.exit_code == 0
    return done.output


def _commands(group: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        yield (*path, name)
        if isinstance(command, click.Group):
            yield from _commands(command, *path, name)


COMMANDS = tuple(_commands(main))


def test_every_command_is_listed_once_with_its_whole_first_sentence() -> None:
    shown = _help()
    assert "..." not in shown.partition("Plan a model:")[2]
    for name, command in main.commands.items():
        first = " ".join((command.help or "").split("\n\n")[0].split())
        assert " ".join(shown.split()).count(f" {name} {first}") == 1


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_help_ends_with_two_examples(path: tuple[str, ...]) -> None:
    lines = _help(*path).rstrip().splitlines()
    assert "Examples:" in lines
    shown = " ".join(" ".join(lines[lines.index("Examples:") + 1 :]).split())
    assert shown == " ".join(EXAMPLES[" ".join(path)])


@pytest.mark.parametrize("example", [e for both in EXAMPLES.values() for e in both])
def test_an_example_can_be_typed(example: str) -> None:
    """All options of it exist, and take the values that it gives."""
    words = shlex.split(example)[1:]
    context = click.Context(main, info_name="edgemem")
    command: click.Command = main
    while isinstance(command, click.Group):
        found = command.get_command(context, words[0])
        assert found is not None
        context = click.Context(found, info_name=words[0], parent=context)
        command, words = found, words[1:]
    command.make_context(command.name, words, parent=context.parent)


def test_plan_has_what_placement_needs() -> None:
    options = [p for p in main.commands["plan"].params if isinstance(p, click.Option) and p.expose_value]
    assert len(options) <= 17


def test_the_changes_to_choose_from_are_named() -> None:
    assert ", ".join(CHANGES) in " ".join(_help("shrink").split())
