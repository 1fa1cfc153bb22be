"""Steps that the scenarios of read/write locks share."""

from __future__ import annotations

from harness.history import assert_clean
from harness.proxy import Proxy
from harness.steps import Start, eventually
from harness.worker import Pending, Worker


def readwriter(
    start: Start,
    surface: str,
    hosts: str,
    path: str,
    *,
    session_timeout: float = 10,
) -> Worker:
    """Start a worker with client `c` and both halves of a read/write lock on the path, `r` and `w`."""
    worker = start(surface)
    worker.connect(hosts, session_timeout=session_timeout)
    worker.lock(path, lock="r", kind="read")
    worker.lock(path, lock="w", kind="write")
    return worker


def clean(*workers: Worker, at_least: int) -> None:
    """Assert that the combined history of all workers has no problem."""
    holds = [hold for worker in workers for hold in worker.holds()]
    assert_clean(holds, at_least=at_least)


def quiet(proxy: Proxy) -> None:
    """Wait until no request is in flight."""
    eventually(lambda: all(flight.closed for flight in proxy.snapshot().flights), "nothing is in flight")


def none_done(pending: list[Pending]) -> bool:
    """Return whether none of the commands has a reply yet."""
    return not any(one.done for one in pending)
