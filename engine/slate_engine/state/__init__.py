"""The state of a database as frozen values, the pure functions that change it, and the loop that commits a change."""
