"""Two-phase CAS: its protocol step by step, its transactional stores, and both under contention."""
