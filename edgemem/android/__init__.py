"""Android packages: what is in them, how they are signed, and how one is made around a planned model."""
