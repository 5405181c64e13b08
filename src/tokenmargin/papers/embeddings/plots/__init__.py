"""Drawings that only the figures of [E] use; matplotlib itself stays behind `tokenmargin.plots`."""
