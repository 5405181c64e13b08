"""Show it: one module per figure of the papers."""
