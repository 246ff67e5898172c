"""Real servers that the tests start and stop, each on a free port of the loopback interface."""
