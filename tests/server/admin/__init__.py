"""The admin API, without processes."""
