"""ONNX: reading models into graphs, taking them apart, and writing plans into them."""

from edgemem_converters.onnx.model import OnnxConverter

__all__ = ["OnnxConverter"]
