"""Plan files: plan sets as bytes, inside a model or stand-alone (`*.edgemem`). docs/plan-file.md has the format."""

from edgemem.planfile.container import VERSION
from edgemem.planfile.decode import decode, decode_all
from edgemem.planfile.encode import encode, encode_all
from edgemem.planfile.file import load, load_all, save, save_all

__all__ = ["VERSION", "decode", "decode_all", "encode", "encode_all", "load", "load_all", "save", "save_all"]
