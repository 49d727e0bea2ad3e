"""Weights in the form that kernels compute with, in a file beside the model that ONNX Runtime maps.

The package lies here, and not beside the runtimes, because each file in it is about what ONNX Runtime writes and reads.

MODEL.onnx              the model with its plain weights, its plans, and the note that says for what it was packed
MODEL.KEY.graph         ONNX Runtime's optimised graph of it, as ONNX Runtime saved it
MODEL.KEY.weights       the constants of that graph, aligned and prepacked

note.py                 the note: ONNX Runtime's version, optimisation level, provider, processor, digests
packing.py              writes the files
packing_child.py        lets ONNX Runtime make them, in a process of its own
checking.py             compares them with what packing gives here, and remembers that
mapped.py               what a session opens in place of the model, or why it opens the model
"""
