"""A server that is honest until it is asked for something, and then lies; and the judge of its clients.

No real server lies on demand. What this one says is kept apart from what is true, so that the judge knows
which locks were really granted.
"""
