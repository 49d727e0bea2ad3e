"""Traces: what a running program asked of its allocator, and the usage records that follow from it."""

from edgemem.trace.trace import Section, Trace

__all__ = ["Section", "Trace"]
