"""Usage records: what a plan has to place, and when."""
