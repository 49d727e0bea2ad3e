"""Runs a page of the documentation: its blocks, one after another, in one folder.

| language | what is done |
|---|---|
| `sh` | each line is run by bash; it must succeed |
| `console` | each line after `$ ` is run, in a terminal of 80 columns; it must succeed and print what stands below it |
| `python` | run; all blocks of a page share one namespace |
| `pyi` | declarations of Python, which are parsed |
| `text` | what the block above it printed |
| `c`, `cpp` | saved under the name behind the language; the page's commands compile it |
| `toml`, `json`, `csv`, any other | saved under the name behind the language; without one TOML and JSON are read |

`edgemem` and `python` are those of this interpreter. What else lies in the folder is up to the caller.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import termios
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.snippets.blocks import Block, blocks, commands
from tests.snippets.output import mismatch

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Page", "PageError", "fetched_models"]

ROOT = Path(__file__).parents[2]
STUBS = Path(__file__).parent / "stubs"
_COLUMNS = 80
_LIMIT_S = 300
_SAVED = ("c", "cpp", "toml", "json", "csv", "java")


class PageError(AssertionError):
    """A block that does not do what the page says."""


def fetched_models(text: str) -> tuple[str, ...]:
    """Names of the real models that a page fetches."""
    return tuple(dict.fromkeys(re.findall(r"models/fetch\.py (\w+)", text)))


class Page:
    """One page, run in one folder.

    Args:
        path: of the Markdown file.
        folder: where it is run, with the files that it needs.
        shell: whether to run its `sh` blocks.
    """

    def __init__(self, path: Path, folder: Path, *, shell: bool = True) -> None:
        self.path = path
        self.folder = folder
        self.shell = shell
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._printed: str | None = None
        programs = folder.parent / "bin"
        programs.mkdir()
        for name, arguments in (("python", ""), ("edgemem", "-m edgemem ")):
            program = programs / name
            program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments}"$@"\n')
            program.chmod(0o755)
        self._env = {
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONSAFEPATH": "1",
            "TERM": "dumb",
            "COLUMNS": str(_COLUMNS),
        }

    def run(self) -> None:
        """Run every block. Raises PageError at the first one that does not do what the page says."""
        for block in blocks(self.path.read_text(encoding="utf-8")):
            if block.reason:
                self._printed = None
                continue
            try:
                self._run(block)
            except PageError as e:
                raise PageError(f"{self.path.name}:{block.line}: {e}") from None

    def _run(self, block: Block) -> None:
        if block.file:
            if block.language not in _SAVED:
                raise PageError(f"a block of {block.language!r} is not saved as a file")
            (self.folder / block.file).write_text(block.text, encoding="utf-8")
        elif block.language == "sh":
            if self.shell:
                self._printed = "".join(self._command(c) for c in commands(block.text))
        elif block.language == "console":
            for command, shown in _session(block):
                _compare(shown, self._command(command, terminal=True))
        elif block.language == "python":
            self._python(block)
        elif block.language == "text":
            if self._printed is None:
                raise PageError("there is no output that this text could be")
            _compare(block.text, self._printed)
        elif block.language == "pyi":
            ast.parse(block.text)
        elif block.language == "toml":
            tomllib.loads(block.text)
        elif block.language == "json":
            json.loads(block.text)
        else:
            raise PageError(f"nothing says what to do with a block of {block.language!r}")

    def _command(self, command: str, *, terminal: bool = False) -> str:
        """What a command prints, errors included. Raises PageError if it fails."""
        arguments = [shutil.which("bash") or "/bin/bash", "-euo", "pipefail", "-c", command]
        if terminal:
            status, printed = _in_terminal(arguments, self.folder, self._env)
        else:
            done = subprocess.run(
                arguments,
                cwd=self.folder,
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_LIMIT_S,
                check=False,
            )
            status, printed = done.returncode, done.stdout.decode()
        if status:
            raise PageError(f"exit status {status} of\n{command}\n{printed}")
        return printed

    def _python(self, block: Block) -> None:
        """Run Python; lines of tracebacks are those of the page."""
        code = compile("\n" * (block.line - 1) + block.text, str(self.path), "exec")
        printed = io.StringIO()
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(printed):
            exec(code, self._names)
        self._printed = printed.getvalue()


def _session(block: Block) -> Iterator[tuple[str, str]]:
    """The commands of a block of `console`, each with what it shows below."""
    command, shown, going_on = "", "", False
    for line in block.text.splitlines():
        if going_on:
            command += "\n" + line.removeprefix("> ")
        elif line.startswith("$ "):
            if command:
                yield command, shown
            command, shown = line[2:], ""
        else:
            shown += line + "\n"
            continue
        going_on = line.endswith("\\")
    if not command:
        raise PageError("a block of console begins with $ and a command")
    yield command, shown


def _compare(shown: str, printed: str) -> None:
    if mismatch(shown, printed) and (difference := mismatch(_unfolded(shown), _unfolded(printed))):
        raise PageError(difference)


def _unfolded(text: str) -> str:
    """Lines that a terminal of 80 columns made two, in one: where a line is folded depends on the times in it."""
    lines: list[str] = []
    for line in text.splitlines():
        first = len(" ".join(line.split()[:2]))  # a number stays with its unit
        is_further_in = bool(lines) and len(line) - len(line.lstrip()) >= 2 + len(lines[-1]) - len(lines[-1].lstrip())
        if is_further_in and len(lines[-1].rstrip()) + 1 + first > _COLUMNS:
            lines[-1] = f"{lines[-1].rstrip()} {line.strip()}"
        else:
            lines.append(line)
    return "".join(f"{line}\n" for line in lines)


def _in_terminal(arguments: list[str], folder: Path, env: dict[str, str]) -> tuple[int, str]:
    """Exit status and output of a command whose stdout is a terminal of 80 columns; stderr is none."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (50, _COLUMNS))
    with subprocess.Popen(
        [*arguments[:-1], f"{{ {arguments[-1]}\n}} 2> >(cat)"],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        printed = b""
        # A terminal whose other side is closed gives an error instead of an end.
        with contextlib.suppress(OSError):
            while data := os.read(ours, 65536):
                printed += data
        os.close(ours)
        process.wait(timeout=_LIMIT_S)
    return process.returncode, printed.decode().replace("\r\n", "\n")
