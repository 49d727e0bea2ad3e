"""What must hold of a model's runs on a device, whichever processor it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from edgemem.runtime.onnxruntime.record import embed, record
from tests.android.subjects import TOLERANCE, Subject, close, equal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.android.device import Device, Results

__all__ = ["check_recorded_here", "check_run_from_file", "check_served", "plain", "with_recording"]


def plain(device: Device, subject: Subject, folder: Path) -> Results:
    """The model's runs in the same library without edgemem; they are close to desktop ONNX Runtime's."""
    results = device.run(subject.path, subject.feeds, folder, planned=False)
    assert close(results.outputs["parent0"], subject.expected) <= TOLERANCE
    return results


def check_served(run: Mapping[str, Any], source: str, *, is_largest: bool = True) -> None:
    """Every request of the run came from the arena, no other thread asked, and the measured bytes are the planned ones.

    `is_largest`: the plan is for inputs of just this size; else it may be for larger ones.
    """
    assert (run["source"], run["is_complete"]) == (source, True), run
    assert run["requests"] == run["hits"] == run["places"] > 0, run
    assert (run["misses"], run["heap_peak"], run["outside"]) == (0, 0, 0), run
    assert run["measured"] == run["planned"] if is_largest else run["measured"] <= run["planned"], run
    assert run["lower_bound"] <= run["planned"] == run["arena"] <= run["naive"] + 64 * run["requests"], run


def check_recorded_here(results: Results, subject: Subject, by_itself: Results) -> None:
    """The first run is recorded, all others follow the plan that was made of it, and the results are the same bits."""
    for who, outputs in results.outputs.items():
        assert equal(outputs, by_itself.outputs["parent0"]), who
    for process, worker in {(run["process"], run["worker"]) for run in results.runs}:
        first, *later = results.of(process, worker)
        assert (first["source"], first["hits"], first["planned"], first["outside"]) == ("none", 0, 0, 0)
        assert first["requests"] == first["misses"] > 0
        assert first["heap_peak"] > 0
        assert len(later) == len(subject.feeds) - 1 > 0
        for run in later:
            check_served(run, "made here")
            assert run["replans"] == 1
            assert run["requests"] == first["requests"]


def with_recording(subject: Subject, folder: Path, *, keep_reuse: bool = False, bind_outputs: bool = False) -> Path:
    """The model with a recording of desktop ONNX Runtime's first run in it."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    settings.log_severity_level = 4
    planned = folder / f"{subject.path.stem}.planned.onnx"
    recording = record(
        subject.path, subject.feeds[0], sess_options=settings, keep_reuse=keep_reuse, bind_outputs=bind_outputs
    )
    embed(subject.path, [recording], planned)
    return planned


def check_run_from_file(results: Results, by_itself: Results) -> None:
    """All runs follow the recording in the file, from the first one on."""
    assert equal(results.outputs["parent0"], by_itself.outputs["parent0"])
    for run in results.runs:
        check_served(run, "file")
        assert run["replans"] == 0
