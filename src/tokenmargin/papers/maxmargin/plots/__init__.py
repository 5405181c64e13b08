"""Drawings that only the figures of [M] use; matplotlib itself stays behind `tokenmargin.plots`."""
