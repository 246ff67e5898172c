"""Which Redis we speak like: clients choose their ways by it."""

REDIS_VERSION = "7.2.0"
