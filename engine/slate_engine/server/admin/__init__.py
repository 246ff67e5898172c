"""The admin API of a database: checkpoints, clones, destroy and restore, status, explain and cost, over HTTP."""
