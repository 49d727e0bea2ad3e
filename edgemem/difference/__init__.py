"""How the memory of two models or plans differs, and why: which operators changed, and what that did to tensors."""
