"""What takes minutes to break: `python -m tests.torture` (or `make torture`) runs every module of this package."""
