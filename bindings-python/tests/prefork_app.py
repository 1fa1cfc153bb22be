"""An application for a prefork server. The master creates all lock objects before it forks the workers."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterable

import zklock

HOSTS, PATH = os.environ["ZKLOCK_HOSTS"], os.environ["LOCK_PATH"]

client = zklock.Client(HOSTS)
by_client = zklock.Mutex(client, f"{PATH}/master")
by_hosts = zklock.Mutex(HOSTS, f"{PATH}/worker")
by_lazy = zklock.Mutex(zklock.Client(HOSTS, connect=False, label="lazy"), f"{PATH}/lazy")

# The master keeps the first lock. It uses and releases the others.
by_client.acquire()
with by_hosts as lease:
    MASTER = lease.session_id
with by_lazy as lease:
    LAZY = lease.session_id


@by_lazy.hold(timeout=5)
def lazy_session() -> int:
    """Return the session id of the client that connects separately in each process."""
    assert by_lazy.lease is not None
    assert [contender.label for contender in by_lazy.contenders()[:1]] == ["lazy"]
    return by_lazy.lease.session_id


def application(environ: dict[str, str], start_response: Callable[..., object]) -> Iterable[bytes]:
    """Report the state of the locks in this worker."""
    try:
        by_client.acquire()
        inherited = "works"
    except zklock.Forked as error:
        inherited = error.code
    by_hosts.acquire()
    assert by_hosts.lease is not None
    answer = {"pid": os.getpid(), "inherited": inherited, "session": by_hosts.lease.session_id}
    answer["lazy"] = lazy_session()
    if environ["PATH_INFO"] == "/die":
        # The session is short, so the lock is free again soon.
        by_hosts.release()
        zklock.Mutex(zklock.Client(HOSTS, session_timeout=1), f"{PATH}/worker").acquire()
        os.kill(os.getpid(), signal.SIGKILL)
    if environ["PATH_INFO"] != "/keep":
        by_hosts.release()
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(answer | {"master": MASTER, "lazy_master": LAZY}).encode()]
