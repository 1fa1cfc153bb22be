"""A ZooKeeper server in this process, for tests and development only. In production, use Apache ZooKeeper.

>>> from zklock.testing import Server
>>> with Server() as server, zklock.Client(server.hosts) as client:
...     client.state
'connected'

pytest provides it as the fixture `zklock_server`, and `python -m zklock.testing` starts it from a shell.
`docs/testing.md` shows how to test that a job handles a lost lock, a slow lock, and an unreachable server.
"""

from zklock._zklock import Server

__all__ = ["Server"]
