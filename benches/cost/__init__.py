"""Measures the costs of a client for its process."""
