"""TensorFlow Lite files: reading them into graphs, changing them, and writing plans into them."""

from edgemem_converters.tflite.model import TfliteConverter

__all__ = ["TfliteConverter"]
