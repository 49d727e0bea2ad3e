"""Traces: what a running program asked of its allocator, and the usage records that follow from it."""

from edgemem.trace.operator_log import OperatorLog
from edgemem.trace.ragged import Ragged
from edgemem.trace.trace import Section, Trace

__all__ = ["OperatorLog", "Ragged", "Section", "Trace"]
