"""Claims of [N]."""
