"""How records get their place: a registry of strategies for offsets and for shared objects."""
