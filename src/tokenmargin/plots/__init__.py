"""Canvas and plane, for the figures of every paper: the only package that imports matplotlib."""
