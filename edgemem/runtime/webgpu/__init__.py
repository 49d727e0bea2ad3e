"""Models on a GPU through WebGPU, inside the plan that is in their file."""
