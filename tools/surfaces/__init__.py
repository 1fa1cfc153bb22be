"""Reads the public types of each language from its sources."""
