"""``kubectl slate``: databases, checkpoints and clones as a person works with them."""
