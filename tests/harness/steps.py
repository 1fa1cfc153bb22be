"""Steps that many scenarios share."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from harness.answers import ANSWER, now
from harness.observer import Observer, watched_by
from harness.server import Server
from harness.stalls import STALL_MONITOR
from harness.worker import Line, Pending, Worker, WorkerError

Start = Callable[[str], Worker]

POLL = 0.02

LATE = 0.2
"""Maximum delay in seconds by which a timeout can be late."""

GRANT = 40.0
"""Timeout in seconds for the grant of a lock after its loss.

The grant can take an election and then a session timeout.
"""


def seconds(line: Line, since: int) -> float:
    """Return the seconds from a stamp to a line's stamp."""
    return (int(line["t"]) - since) / 1e9


def assert_within(what: Line | WorkerError, since: int, most: float, late: float = LATE) -> float:
    """Assert that a reply arrived within `most` seconds of a stamp, plus `late` and the machine's delays."""
    stamp = what.t if isinstance(what, WorkerError) else int(what["t"])
    took = (stamp - since) / 1e9
    limit = most + late + STALL_MONITOR.allowance(since, stamp)
    assert took <= limit, f"took {took:.3f} s, and not {limit:.3f} s at most"
    return took


@contextmanager
def in_time(most: float, late: float = LATE) -> Iterator[None]:
    """Assert that the block takes at most `most` seconds, plus `late` and the machine's own delays."""
    began = now()
    yield
    ended = now()
    took, limit = (ended - began) / 1e9, most + late + STALL_MONITOR.allowance(began, ended)
    assert took <= limit, f"took {took:.3f} s, and not {limit:.3f} s at most"


def assert_took(what: Line | WorkerError, since: int, time_out: float) -> None:
    """Assert that an operation timed out on time: not early, and at most `LATE` seconds late."""
    took = assert_within(what, since, time_out)
    assert took >= time_out, f"took {took:.3f} s, and not {time_out} s at least"


def eventually(true: Callable[[], bool], what: str, timeout: float = ANSWER) -> None:
    """Poll until a condition holds that sends no event."""
    deadline = time.monotonic() + timeout
    while not true():
        assert time.monotonic() < deadline, f"not within {timeout} s: {what}"
        time.sleep(POLL)


def argument_name(surface: str, argument: str) -> str:
    """Return an argument's name in the spelling of the surface's language."""
    first, *others = argument.split("_")
    return "".join([first, *map(str.title, others)]) if surface == "node" else argument


def user(
    start: Start,
    surface: str,
    hosts: str,
    path: str,
    *,
    session_timeout: float = 10,
) -> Worker:
    """Start a worker with a connected client `c` and a lock object `m` on the path."""
    worker = start(surface)
    worker.connect(hosts, session_timeout=session_timeout)
    worker.lock(path)
    return worker


def queue_up(
    observer: Observer, path: str, contenders: Sequence[tuple[Worker, str]], *, owner: str = "a"
) -> list[Pending]:
    """Let workers acquire halves (read or write) of a lock.

    Each starts when the previous one is in the queue.
    """
    asked = []
    already = len(observer.queue(path))
    for place, (worker, half) in enumerate(contenders, start=already + 1):
        asked.append(worker.acquire(lock=half, owner=owner))
        observer.wait_queue(path, place)
    return asked


def line_up(observer: Observer, path: str, workers: Sequence[Worker], *, owner: str = "a") -> list[Pending]:
    """Let workers acquire a lock. Each starts when the previous one is in the queue."""
    waiting = []
    already = len(observer.queue(path))
    for place, worker in enumerate(workers, start=already + 1):
        waiting.append(worker.acquire(owner=owner))
        observer.wait_queue(path, place)
    return waiting


def await_loss(worker: Worker, lease: str = "l", timeout: float = 5.0) -> None:
    """Wait until the lease reports its loss, and check that it stays lost."""

    def lost() -> bool:
        line = worker.check(lease).line()
        return line["event"] == "error" and WorkerError(line).code == "LOCK_LOST"

    eventually(lost, f"{worker} knows that {lease} is lost", timeout)
    assert lost(), "a lost lease is held again"
    assert worker.call("state", lease=lease)["value"] == "lost"


def contest(observer: Observer, path: str, holder: Worker, other: Worker, locks: int) -> dict[str, Pending]:
    """Let one worker hold `locks` locks while the other waits for all of them.

    The lock object, lease and owner of each lock have the same name.
    """
    waiting = {}
    for lease in (f"l{number}" for number in range(locks)):
        for worker in (holder, other):
            worker.lock(f"{path}/{lease}", lock=lease)
        holder.hold(lease, lock=lease, owner=lease)
        waiting[lease] = other.acquire(lease, lock=lease, owner=lease)
        observer.wait_queue(f"{path}/{lease}", 2)
    return waiting


def watch_losses(holder: Worker, leases: Iterable[str], timeout: float = 20) -> dict[str, int]:
    """Assert that the holder sees each lease suspended, then lost. Return the stamps of the losses."""
    seen: dict[str, list[str]] = {lease: [] for lease in leases}
    lost: dict[str, int] = {}

    def all_lost() -> bool:
        for lease, states in seen.items():
            line = holder.call("state", lease=lease)
            if line["value"] not in states:
                states.append(line["value"])
            if line["value"] == "lost":
                lost.setdefault(lease, int(line["t"]))
        return len(lost) == len(seen)

    eventually(all_lost, "the holder knows that all leases are lost", timeout)
    for lease, states in seen.items():
        # A lease can already be suspended at the first check, so ignore whether it was `held` before.
        assert [state for state in states if state != "held"] == ["suspended", "lost"], f"{lease}: {states}"
        await_loss(holder, lease)
    return lost


def assert_granted_later(lost: dict[str, int], other: Worker, waiting: dict[str, Pending]) -> None:
    """Assert that each waiter is granted its lock only after the holder has lost it. Release the locks."""
    for lease, pending in waiting.items():
        granted = int(pending.expect("acquired", GRANT)["t"])
        assert lost[lease] < granted, (
            f"{lease} was granted {(lost[lease] - granted) / 1e9:.3f} s before the loss"
        )
        other.release(lease, owner=lease)


def nothing_watched(server: Server, worker: Worker, path: str, client: str = "c") -> None:
    """Wait until the server has no watch of the worker at or below the path."""
    session = worker.sessions[client]
    eventually(
        lambda: not watched_by(server, session, path),
        f"{worker} watches nothing under {path}, but {watched_by(server, session, path)}",
    )
