"""Garbage collection: what no state of a database needs any more is found, explained and deleted, one kind at a time."""
