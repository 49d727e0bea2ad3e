"""An extension of Model Explorer, which imports `main`: `model-explorer MODEL --extensions=edgemem.model_explorer`."""
