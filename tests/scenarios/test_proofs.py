"""Heartbeats keep leases valid even if nodes cannot be read, or if sessions start as local sessions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.links import Links
from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Ensemble, Settings
from harness.steps import Start, assert_granted_later, await_loss, contest, eventually, watch_losses

SESSION_TIMEOUT = 4.0
# Number of heartbeats in two session timeouts.
BEATS = 12
# All rights except the right to read.
ALL_BUT_READ = "world:anyone:cdwa"
LOCKS = [f"l{number}" for number in range(3)]


def beats(proxy: Proxy) -> int:
    """Return the number of heartbeats that the proxy has forwarded."""
    return sum("multi" in flight.requests for flight in proxy.snapshot().flights)


def test_s680_nodes_that_may_not_be_read(
    surface: str, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    worker = start(surface)
    worker.connect(proxy.hosts, session_timeout=SESSION_TIMEOUT, acl=ALL_BUT_READ)
    nodes = {}
    for lease in LOCKS:
        # The directories belong to another client, so every client can list them.
        observer.create(f"{path}/{lease}")
        worker.lock(f"{path}/{lease}", lock=lease)
        nodes[lease] = worker.hold(lease, lock=lease, owner=lease)["node"]
    proxy.reset()
    eventually(lambda: beats(proxy) >= BEATS, "heartbeats", timeout=40)
    for lease in LOCKS:
        assert worker.check(lease).expect("value")["value"] == "held"
    # A heartbeat checks nodes until one check fails. The client must also notice the deletion of a node that
    # no heartbeat checks.
    for lease in reversed(LOCKS):
        observer.delete(nodes[lease])
        await_loss(worker, lease, timeout=20)


# Sessions are local to their server until they create an ephemeral node.
LOCAL = ("localSessionsEnabled=true", "localSessionsUpgradingEnabled=true")


@pytest.fixture(scope="module")
def local() -> Iterator[tuple[Ensemble, Links]]:
    """Provide three servers with local sessions that can be partitioned."""
    settings = Settings(tick=500, sync_limit=12, init_limit=10, config=LOCAL)
    with Links() as links, Ensemble(settings=settings, links=links) as three:
        yield three, links


@pytest.mark.parametrize("who", ["follower", "leader"])
def test_s681_sessions_that_were_local(
    surface: str, local: tuple[Ensemble, Links], path: str, start: Start, who: str
) -> None:
    ensemble, links = local
    leader = ensemble.leader()
    server = leader if who == "leader" else ensemble.others(leader)[0]
    others = ensemble.others(server)
    hosts = ",".join(other.hosts for other in others)
    holder, other = start(surface), start(surface)
    holder.connect(server.hosts, session_timeout=SESSION_TIMEOUT)
    other.connect(hosts, session_timeout=30)
    try:
        with Observer(hosts) as observer:
            waiting = contest(observer, path, holder, other, 4)
            links.cut(server.server_id, *(one.server_id for one in others))
            lost = watch_losses(holder, waiting)
        assert_granted_later(lost, other, waiting)
    finally:
        links.heal()
        ensemble.wait_serving()
    # The old session has expired. The new session also becomes global when it creates a node.
    session = holder.sessions["c"]
    assert int(holder.hold("again", lock="l0", owner="again")["session"]) != session
    holder.release("again", owner="again")
