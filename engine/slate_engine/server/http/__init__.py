"""HTTP beside each service: health, metrics, status and, at the collector, the admin API."""
