"""Rematerialisation: what is evicted and computed again so that a program fits into less memory."""
