from __future__ import annotations

import pytest

from tests.snippets.blocks import Block, blocks, commands, indented
from tests.snippets.output import mismatch
from tests.snippets.readme import README, readme_commands


def test_a_block_says_how_it_is_run() -> None:
    page = "text\n```sh\na\n```\n```toml board.toml\nb = 1\n```\n- x\n\n  ```c no-ci: needs a board\n  c\n  ```\n"
    assert blocks(page) == (
        Block(3, "sh", "", "", "a\n"),
        Block(6, "toml", "board.toml", "", "b = 1\n"),
        Block(11, "c", "", "needs a board", "c\n"),
    )


def test_a_block_without_a_reason_shows() -> None:
    assert blocks("```sh no-ci\na\n```\n")[0].reason == "?"


def test_an_open_fence_is_refused() -> None:
    with pytest.raises(ValueError, match="above line 2 is not closed"):
        blocks("```sh\na\n")


def test_commands_are_lines_that_a_backslash_continues() -> None:
    assert commands("a\n\nb \\\n  c\nd\n") == ["a", "b \\\n  c", "d"]


def test_indented_code_is_found_and_lists_are_not() -> None:
    assert indented("a\n\n    code\n\n- item\n\n    more of it\n\ntext\n    continued\n\n```\n\n    x\n```\n") == (3,)


def test_commands_of_the_readme_are_its_sh_blocks() -> None:
    page = "```sh\na\nb \\\n  c\n```\n```\nd\n```\n```sh no-ci: no\ne\n```\n"
    assert readme_commands(page) == ["a", "b \\\n  c"]


def test_the_readme_begins_with_two_commands() -> None:
    first, second = readme_commands(README.read_text(encoding="utf-8"))[:2]
    assert "edgemem plan" in first
    assert ".venv/bin/pytest" in second


@pytest.mark.parametrize(
    ("shown", "printed"),
    [
        ("a\nb\n", "a\nb\n"),
        ("a  \n", "a\n"),
        ("took 98 ms in all\n", "took 1,234.5 ms in all\n"),
        ("a\n...\nd\n", "a\nb\nc\nd\n"),
        ("a\n...\nd\n", "a\nd\n"),
        ("version ...1\n", "version 3.2.1\n"),
        ("1.5x (a+b)\n", "1.5x (a+b)\n"),
    ],
)
def test_output_is_as_shown(shown: str, printed: str) -> None:
    assert mismatch(shown, printed) == ""


@pytest.mark.parametrize(
    ("shown", "printed"),
    [("a\n", "a\nb\n"), ("a\nb\n", "a\n"), ("98 bytes\n", "99 bytes\n"), ("a...\n", "b\n"), ("a.c\n", "abc\n")],
)
def test_other_output_is_found(shown: str, printed: str) -> None:
    assert "the page shows" in mismatch(shown, printed)
