"""How hypothesis runs here: the same examples every time, and no clock.

`--hypothesis-profile=search` looks further, with new examples at every run.
"""

from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("search", max_examples=2000, deadline=None, print_blob=True)
settings.load_profile("same")
