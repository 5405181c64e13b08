"""Long and hostile runs, too long for every change: `make torture`, or a module of this folder by its name."""
