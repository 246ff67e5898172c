"""The Redis protocol in front of a database."""
