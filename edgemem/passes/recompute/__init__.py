"""The pass that lets operators run several times, so that their results need not stay in memory."""
