"""The commands of README.md: every line of its ```sh blocks, in order. .ci/run runs what `--list` prints.

python -m tests.snippets.readme --list
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.snippets.blocks import blocks, commands

__all__ = ["README", "readme_commands"]

README = Path(__file__).parents[2] / "README.md"


def readme_commands(text: str) -> list[str]:
    """The commands of all ```sh blocks that are run."""
    shell = [b for b in blocks(text) if b.language == "sh" and not b.reason]
    return [command for block in shell for command in commands(block.text)]


if __name__ == "__main__":
    if sys.argv[1:] != ["--list"]:
        sys.exit("usage: python -m tests.snippets.readme --list")
    print("\n".join(readme_commands(README.read_text(encoding="utf-8"))))
