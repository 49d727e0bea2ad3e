"""What the operators of a .tflite file compute, as tensor operations."""
