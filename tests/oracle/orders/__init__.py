"""A checker of orders: what is alive while a graph runs, and the best of all its orders by trying them.

    Graph, Target, order ── simulation ──► the peak
    Graph, Target ── search ──► the smallest peak of all orders
    graphs, shapes ──► cases ── campaign ──► what find_order says, against the two

`simulation` goes through a run operator by operator and counts the readers that are left; it makes no usage records.
From edgemem come only the graph, the target and the table of aliasing operators.

`python -m tests.oracle.orders --help` runs it over random graphs.
"""
