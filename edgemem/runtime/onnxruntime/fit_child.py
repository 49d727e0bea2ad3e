"""A decoder at full caches in a process of its own."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from edgemem.model.states import StatePair
from edgemem.runtime.onnxruntime.baked_file import quiet_options
from edgemem.runtime.onnxruntime.decoder import DecoderState
from edgemem.runtime.onnxruntime.session import InferenceSession
from edgemem.system.child_call import Message, serve
from edgemem.system.process_memory import begin_peak, mapped_bytes, peak_bytes, resident_bytes, trim_heap

if TYPE_CHECKING:
    from collections.abc import Mapping

_STEPS = 3  # of one token each, behind the chunk


def longest(task: Mapping[str, Any]) -> dict[str, Any]:
    """The most tokens of `context`, up to those of the task, with which ONNX Runtime takes a token at their end.

    Models with a table of positions have such a limit. Raises what the run raises if not even `least` tokens work.
    """
    session = _session(task)

    def run(context: int) -> None:
        with _state(task, session, context, 1) as state:
            state.skip(context - 1)
            state.step(np.ones((task["batch"], 1), np.int64))

    def runs(context: int) -> bool:
        try:
            run(context)
        except Exception:  # noqa: BLE001 - ONNX Runtime's own classes
            return False
        return True

    low, high, step = task["least"], task["context"], task["step"]
    run(low)
    if runs(high):
        return {"context": high}
    while high - low > step:
        middle = low + (high - low) // 2 // step * step
        low, high = (middle, high) if runs(middle) else (low, middle)
    return {"context": low}


def _session(task: Mapping[str, Any]) -> InferenceSession:
    options = quiet_options()
    options.intra_op_num_threads = task["threads"]
    return InferenceSession(task["model"], options, cache=False, stored=False)


def _state(task: Mapping[str, Any], session: InferenceSession, context: int, chunk: int) -> DecoderState:
    states = [StatePair(**row) for row in task["states"]]
    return DecoderState(session, context, batch=task["batch"], chunk=chunk, states=states, sizes=task["sizes"])


def measure(task: Mapping[str, Any]) -> dict[str, Any]:
    """Resident memory of this process in bytes: the peak while `loading`, with it `loaded`, and the `peak` afterwards.

    0 where the system does not tell it. After a warm-up the caches are filled, so that all their memory is taken; then
    one chunk of a prompt and some tokens run at the end of them. Weights that lie in a mapped file count as a whole:
    which rows of a table of tokens are read, and stay resident, is up to the tokens.
    """
    folder = str(Path(task["model"]).resolve().parent)
    session = _session(task)
    _ = session.memory  # loads what the first run would
    loading = peak_bytes() or 0
    gc.collect()
    trim_heap()  # what loading left free is no part of what the session takes
    begin_peak()
    loaded = (resident_bytes() or 0) + _unread(folder)
    context, chunk = task["context"], min(task["chunk"], task["context"])
    state = _state(task, session, context, chunk)
    state.warm_up()
    state.fill(0)
    steps = min(_STEPS, context - chunk)
    state.skip(context - chunk - steps)
    for count in (chunk, *[1] * steps):
        state.step(np.ones((task["batch"], count), np.int64))
    memory = {"loading": loading, "loaded": loaded, "peak": (peak_bytes() or 0) + _unread(folder)}
    return memory | {"mode": state.report.mode, "reason": state.report.reason}


def _unread(folder: str) -> int:
    """Bytes of mapped files in a folder that no run has read yet."""
    size, resident = mapped_bytes(folder)
    return size - resident


if __name__ == "__main__":
    serve(lambda question: Message({"measure": measure, "longest": longest}[question.data["what"]](question.data)))
