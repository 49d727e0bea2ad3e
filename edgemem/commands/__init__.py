"""What the command line does, as functions."""
