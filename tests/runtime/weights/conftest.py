"""A model with packed weights, for tests that change a copy of it."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="session")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model, its packed weights, and the cache that remembers them."""
    pytest.importorskip("onnxruntime")
    from edgemem.runtime.onnxruntime.weights.packed_files import pack_beside
    from tests.weighted_models import products

    folder = tmp_path_factory.mktemp("ready")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EDGEMEM_CACHE", str(folder / "cache"))
        (folder / "model.onnx").write_bytes(products())
        pack_beside(folder / "model.onnx")
    return folder


@pytest.fixture
def path(ready: Path, tmp_path: Path) -> Path:
    """A copy of that model with everything."""
    shutil.copytree(ready, tmp_path, dirs_exist_ok=True)
    return tmp_path / "model.onnx"


@pytest.fixture
def packings(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The models that are packed from now on."""
    from edgemem.runtime.onnxruntime.weights import packing

    packed: list[Path] = []
    pack = packing.pack

    def counted(model: Path, *given: Any) -> packing.Packed:
        packed.append(model)
        return pack(model, *given)

    monkeypatch.setattr(packing, "pack", counted)
    return packed


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEMEM_CACHE", str(tmp_path / "cache"))
