"""Operator logs: those of DTR's prototype, and edgemem's own."""

from edgemem_converters.operator_log.dtr import DtrLogConverter
from edgemem_converters.operator_log.own import OwnLogConverter

__all__ = ["DtrLogConverter", "OwnLogConverter"]
