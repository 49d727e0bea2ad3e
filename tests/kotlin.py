"""A Kotlin compiler for tests: JetBrains' own, from npm, kept in edgemem's cache."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from functools import cache
from pathlib import Path, PurePosixPath

import pytest

from edgemem.android.toolchain.store import Package, download, entry_folder, run_tool
from edgemem.errors import ToolError

__all__ = ["VERSION", "compiled", "jvm", "syntax_errors"]

VERSION = "2.4.20"
_PACKAGE = Package("npm", "kotlin-compiler", VERSION, "Apache-2.0")
_JARS = {  # with the sha256 of each
    "kotlin-compiler.jar": "038d406cc51d5fe3f6b5a16366a3f083b783bceb9e576e3103e695c3ce04e0fa",
    "kotlin-preloader.jar": "fa21af15828fe034c715d0d557924f898e0262b7e4c415629c22532ceea6adc7",
    "kotlin-stdlib.jar": "2226de463d309d4a5500a481320b3dea515a6981dcae1def531fbc158884e25f",
    "kotlin-script-runtime.jar": "fc5a19df78be445d84e8352e0d01098a6a8181324aa50c6f7bf850338e81e1b4",
    "kotlin-reflect.jar": "b4aac2a4686ffdc110602ce153e4a90ffd7f37fa86fcca9d3b3aa39c08f8c2fc",
    "kotlinx-coroutines-core-jvm.jar": "9860906a1937490bf5f3b06d2f0e10ef451e65b95b269f22daf68a3d1f5065c5",
    "annotations-13.0.jar": "ace2a10dc8e2d5fd34925ecac03e4988b2c0f851650c94b8cef49ba1bd111478",
}


def jvm(name: str) -> str:
    """The path of `java` or `javac`; skips the test without it."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no JDK: there is no {name}")
    return found


@cache
def _home() -> Path:
    """The compiler's folder, with its libraries in lib/; skips the test where they cannot be had."""

    def fill(folder: Path) -> None:
        (folder / "lib").mkdir()
        for name, content in download(_PACKAGE, [f"package/lib/{jar}" for jar in _JARS]).items():
            jar = PurePosixPath(name).name
            if (found := hashlib.sha256(content).hexdigest()) != _JARS[jar]:
                raise ToolError(f"{jar} of {_PACKAGE} has the checksum {found}: it is not the one that was pinned")
            (folder / "lib" / jar).write_bytes(content)

    try:
        return entry_folder(f"kotlin-compiler-{VERSION}", fill)
    except ToolError as e:
        pytest.skip(f"the tools for Android cannot be had: {e}")


def compiled(sources: list[Path], into: Path) -> list[Path]:
    """Compile Kotlin and Java sources (folders); the class path that the result runs on. A warning is an error."""
    jars = _home() / "lib"
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
    jars = _home() / "lib"
    java: list[str | Path] = [jvm("java"), "-cp", jars / "kotlin-preloader.jar"]
    preloader: list[str | Path] = ["org.jetbrains.kotlin.preloading.Preloader", "-cp", jars / "kotlin-compiler.jar"]
    options: list[str | Path] = ["-kotlin-home", _home(), "-no-reflect", "-jvm-target", "17"]
    return [*java, *preloader, "org.jetbrains.kotlin.cli.jvm.K2JVMCompiler", *options]
