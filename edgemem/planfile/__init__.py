"""Plan files: a PlanSet as bytes, inside a model or stand-alone (`*.edgemem`). docs/plan-file.md has the format."""

from edgemem.planfile.container import VERSION
from edgemem.planfile.decode import decode
from edgemem.planfile.encode import encode
from edgemem.planfile.file import load, save

__all__ = ["VERSION", "decode", "encode", "load", "save"]
