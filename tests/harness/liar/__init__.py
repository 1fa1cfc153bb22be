"""A server that replies correctly until a chosen step and then lies, and the checks of its clients.

No real server lies on demand. The server keeps the true state apart from its replies, so that the judge knows
which locks were really granted.
"""
