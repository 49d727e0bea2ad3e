"""Which passes make a model run within a budget: candidates, what each costs, the search, and what it found."""
