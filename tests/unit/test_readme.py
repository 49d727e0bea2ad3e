from __future__ import annotations

from tests.readme import README, commands


def test_commands_are_the_sh_blocks() -> None:
    assert commands("```sh\na\nb \\\n  c\n```\n```\nd\n```\n    e\n") == ["a", "b \\\n  c"]


def test_the_readme_begins_with_two_commands() -> None:
    first, second = commands(README.read_text(encoding="utf-8"))[:2]
    assert "edgemem plan" in first
    assert second.endswith("pytest")
