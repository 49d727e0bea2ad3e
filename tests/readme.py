"""The commands of README.md: every line of its ```sh blocks, in order. `--list` prints them for the shell."""

from __future__ import annotations

import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def commands(text: str) -> list[str]:
    """The lines inside ```sh fences; a line that ends in a backslash goes on."""
    found: list[str] = []
    inside = going_on = False
    for line in text.splitlines():
        if line.startswith("```"):
            inside = line == "```sh"
        elif inside and line.strip():
            if going_on:
                found[-1] += "\n" + line
            else:
                found.append(line)
            going_on = line.endswith("\\")
    return found


if __name__ == "__main__":
    if sys.argv[1:] != ["--list"]:
        sys.exit("usage: python tests/readme.py --list")
    print("\n".join(commands(README.read_text(encoding="utf-8"))))
