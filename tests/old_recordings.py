"""ONNX files as edgemem 0.1 wrote them: recorded plans under a key of their own, in a format of their own."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import onnx

from edgemem import planfile
from edgemem.plans import Settings

if TYPE_CHECKING:
    from edgemem.plans import PlanSet

__all__ = ["old_file", "old_recording"]


def old_recording(planset: PlanSet) -> bytes:
    """A recording's plan in the old format."""
    recording = planset.recording
    assert recording is not None
    fingerprint, signature = recording.fingerprint, recording.fingerprint.signature
    file = planfile.encode(replace(planset, recording=None, settings=Settings()))
    heap = np.setdiff1d(recording.trace.requests, planset.problem.first_op)
    entry = {
        "fingerprint": {
            "model": fingerprint.model,
            "runtime": fingerprint.version,
            "level": fingerprint.options["level"],
            "intra_threads": fingerprint.options["intra_threads"],
            "inter_threads": fingerprint.options["inter_threads"],
            "providers": str(fingerprint.options["providers"]).split(", "),
            "signature": {
                "call": "run, results in the arena" if signature.shared else signature.call,
                "inputs": signature.inputs,
                "outputs": signature.outputs,
                "bound": signature.bound,
            },
        },
        "events": len(recording.trace),
        "heap": [[int(event), int(recording.trace.size[event])] for event in heap],
        "bytes": len(file),
    }
    text = json.dumps([entry]).encode()
    body = text + file
    return struct.pack("<4sIII", b"EDGT", 1, zlib.crc32(body), len(text)) + body


def old_file(model: bytes, graph: PlanSet | None, recording: PlanSet) -> bytes:
    """A model with a plan of its graph, if there is one, and a recorded plan."""
    parsed = onnx.load_from_string(model)
    del parsed.metadata_props[:]
    if graph is not None:
        plan = planfile.encode(replace(graph, settings=Settings()))
        parsed.metadata_props.add(key="edgemem.plan", value=base64.b64encode(plan).decode())
    parsed.metadata_props.add(key="edgemem.trace", value=base64.b64encode(old_recording(recording)).decode())
    return bytes(parsed.SerializeToString())
