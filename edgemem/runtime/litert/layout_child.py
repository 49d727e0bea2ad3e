"""Finds the places of a model's tensors in a process of its own, for `edgemem.runtime.litert.layout_cache`."""

from __future__ import annotations

from edgemem.errors import RuntimeBindError
from edgemem.runtime.litert import layout as _planner  # noqa: F401 - once it is loaded, this process plans
from edgemem.runtime.litert.arena_layout import encode_layout
from edgemem.runtime.litert.interpreter import Interpreter, OpResolverType
from edgemem.runtime.litert.structs_check import check_here
from edgemem.system.child_call import Message, serve

__all__: list[str] = []


def _planned(question: Message) -> Message:
    check_here()
    data = question.data
    options = dict(data["options"])
    kernels = OpResolverType[options.pop("kernels")]
    interpreter = Interpreter(
        data["path"],
        None if data["path"] else question.content,
        experimental_op_resolver_type=kernels,
        mode="planned",
        plan=data["plan"],
        strategy=data["strategies"] or None,
        inputs=data["inputs"],
        refuse="raise" if data["strict"] else "plain",
        **options,
    )
    try:
        for index, shape in data["shapes"]:
            interpreter.resize_tensor_input(index, shape)
        interpreter.allocate_tensors()
    except (RuntimeError, ValueError) as e:
        raise RuntimeBindError(f"LiteRT cannot prepare the model: {' '.join(str(e).split())}") from None
    layout = interpreter.layout
    if layout is None:
        raise RuntimeBindError(interpreter.memory.reason)
    return Message(encode_layout(layout))


if __name__ == "__main__":
    serve(_planned, limits_memory=True)
