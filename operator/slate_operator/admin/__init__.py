"""The client of the databases: the admin API that their pods serve."""
