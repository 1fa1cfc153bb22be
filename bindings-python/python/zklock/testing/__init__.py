"""A ZooKeeper server within the process, for tests and development only. Production is Apache ZooKeeper.

>>> from zklock.testing import Server
>>> with Server() as server, zklock.Client(server.hosts) as client:
...     client.state
'connected'

pytest has it as the fixture `zklock_server`, and a shell as `python -m zklock.testing`. `docs/testing.md`
shows how to test that a job handles a lost lock, a slow lock, and a server that is away.
"""

from zklock._zklock import Server

__all__ = ["Server"]
