"""Probes a model in a process of its own, for `edgemem.runtime.litert.probe.probe_apart`.

The question has the shapes of inputs by tensor index.
"""

from __future__ import annotations

from edgemem.runtime.litert.probe import probe
from edgemem.runtime.litert.probe_data import encode_probe
from edgemem.runtime.litert.structs_check import check_here
from edgemem.system.child_call import Message, serve

__all__: list[str] = []


def _probe(question: Message) -> Message:
    check_here()
    return Message({"subgraphs": encode_probe(probe(question.content, dict(question.data["shapes"])))})


if __name__ == "__main__":
    serve(_probe, limits_memory=True)
