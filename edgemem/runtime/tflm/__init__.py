"""TensorFlow Lite Micro: its arena, and runs inside a plan."""
