"""Values of onnxruntime-genai's genai_config.json that follow from a budget, and their place in such a file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from edgemem.errors import ModelError
from edgemem.system.files import atomic_write

if TYPE_CHECKING:
    from pathlib import Path

    from edgemem.commands.fit import Fit

__all__ = ["genai_values", "merge_config"]

_MOST_CHARACTERS: Final = 16 << 20  # of a configuration


def genai_values(made: Fit) -> dict[str, dict[str, Any]]:
    """The values that follow, by section."""
    return {
        "model": {"context_length": made.best.context},
        "search": {
            "max_length": made.best.context,
            "past_present_share_buffer": made.mode == "in place",
            "chunk_size": made.best.chunk,
        },
    }


def merge_config(path: Path, values: dict[str, dict[str, Any]]) -> None:
    """Write the values into a file, atomically; everything else in it stays. It is made if it is not there.

    Raises ModelError if the file holds no JSON object, or a section in it is none.
    """
    config: Any = {}
    if path.exists():
        try:
            with path.open(encoding="utf-8") as file:
                config = json.loads(file.read(_MOST_CHARACTERS))
        except (ValueError, RecursionError):
            config = None
        if not isinstance(config, dict) or not all(isinstance(config.get(name, {}), dict) for name in values):
            raise ModelError(f"{path} is no genai_config.json; name another file, or remove it")
    for name, section in values.items():
        config[name] = {**config.get(name, {}), **section}
    with atomic_write(path) as out:
        out.write((json.dumps(config, indent=4, ensure_ascii=False) + "\n").encode())
