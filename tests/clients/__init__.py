"""Runs other projects' clients, and their own tests, against the embedded server."""
