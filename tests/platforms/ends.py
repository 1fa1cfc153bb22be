"""Holds the lock at PATH until Ctrl-C ends the process: `ends.py HOSTS PATH`.

Python's own handler of Ctrl-C is removed, so no exit hook of Python runs. Only `close_on_signals` can free
the lock before the session ends.
"""

import signal
import sys
import time

import zklock

hosts, path = sys.argv[1:]
signal.signal(signal.SIGINT, signal.SIG_DFL)
zklock.close_on_signals()
client = zklock.Client(hosts, session_timeout=60)
lease = zklock.Mutex(client, path).__enter__()
print("holding", lease.node, flush=True)
time.sleep(60)
