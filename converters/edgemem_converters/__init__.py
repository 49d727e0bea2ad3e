"""File formats: one module a format. The only code that knows ONNX or the TFLite schema."""
