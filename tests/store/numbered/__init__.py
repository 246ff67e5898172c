"""Numbered objects and their boundaries."""
