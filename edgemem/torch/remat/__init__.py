"""Training steps of PyTorch under a budget of memory: values are evicted, and made again when they are needed."""
