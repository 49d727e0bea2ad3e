"""Small programs of PyTorch that must compute the same under a budget of memory as without one.

They were written from the documentation alone. `registry` says what a program is, `contents` what of it is compared,
`judge` when a run is right. All combinations of programs, policies and budgets run with
`python -m tests.torch.remat_programs`; the suite runs a fixed share of them.
"""
