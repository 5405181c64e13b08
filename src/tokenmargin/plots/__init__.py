"""Drawings of arrays; the only package that imports matplotlib."""
