"""Holds the lock at PATH until the process receives a signal to end: `ends.py HOSTS PATH`.

The program sends itself that signal: SIGTERM, or Ctrl-Break on Windows. Its session outlives it, so only
`close_on_signals` can free the lock.
"""

import os
import signal
import sys
import time

import zklock

hosts, path = sys.argv[1:]
zklock.close_on_signals()
client = zklock.Client(hosts, session_timeout=60)
lease = zklock.Mutex(client, path).__enter__()
print(f"holds {lease.node} and ends by a signal", flush=True)
if sys.platform == "win32":
    # 0: every process of the console, which is only this one.
    os.kill(0, signal.CTRL_BREAK_EVENT)
else:
    os.kill(os.getpid(), signal.SIGTERM)
time.sleep(60)
