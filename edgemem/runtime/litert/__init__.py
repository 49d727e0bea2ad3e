"""LiteRT (TensorFlow Lite) inside a plan."""
