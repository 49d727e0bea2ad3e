"""Plans for people and for other tools."""
