"""The operator's edge: its clients, its cache, its queue, its process."""
