"""An idle client rarely wakes its process."""

from __future__ import annotations

from pathlib import Path

import pytest
import scripts

WAKE_UPS = """
from pathlib import Path

def wake_ups():
    threads = Path("/proc/self/task").iterdir()
    (thread,) = (one for one in threads if (one / "comm").read_text().strip() == "zklock")
    (line,) = (one for one in (thread / "status").read_text().splitlines() if one.startswith("voluntary"))
    return int(line.split()[1])

def during_a_session_timeout(client):
    # Let the wake-ups of earlier operations end. Only time shows that a client is idle.
    time.sleep(1)
    before = wake_ups()
    time.sleep(client.session_timeout)
    return wake_ups() - before
"""


@pytest.mark.skipif(
    not Path("/proc/self/task").exists(), reason="needs /proc, which counts the waits of each thread"
)
def test_a_client_rarely_wakes_its_thread(hosts: str, path: str) -> None:
    done = scripts.run(
        """
        with zklock.Client(hosts, session_timeout=10) as client:
            print(during_a_session_timeout(client))
            with zklock.Mutex(client, path):
                print(during_a_session_timeout(client))
            print(during_a_session_timeout(client))
        """,
        hosts,
        path,
        timeout=60,
        head=scripts.HEAD + WAKE_UPS,
    )
    idle, holding, idle_again = map(int, done.stdout.split())
    # 20 ticks and the replies to about six pings. Without slots, each tick would wake the thread twice.
    assert idle <= 40, done
    # The alarms of the hold remain set after it, and each goes off once.
    assert idle_again <= 40, done
    # A holder also sends a heartbeat every sixth of the session timeout.
    assert holding <= 52, done
