"""Us and the original, measured in one run on the same data."""
