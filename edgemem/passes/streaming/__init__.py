"""Streaming: parts of a graph run in stripes of rows, and no row is computed twice."""
