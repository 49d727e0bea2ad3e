"""Packages as `pip install` leaves them, made without pip and a network: modules, and the entry points of a project."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["install"]


def install(project: str, modules: dict[str, str], site: Path) -> None:
    """Install a package into a folder of PYTHONPATH.

    Args:
        project: the text of its pyproject.toml.
        modules: name -> source.
        site: the folder.
    """
    about = tomllib.loads(project)["project"]
    info = site / f"{about['name'].replace('-', '_')}-{about['version']}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {about['name']}\nVersion: {about['version']}\n")
    lines = []
    for group, names in about["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in names.items())]
    (info / "entry_points.txt").write_text("\n".join(lines))
    for name, source in modules.items():
        (site / f"{name}.py").write_text(source)
