"""Tests against the original: the ``slatedb`` package reads what we write, and we read what it writes."""
