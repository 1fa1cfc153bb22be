"""A server that replies correctly until a chosen step and then lies, and the checks of its clients.

The server also keeps the true state, so the checks know which locks were really granted.
"""
