"""Tests of the services: real sockets, real clients."""
