"""Our processes and the original's on one database at once: each fences the other, is killed, and is followed."""
