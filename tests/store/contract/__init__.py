"""One suite for every store: what the engine relies on, tried on each backend that can run here."""
