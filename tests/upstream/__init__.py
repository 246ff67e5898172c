"""SlateDB's own Python tests, run on this engine; see README.md."""
