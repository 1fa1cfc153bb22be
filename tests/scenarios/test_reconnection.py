"""A lease survives an outage that is shorter than its term, and the client logs the outage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Ensemble
from harness.steps import Start, eventually, user
from harness.worker import Worker

TIMEOUT = 20.0

# The term of a lease is ten seconds. At least `BEFORE` seconds remain when the outage begins, and less than
# `LEFT` when the first server is back. With the default backoff of the ZooKeeper client crate, the pauses
# between connection attempts would have grown to five seconds by then.
BEFORE = 9.0
LEFT = 4.5


@pytest.fixture
def server_proxies(ensemble: Ensemble) -> Iterator[list[Proxy]]:
    """Provide a proxy in front of each server of the shared ensemble."""
    with ExitStack() as stack:
        yield [stack.enter_context(Proxy(server.hosts)) for server in ensemble.servers]


def remaining(worker: Worker) -> float:
    """Return the seconds for which the lease is certain."""
    return float(worker.call("state", lease="l")["remaining"])


def state(worker: Worker) -> str:
    """Return the current state of the lease."""
    return str(worker.call("state", lease="l")["value"])


@pytest.mark.parametrize("way", ["refuse", "accept_and_close"])
def test_s620_an_outage_within_the_term(
    surface: str, way: str, ensemble: Ensemble, server_proxies: list[Proxy], path: str, start: Start
) -> None:
    holder = user(
        start, surface, ",".join(door.hosts for door in server_proxies), path, session_timeout=TIMEOUT
    )
    other = user(start, surface, ensemble.hosts, path)
    held = holder.hold()
    waiting = other.acquire()
    with Observer(ensemble.hosts) as observer:
        queue = observer.wait_queue(path, 2)
        eventually(lambda: remaining(holder) > BEFORE, "a heartbeat is answered")
        for door in server_proxies:
            getattr(door, way)()
        eventually(lambda: state(holder) == "suspended", "the holder is without a server")
        eventually(lambda: remaining(holder) < LEFT, "the outage lasts")
        # Any one server is enough.
        server_proxies[-1].accept()
        eventually(lambda: state(holder) != "suspended", "the holder is connected, or its lease is lost")
        assert holder.check().expect("value")["value"] == "held"
        assert observer.queue(path) == queue
        assert held["node"].endswith(queue[0])
        assert not waiting.done
        holder.release()
        assert waiting.expect("acquired")["node"].endswith(queue[1])
        other.release()


def test_s621_what_the_log_says_during_an_outage(
    surface: str, server_proxies: list[Proxy], path: str, start: Start
) -> None:
    holder = user(
        start, surface, ",".join(door.hosts for door in server_proxies), path, session_timeout=TIMEOUT
    )
    holder.call("log")
    holder.hold()
    words = ["connection lost", "no server is usable", "reconnected"]

    def log_events() -> list[tuple[str, str]]:
        logs = [line for line in holder.lines() if line["event"] == "log"]
        return [(word, str(line["fields"])) for line in logs for word in words if word in line["text"]]

    # Let the server of the current connection refuse connections last, so that the client loses its
    # connection only once.
    session = holder.sessions["c"]
    for door in sorted(server_proxies, key=lambda door: door.carries(session)):
        door.refuse()
    eventually(lambda: len(log_events()) >= 2, "the log says that no server is usable")
    # This is long before the lease is lost.
    assert state(holder) == "suspended"
    eventually(lambda: remaining(holder) < LEFT, "the outage lasts")
    server_proxies[0].accept()
    eventually(lambda: log_events()[-1][0] == words[-1], "the log says that the client is connected")
    assert list(dict.fromkeys(word for word, _ in log_events())) == words
    # The log repeats the message only for a new cause, such as a refused connection after a cut connection.
    causes = [fields for word, fields in log_events() if word == words[1]]
    assert len(set(causes)) == len(causes)
    assert "refused" in causes[-1]
    assert all(str(door.port) in causes[-1] for door in server_proxies)
    assert state(holder) in {"suspended", "held"}
    holder.release()
