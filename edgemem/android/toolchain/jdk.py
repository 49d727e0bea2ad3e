"""The Java development kit: of JAVA_HOME, else the one whose `javac` is on PATH."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from edgemem.android.toolchain.store import run_tool
from edgemem.errors import ToolError

__all__ = ["Jdk", "jdk"]

_OLDEST: Final = 17  # the class files of ONNX Runtime for Android are of Java 17


@dataclass(frozen=True, slots=True)
class Jdk:
    """A Java development kit: its folder and its version, as `17.0.21`."""

    home: Path
    version: str

    @property
    def java(self) -> Path:
        """The program that runs Java."""
        return self.home / "bin" / "java"

    @property
    def javac(self) -> Path:
        """The compiler."""
        return self.home / "bin" / "javac"

    def headers(self) -> tuple[Path, ...]:
        """The folders of jni.h and jni_md.h. Raises ToolError if this kit has none."""
        include = self.home / "include"
        machine = sorted(include.glob("*/jni_md.h"))
        if not (include / "jni.h").is_file() or not machine:
            raise ToolError(f"the JDK in {self.home} has no include/jni.h; install a whole JDK, not a Java runtime")
        return (include, machine[0].parent)


def jdk() -> Jdk:
    """The Java development kit of this machine. Raises ToolError without one of version 17 or later."""
    home = _home()
    said = run_tool([home / "bin" / "javac", "-version"], what="javac", cwd=home)
    found = re.search(r"javac (\d+)(\S*)", said)
    if found is None or int(found[1]) < _OLDEST:
        raise ToolError(f"the JDK in {home} is {said.strip() or 'unknown'}; install a JDK {_OLDEST} or later")
    return Jdk(home, found[1] + found[2])


def _home() -> Path:
    given = os.environ.get("JAVA_HOME", "").strip()
    if given:
        if not (Path(given) / "bin" / "javac").is_file():
            raise ToolError(f"JAVA_HOME is {given}, which has no bin/javac; set it to a JDK {_OLDEST} or later")
        return Path(given).absolute()
    javac = shutil.which("javac")
    if javac is None:
        raise ToolError(f"there is no javac; install a JDK {_OLDEST} or later, or set JAVA_HOME")
    return Path(javac).resolve().parents[1]
