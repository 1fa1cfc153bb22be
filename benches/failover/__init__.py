"""Measures the time from a kill to the next grant of a lock."""
