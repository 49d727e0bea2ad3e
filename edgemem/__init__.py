"""edgemem plans, proves and embeds the memory of neural networks."""
