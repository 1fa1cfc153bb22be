"""Other clients can tell whether a node can be kept after a release (`linger`) or handed on (`cohort`)."""

from __future__ import annotations

import json
from typing import Any

from harness.command import run
from harness.observer import Observer
from harness.server import Standalone
from harness.steps import GRANT, Start, eventually, user
from harness.worker import Worker

LONG = 600
"""Time in seconds that is longer than this test."""

COHORT = 64


def contenders(worker: Worker, lock: str = "m") -> list[dict[str, Any]]:
    """Return the contenders of a lock, as a worker sees them."""
    found: list[dict[str, Any]] = worker.call("contenders", lock=lock)["value"]
    return found


def waits(worker: Worker) -> list[dict[str, Any]]:
    """Return the waiting attempts of a worker's client."""
    found: list[dict[str, Any]] = worker.call("health", client="c")["value"]["waits"]
    return found


def assert_shown(hosts: str, path: str, data: dict[str, Any], words: str) -> None:
    """Assert that `ls` and `top` report whether the holder's node can be kept or handed on."""
    reported = {"cohort": data.get("cohort"), "linger_ms": data.get("linger")}
    line = run(hosts, "ls", path).out.splitlines()[1]
    assert line.split()[0] == "holds"
    assert line.endswith("".join(f"  {word}" for word in words.split(", "))), line
    (row,) = run(hosts, "top", "--once", path).out.splitlines()
    assert f"), {words}  " in row, row
    first, *_ = json.loads(run(hosts, "ls", "--json", path).out)
    assert reported.items() <= first.items()
    (lock,) = json.loads(run(hosts, "top", "--once", "--json", path).out)["locks"]
    assert reported.items() <= lock["holder"].items()


def await_waits(worker: Worker, count: int) -> None:
    """Wait until this many acquires of a worker wait."""
    eventually(lambda: len(waits(worker)) == count, f"{count} wait")


def test_s865_others_see_that_a_lock_is_kept_or_handed_on(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    ours = start(surface)
    ours.connect(server.hosts, session_timeout=30)
    other = user(start, surface, server.hosts, path)
    # If a lock has neither option, the node's data has only its usual keys, and `ls` and `top` mention no
    # option.
    other.hold("1")
    (node,) = observer.wait_queue(path, 1)
    plain = json.loads(observer.client.get(f"{path}/{node}")[0])
    assert set(plain) == {"host", "label", "language", "owner", "pid", "since"}
    (one,) = contenders(other)
    assert (one["cohort"], one["linger"]) == (None, None)
    assert run(server.hosts, "ls", path).out.rstrip().endswith(node)
    assert "linger" not in run(server.hosts, "top", "--once", path).out
    other.release("1")
    observer.wait_queue(path, 0)

    cases: dict[str, tuple[dict[str, Any], dict[str, int], str]] = {
        "linger": ({"linger": LONG}, {"linger": LONG * 1000}, "linger 10m"),
        "cohort": ({"cohort": COHORT}, {"cohort": COHORT}, f"cohort {COHORT}"),
        "both": (
            {"cohort": COHORT, "linger": LONG},
            {"cohort": COHORT, "linger": LONG * 1000},
            f"cohort {COHORT}, linger 10m",
        ),
    }
    for case, (options, said, words) in cases.items():
        below = f"{path}/{case}"
        ours.lock(below, lock=case, **options)
        other.lock(below, lock=case)
        ours.hold(case, lock=case, owner="first")
        (node,) = observer.wait_queue(below, 1)
        data = json.loads(observer.client.get(f"{below}/{node}")[0])
        assert {key: data[key] for key in ("cohort", "linger") if key in data} == said
        assert "owner" not in data
        (one,) = contenders(other, case)
        assert (one["cohort"], one["linger"]) == (said.get("cohort"), said.get("linger"))
        assert_shown(server.hosts, below, said, words)
        if "cohort" not in options:
            continue
        # Both waiters share one node. Only their own client lists them one by one.
        asked = []
        for number in (1, 2):
            asked.append(ours.acquire(f"{case} {number}", lock=case, owner=f"owner {number}"))
            # Wait until each waiter is in the queue before the next one starts, because two threads of a
            # worker could join in either order.
            await_waits(ours, number)
        observer.wait_queue(below, 2)
        assert len(contenders(other, case)) == 2
        assert [wait["in_cohort"] for wait in waits(ours)] == [True, True]
        assert [wait["node"] for wait in waits(ours)] == [None, None]
        ours.release(case, owner="first")
        for number, attempt in enumerate(asked, start=1):
            attempt.expect("acquired")
            ours.release(f"{case} {number}", owner=f"owner {number}")

    # After the release the lock has no holder, but another client's try still finds it taken.
    ours.release("linger", owner="first")

    def kept() -> bool:
        ours.hold("again", lock="linger", owner="first")
        ours.release("again", owner="first")
        return int(ours.call("stats", client="c")["value"]["retakes"]) > 0

    eventually(kept, "the lock is kept")
    below = f"{path}/linger"
    (one,) = contenders(other, "linger")
    assert one["linger"] == LONG * 1000
    assert_shown(server.hosts, below, {"linger": LONG * 1000}, "linger 10m")
    assert other.try_acquire("2", lock="linger")["event"] == "busy"
    # The kept node does not block a waiter for long.
    other.hold("3", lock="linger", timeout=GRANT)
    other.release("3")
