"""Decoders as they are run without edgemem: sessions of one thread, and greedy decoding with arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnxruntime

if TYPE_CHECKING:
    import onnx
    from numpy.typing import NDArray

__all__ = ["greedy", "plain_session"]


def plain_session(model: onnx.ModelProto | str) -> Any:
    """An ordinary session of one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    content = model if isinstance(model, str) else model.SerializeToString()
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def greedy(session: Any, prompt: NDArray[Any], count: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Greedy decoding with run and arrays: the tokens [batch, count], and the logits of the last one."""
    pasts = [i for i in session.get_inputs() if i.name.startswith("past_key")]
    has_mask = any(i.name == "attention_mask" for i in session.get_inputs())
    batch, tokens = len(prompt), np.zeros((len(prompt), count), np.int64)
    state = {
        i.name: np.zeros([batch if k == 0 else d if isinstance(d, int) else 0 for k, d in enumerate(i.shape)], "f")
        for i in pasts
    }
    following, length, logits = prompt, 0, np.zeros(0)
    for number in range(count):
        length += following.shape[1]
        feeds = {"input_ids": following, **state}
        if has_mask:
            feeds["attention_mask"] = np.ones((batch, length), np.int64)
        logits, *present = session.run(None, feeds)
        state = dict(zip((i.name for i in pasts), present, strict=True))
        tokens[:, number] = logits[:, -1].argmax(-1)
        following = tokens[:, number : number + 1]
    return tokens, logits[:, -1]
