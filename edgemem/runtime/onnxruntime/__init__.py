"""ONNX Runtime inside a plan: whole sessions by replay, and node by node."""
