"""A Kotlin compiler for tests: JetBrains' own."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from edgemem.android.sdk import run_tool
from tests.android.parts import KOTLIN as VERSION
from tests.android.parts import kotlin_jars
from tests.android.tools import JVM

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["VERSION", "compiled", "jvm", "syntax_errors"]


def jvm(name: str) -> str:
    """The path of `java` or `javac`; skips the test without it."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no JDK: there is no {name}")
    return found


def compiled(sources: list[Path], into: Path) -> list[Path]:
    """Compile Kotlin and Java sources (folders); the class path that the result runs on. A warning is an error."""
    jars = kotlin_jars()
    run_tool([*_kotlinc(), "-Werror", "-progressive", "-d", into, *sources], what="kotlinc", cwd=into)
    java = [file for source in sources for file in sorted(source.rglob("*.java"))]
    run_tool([jvm("javac"), "-proc:none", "-d", into, "-cp", into, *java], what="javac", cwd=into)
    return [into, jars / "kotlin-stdlib.jar"]


def syntax_errors(scripts: dict[str, str], folder: Path) -> list[str]:
    """What the compiler says of the syntax of Gradle's scripts, whose names it does not know.

    `scripts` are texts by path. `folder` is empty.
    """
    for number, text in enumerate(scripts.values()):
        (folder / f"Script{number}.kt").write_text(f"fun script{number}() {{\n{text}}}\n", encoding="utf-8")
    done = subprocess.run([*_kotlinc(), "-d", folder / "out", folder], capture_output=True, text=True, check=False)
    said = done.stderr.splitlines()
    assert any("unresolved reference" in line or "syntax error" in line for line in said), done.stderr[-500:]
    return [line for line in said if "syntax error" in line.lower()]


def _kotlinc() -> list[str | Path]:
    jars = kotlin_jars()
    java: list[str | Path] = [jvm("java"), *JVM, "-cp", jars / "kotlin-preloader.jar"]
    preloader: list[str | Path] = ["org.jetbrains.kotlin.preloading.Preloader", "-cp", jars / "kotlin-compiler.jar"]
    options: list[str | Path] = ["-no-stdlib", "-no-reflect", "-cp", jars / "kotlin-stdlib.jar", "-jvm-target", "17"]
    return [*java, *preloader, "org.jetbrains.kotlin.cli.jvm.K2JVMCompiler", *options]
