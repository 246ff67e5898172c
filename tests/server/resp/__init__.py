"""Tests of the Redis protocol."""
