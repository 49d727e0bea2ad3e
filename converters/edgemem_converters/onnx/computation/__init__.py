"""What the operators of an ONNX model compute, as tensor operations."""
