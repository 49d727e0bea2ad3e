"""Plan files: plan sets as bytes, inside a model or stand-alone (`*.edgemem`). docs/plan-file.md has the format."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgemem.planfile.container import VERSION as VERSION
    from edgemem.planfile.container import check_whole as check_whole
    from edgemem.planfile.decoding import decode as decode
    from edgemem.planfile.decoding import decode_all as decode_all
    from edgemem.planfile.encoding import encode as encode
    from edgemem.planfile.encoding import encode_all as encode_all
    from edgemem.planfile.file import load as load
    from edgemem.planfile.file import load_all as load_all
    from edgemem.planfile.file import save as save
    from edgemem.planfile.file import save_all as save_all

__all__ = [
    "VERSION",
    "check_whole",
    "decode",
    "decode_all",
    "encode",
    "encode_all",
    "load",
    "load_all",
    "save",
    "save_all",
]

# A session of a model without a plan neither reads nor writes one, so each is loaded on first use.
_HOMES = {
    "VERSION": "container",
    "check_whole": "container",
    "decode": "decoding",
    "decode_all": "decoding",
    "encode": "encoding",
    "encode_all": "encoding",
    "load": "file",
    "load_all": "file",
    "save": "file",
    "save_all": "file",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
