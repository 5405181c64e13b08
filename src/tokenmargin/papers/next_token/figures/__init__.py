"""Figures of [N]."""
