"""Show it: the figures of the papers, each computed, judged and drawn."""
