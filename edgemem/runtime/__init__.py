"""One module a runtime: what it really does with memory, and how it is made to keep to a plan."""
