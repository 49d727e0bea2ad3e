"""Probes a model in a process of its own, for `edgemem.runtime.litert.probe.probe_apart`.

    python -m edgemem.runtime.litert.probe_child FOLDER

FOLDER holds the question, with the shapes of inputs by tensor index, and gets the answer (`process`).
"""

from __future__ import annotations

from edgemem.runtime.litert.probe import probe
from edgemem.runtime.litert.probe_data import encode_probe
from edgemem.runtime.litert.process import ChildReply, Question, serve
from edgemem.runtime.litert.structs_check import check_here

__all__: list[str] = []


def _probe(question: Question) -> ChildReply:
    check_here()
    return ChildReply({"subgraphs": encode_probe(probe(question.model, dict(question.data["shapes"])))})


if __name__ == "__main__":
    serve(_probe)
