"""What is done to whole databases: checkpoints, clones, copies, restoring, destroying. Each is one function."""
