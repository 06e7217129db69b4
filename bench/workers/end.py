"""Exits at once."""
