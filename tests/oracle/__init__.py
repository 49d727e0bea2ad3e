"""What the planner is compared with: brute force, and the papers' pseudo-code written out as it stands.

Nothing here imports edgemem, but `memory_plans` and `orders`, which check its plans and orders. Records are plain
tuples `(first_op, last_op, size)`, both ends inclusive; speed is no aim.
"""
