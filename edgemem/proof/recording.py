"""The records of a recording's plan against the recorded stream: each is one request, for as long as that is alive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgemem.proof.violations import Cause, Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgemem.plans import PlanSet
    from edgemem.trace.recording import Recording

__all__ = ["check_stream"]


def check_stream(planset: PlanSet, recording: Recording) -> Iterator[Violation]:
    """Records that are no request, or less than their request is; and requests with two places.

    A request without a record has its memory from the heap. What is never freed is alive to the end of the stream.
    """
    sizes, requests = recording.trace.size.tolist(), recording.trace.request.tolist()
    freed = {request: event for event, (size, request) in enumerate(zip(sizes, requests, strict=True)) if not size}
    seen: set[int] = set()
    for record in planset.problem.records:
        event = record.first_op
        if not 0 <= event < len(sizes) or not sizes[event]:
            message = f"{record.name!r} begins at event {event}, which asks for nothing"
            yield Violation(Cause.UNKNOWN_TENSOR, message, records=(record.name,), op=event)
            continue
        if event in seen:
            message = f"{record.name!r} is the second record of the request at event {event}"
            yield Violation(Cause.TWO_PLACES, message, records=(record.name,), op=event)
        seen.add(event)
        if not isinstance(record.size, int) or record.size < sizes[event]:
            message = f"{record.name!r} has {record.size}, event {event} asks for {sizes[event]}"
            yield Violation(Cause.RECORD_TOO_SMALL, message, records=(record.name,), op=event)
        end = freed.get(requests[event], len(sizes)) - 1
        if record.last_op < end:
            message = f"{record.name!r} ends at event {record.last_op}, its request is alive until {end}"
            yield Violation(Cause.WRONG_STEPS, message, records=(record.name,), op=event)
