"""Tiles: runs of operators computed part by part, so that their results are never in memory as a whole."""
