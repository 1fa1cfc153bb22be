"""The numbers in a dump of two clients that have holds and waits of different ages."""

from __future__ import annotations

import os
import re
import threading
import time

import pytest
from harness.observer import Observer
from harness.steps import eventually

import zklock


def line_of(text: str, start: str, part: str = "") -> str:
    """Return the line that begins with `start` and contains `part`."""
    (line,) = [line for line in text.splitlines() if line.strip().startswith(start) and part in line]
    return line


def number(pattern: str, line: str) -> float:
    """Return the number that a pattern finds in a line."""
    found = re.search(pattern, line)
    assert found is not None, (pattern, line)
    return float(found[1])


def test_a_dump_has_the_numbers_of_two_clients(hosts: str, observer: Observer, path: str) -> None:
    began = {}
    with (
        zklock.Client(hosts, session_timeout=20) as one,
        zklock.Client(f"{hosts},127.0.0.1:1", session_timeout=40) as two,
    ):
        began["old"] = time.monotonic()
        old = zklock.Mutex(one, f"{path}/old")
        old.acquire()
        # Sleep, so that the two holds in the dump have different ages.
        time.sleep(1.2)
        began["new"] = time.monotonic()
        new = zklock.Mutex(two, f"{path}/new", label="nightly")
        for _ in range(3):
            new.acquire()
        for _ in range(4):
            observer.client.create(f"{path}/old/x-lock-", b"", ephemeral=True, sequence=True)
        began["wait"] = time.monotonic()
        waiting = threading.Thread(target=zklock.Mutex(two, f"{path}/old").acquire, kwargs={"timeout": 60})
        waiting.start()
        queue = observer.wait_queue(f"{path}/old", 6)
        eventually(lambda: two.health().waits[0].behind is not None, "it knows whom it waits for")
        # Sleep again, so that the wait has an age.
        time.sleep(0.3)
        asked = {name: time.monotonic() - since for name, since in began.items()}
        text = zklock.dump()
        received = {name: time.monotonic() - since for name, since in began.items()}
        assert f", process {os.getpid()}, " in text
        for client, time_out, holds in ((one, 20, "0 waits, 1 hold"), (two, 40, "1 wait, 1 hold")):
            session = client.session_id
            # A client of an earlier test might still try to connect to the same port, so match the session
            # too.
            line = line_of(text, f"client of {client.hosts}:", f"session {session:#x} ")
            assert f"connected to {hosts}, session {session:#x} of {time_out}.0 s, proven " in line
            assert line.endswith(f"; {holds}")
            proven, left = (
                number(r"proven ([\d.]+) s ago", line),
                number(r"([\d.]+) s of the term left", line),
            )
            assert proven + left == pytest.approx(time_out / 2, abs=0.11)
        for name, lock, more in (("old", old, ""), ("new", new, ", 3 leases")):
            lease = lock.lease
            assert lease is not None
            line = line_of(text, f"holds {path}/{name} ")
            assert asked[name] - 0.06 - (0.2 if name == "new" else 0.5) <= number(r" for ([\d.]+) s", line)
            assert number(r" for ([\d.]+) s", line) <= received[name] + 0.06
            assert f"as {lease.node}, token {observer.czxid(lease.node)}, held, " in line
            assert (" leases" in line) == bool(more)
            assert more in line
            assert ("nightly" in line) == (name == "new")
            most = one.session_timeout / 2 if name == "old" else two.session_timeout / 2
            assert most * 0.6 <= number(r"held, ([\d.]+) s left", line) <= most
        line = line_of(text, f"waits for {path}/old ")
        assert asked["wait"] - 0.26 <= number(r" for ([\d.]+) s", line) <= received["wait"] + 0.06
        assert f", 5 ahead, as {path}/old/{queue[5]}, behind {path}/old/{queue[4]}" in line
        for node in queue[1:5]:
            observer.delete(f"{path}/old/{node}")
        old.release()
        waiting.join(60)
        for _ in range(3):
            new.release()
