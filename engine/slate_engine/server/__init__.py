"""The engine's processes as services: a writer and readers that speak the Redis protocol, and HTTP beside it."""
