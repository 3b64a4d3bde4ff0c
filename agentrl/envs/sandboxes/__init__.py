"""Boxes to act in, one backend a file."""
