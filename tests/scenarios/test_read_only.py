"""A server that has lost its quorum, and serves what it knows to whoever only reads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.history import assert_clean
from harness.links import Links
from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Ensemble, NotServing, Server, Settings
from harness.steps import Start, eventually, user, watch_losses

SESSION_TIMEOUT = 2.0
CONNECT_TIMEOUT = 1.0
LATE = 0.2

SETTINGS = Settings(sync_limit=5, jvm=("-Dreadonlymode.enabled=true",))


@pytest.fixture(scope="module")
def cut_off() -> Iterator[tuple[Server, Server]]:
    """A server that is read-only, cut off from its ensemble, and one of those that have a quorum."""
    with Links() as links, Ensemble(settings=SETTINGS, links=links) as three:
        alone, *others = three.servers
        links.cut(alone.server_id, *(server.server_id for server in others))

        def read_only() -> bool:
            try:
                return alone.mode() == "read-only"
            except NotServing:
                return False

        eventually(read_only, "the server that was cut off serves read-only", 30)
        three.leader()
        yield alone, others[0]


@pytest.fixture
def doors(cut_off: tuple[Server, Server]) -> Iterator[tuple[Proxy, Proxy]]:
    """A proxy before either."""
    alone, other = cut_off
    with Proxy(alone.hosts) as to_alone, Proxy(other.hosts) as to_other:
        yield to_alone, to_other


def test_s236_a_read_only_server(
    surface: str, cut_off: tuple[Server, Server], doors: tuple[Proxy, Proxy], path: str, start: Start
) -> None:
    alone, other = doors
    hosts = cut_off[1].hosts
    worker = start(surface)
    worker.connect(
        f"{other.hosts},{alone.hosts}", session_timeout=SESSION_TIMEOUT, connect_timeout=CONNECT_TIMEOUT
    )
    for lock in ("held", "awaited", "free"):
        worker.lock(f"{path}/{lock}", lock=lock)
    peer = user(start, surface, hosts, f"{path}/awaited")
    with Observer(hosts) as observer:
        for lock in ("held", "awaited", "free"):
            observer.create(f"{path}/{lock}")
        peer.hold()
        worker.hold(lock="held")
        waiting = worker.acquire("w", lock="awaited", owner="b")
        observer.wait_queue(f"{path}/awaited", 2)
        alone.reset()
        # Now only the other one is left, which knows of no lock.
        other.refuse()
        watch_losses(worker, ["l"])
        tried = worker.send("try", lock="free", lease="t", owner="c")
        asked = worker.acquire("a", lock="free", owner="d", timeout=CONNECT_TIMEOUT)
        assert tried.error().code == "CONNECTION_FAILED"
        asked.expect("timeout")
        peer.release()
        assert not waiting.done
        assert alone.snapshot().arrivals, "the client asked there"
        connecting = worker.send(
            "connect", client="alone", hosts=alone.hosts, connect_timeout=CONNECT_TIMEOUT
        )
        refused = connecting.error()
        assert refused.code == "CONNECTION_FAILED"
        assert (refused.t - connecting.sent) / 1e9 <= CONNECT_TIMEOUT + LATE
        assert not waiting.done
        other.accept()
        waiting.expect("acquired")
        worker.release("w", owner="b")
        for lock in ("held", "awaited", "free"):
            observer.wait_queue(f"{path}/{lock}", 0)
    assert_clean(worker.holds() + peer.holds(), at_least=3)
