"""Continues one prompt in three ways; the prompt is decoded once, and is in memory once."""

import numpy as np

import edgemem

PROMPT = np.arange(1, 65)[None]  # 64 tokens

session = edgemem.InferenceSession("placed.onnx")
system = edgemem.DecoderState(session, 512, chunk=32, max_bytes=8 << 20)
system.warm_up()
system.step(PROMPT)

for first in (5, 17, 23):
    with system.fork() as answer:
        tokens = answer.generate([first], 8)
        print(first, "->", *tokens[0])
        if first == 5:
            print(answer.report)

alone = edgemem.DecoderState(session, 512, chunk=32)
expected = alone.generate(np.append(PROMPT, [[23]], axis=1), 8)
assert np.array_equal(tokens, expected), "a fork continues as a state of its own does"
