"""Show it: the only place that imports matplotlib."""
