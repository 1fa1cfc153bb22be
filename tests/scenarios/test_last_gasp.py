"""A client whose last request arrives just before its session expires does not become a holder."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Ensemble, Server, Settings
from harness.steps import GRANT, Start

# The minimum session timeout for this tick.
TICK = 1.0
SESSION_TIMEOUT = 4 * TICK

# Seconds between the session's last sign of life and its end.
EARLY = 0.15

# Maximum number of tries. Under load, a try can miss the right moment and must be repeated.
TRIES = 10

# Seconds between two watch events. Without these events, the client would close the connection after 2/5 of
# the session timeout.
EVENT_INTERVAL = 0.24 * SESSION_TIMEOUT
LOCKS = 5


@pytest.fixture(scope="module")
def ensemble() -> Iterator[Ensemble]:
    """Provide three servers."""
    with Ensemble(settings=Settings(tick=int(TICK * 1000))) as three:
        yield three


def sleep_until(moment: float) -> None:
    """Sleep until this time of CLOCK_MONOTONIC.

    The servers end sessions at multiples of the tick on this clock.
    """
    time.sleep(max(0.0, moment - time.monotonic()))


def next_tick() -> float:
    """Return the next multiple of the tick."""
    return (time.monotonic() // TICK + 1) * TICK


def shift_pings(leader: Server) -> None:
    """Make the leader send its pings a quarter and three quarters into each tick.

    The leader pings its followers every half tick, and they report the active sessions. A pause of the leader
    shifts all later pings.
    """
    leader.pause()
    sleep_until(next_tick() + 1.25 * TICK)
    leader.resume()


@pytest.mark.timeout(TRIES * 30)
def test_s400_heard_of_again_a_moment_before_the_session_ends(
    surface: str, ensemble: Ensemble, path: str, start: Start
) -> None:
    ended = (ends_in_time(surface, ensemble, f"{path}/{number}", start) for number in range(TRIES))
    assert any(ended), f"the session ended on time in none of {TRIES} tries"


def ends_in_time(surface: str, ensemble: Ensemble, path: str, start: Start) -> bool:
    """Let a session end just after its client's last message. Return whether the timing worked.

    Assert that no two clients hold the lock.
    """
    leader = ensemble.leader()
    follower = ensemble.others(leader)[0]
    worker, other = start(surface), start(surface)
    with Proxy(follower.hosts) as proxy, Observer(leader.hosts) as observer:
        shift_pings(leader)
        session = worker.connect(proxy.hosts, session_timeout=SESSION_TIMEOUT)
        other.connect(leader.hosts, session_timeout=30)
        locks = [f"l{number}" for number in range(LOCKS)]
        for lock in locks:
            for one in (worker, other):
                one.lock(f"{path}/{lock}", lock=lock)
            other.hold(f"first {lock}", lock=lock, owner=f"first {lock}")
            waiting = worker.acquire(lock, lock=lock, owner=lock)
            observer.wait_queue(f"{path}/{lock}", 2)
        # The test checks the lock that was requested last.
        following = other.acquire("next", lock=lock, owner="next")
        observer.wait_queue(f"{path}/{lock}", 3)

        # The leader learns of this request within the same tick.
        worker.lock(f"{path}/touched", lock="touched")
        sleep_until(next_tick() + 0.05 * TICK)
        worker.try_acquire("touched", lock="touched", owner="touched")
        worker.release("touched", owner="touched")
        end = next_tick() + SESSION_TIMEOUT
        proxy.black_hole("up")
        silent = time.monotonic()
        for turn, released in enumerate(locks, start=1):
            sleep_until(silent + turn * EVENT_INTERVAL)
            other.release(f"first {released}", owner=f"first {released}")
        if not proxy.carries(session):
            # The client has closed the connection, because an event was too late or the session has already
            # ended.
            return False
        sleep_until(end - EARLY)
        proxy.heal()
        # The follower executes the client's requests, and the client learns that its node is first in the
        # queue. Then the proxy withholds all data, to hide the end of the session from the client.
        sleep_until(end - EARLY / 5)
        proxy.black_hole()
        granted = waiting.done
        if int(following.expect("acquired", GRANT)["t"]) / 1e9 > end + TICK / 2:
            return False
        if granted:
            state = worker.call("state", lease=lock)["value"]
            assert state == "lost", f"two clients hold: one is {state}, and the next one in the queue holds"
        proxy.heal()
        return True
