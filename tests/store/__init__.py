"""Tests of :mod:`slate_engine.store`."""
