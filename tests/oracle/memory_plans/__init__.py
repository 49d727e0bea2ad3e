"""A checker of memory plans that shares nothing with the planner and its proof: it runs plans on made-up values.

    file ── onnx_file, tflite_file ──► Program ── timeline ──► events ─┐
    PlanSet ── reading ──► a place for every tensor ───────────────────┴─ simulation ──► the same values, or not

Every tensor has bytes of its own size. An operator's results are bytes that depend on all bytes it reads, as they lie
in memory at that time. A plan is wrong where the results in planned memory are not those that the same events give when
every tensor has memory of its own. From edgemem come only the plan, the target and the table of aliasing operators.

`python -m tests.oracle.memory_plans --help` runs it over random graphs, mutated plans and the catalogue.
"""
