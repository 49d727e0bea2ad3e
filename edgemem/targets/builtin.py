"""The targets that edgemem knows by name."""

from __future__ import annotations

from edgemem.targets.rules import Target

__all__ = ["BUILT_IN"]

BUILT_IN: dict[str, Target] = {
    t.name: t
    for t in (
        Target("generic"),
        Target("onnxruntime"),
        Target(
            "litert",
            inputs="whole_run",
            outputs="to_end",
            unread="to_end",
            variables="whole_run",
            aliasing="litert",
            bodies="outside",
            scratch="litert",
        ),
        Target("tflm", alignment=16, inputs="until_last_use", outputs="to_end", sub_byte="unpacked"),
        Target("gpu-buffer", alignment=256),
        Target("gpu-texture", alignment=1, aliasing="none", texels=True),
        # Bytes as its allocator is asked for them. Storages that share memory are one tensor in the graph already.
        Target("pytorch", alignment=1, outputs="to_end", aliasing="none"),
    )
}
