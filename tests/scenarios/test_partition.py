"""Tests of a partitioned ensemble, in which some servers serve stale data for a long time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.links import Links
from harness.observer import Observer
from harness.server import Ensemble, Server, Settings
from harness.steps import Start, assert_granted_later, contest, watch_losses
from harness.worker import Worker

SESSION_TIMEOUT = 4.0
LOCKS = 4

# A server that has lost its leader keeps replying for 6 s. This is longer than the session timeout of its
# client.
SETTINGS = Settings(tick=500, sync_limit=12, init_limit=10)

runs = pytest.mark.parametrize(
    "run", [0, *(pytest.param(run, marks=pytest.mark.soak) for run in range(1, 5))]
)


@pytest.fixture(scope="module")
def links() -> Iterator[Links]:
    """Provide the links between the servers."""
    with Links() as made:
        yield made


@pytest.fixture(scope="module")
def parted(links: Links) -> Iterator[Ensemble]:
    """Provide three servers that can be partitioned."""
    with Ensemble(settings=SETTINGS, links=links) as three:
        yield three


@pytest.fixture
def whole(parted: Ensemble, links: Links) -> Iterator[Ensemble]:
    """Provide the ensemble; afterwards, reconnect it and start all servers."""
    yield parted
    links.heal()
    for server in parted.servers:
        if not server.is_running:
            server.start()
    parted.wait_serving()


# Number of ticks in a session timeout.
ticks = pytest.mark.parametrize("margin", [2, 4], indirect=True, scope="module")


@pytest.fixture(scope="module")
def margin(request: pytest.FixtureRequest) -> Iterator[tuple[Ensemble, Links]]:
    """Provide an ensemble of three voters and an observer.

    The session timeout is only two or four ticks.
    """
    tick = int(SESSION_TIMEOUT * 1000 / request.param)
    # Here, too, a server without its leader keeps replying for 6 s.
    settings = Settings(tick=tick, sync_limit=6000 // tick, init_limit=10)
    with Links() as links, Ensemble(settings=settings, links=links, observers=1) as ensemble:
        yield ensemble, links


def cut_off(surface: str, margin: tuple[Ensemble, Links], path: str, start: Start, learner: Server) -> None:
    """Cut off a holder's server. Assert that the holder loses its leases before others get the locks."""
    ensemble, links = margin
    others = ensemble.others(learner)
    holder, other = pair(start, surface, learner.hosts, hosts(others))
    try:
        with Observer(hosts(others)) as observer:
            waiting = contest(observer, path, holder, other, LOCKS)
            links.cut(learner.server_id, *(server.server_id for server in others))
            lost = watch_losses(holder, waiting)
        assert_granted_later(lost, other, waiting)
    finally:
        links.heal()
        ensemble.wait_serving()


def hosts(servers: list[Server]) -> str:
    """Return the connect string of some servers."""
    return ",".join(server.hosts for server in servers)


def pair(start: Start, surface: str, holders: str, others: str) -> tuple[Worker, Worker]:
    """Start two clients. The test later cuts off the first one."""
    holder, other = start(surface), start(surface)
    holder.connect(holders, session_timeout=SESSION_TIMEOUT)
    other.connect(others, session_timeout=30)
    return holder, other


@runs
def test_s206_a_follower_is_cut_from_its_leader(
    surface: str, whole: Ensemble, links: Links, path: str, start: Start, run: int
) -> None:
    follower = whole.others(whole.leader())[run % 2]
    others = whole.others(follower)
    holder, other = pair(start, surface, follower.hosts, hosts(others))
    with Observer(hosts(others)) as observer:
        waiting = contest(observer, path, holder, other, LOCKS)
        links.cut(follower.server_id, *(server.server_id for server in others))
        lost = watch_losses(holder, waiting)
    assert_granted_later(lost, other, waiting)


@runs
def test_s207_the_leader_is_cut_from_its_followers(
    surface: str, whole: Ensemble, links: Links, path: str, start: Start, run: int
) -> None:
    leader = whole.leader()
    others = whole.others(leader)
    holder, other = pair(start, surface, leader.hosts, hosts(others))
    with Observer(hosts(others)) as observer:
        waiting = contest(observer, path, holder, other, LOCKS)
        links.cut(leader.server_id, *(server.server_id for server in others))
        lost = watch_losses(holder, waiting)
    assert_granted_later(lost, other, waiting)


@runs
def test_s208_the_leader_is_killed_and_the_quorum_gone(
    surface: str, whole: Ensemble, path: str, start: Start, run: int
) -> None:
    leader = whole.leader()
    last, another = whole.others(leader)
    holder, other = pair(start, surface, last.hosts, hosts([last, another]))
    with Observer(hosts([last, another])) as observer:
        waiting = contest(observer, path, holder, other, LOCKS)
    for server in (leader, another):
        server.kill()
    lost = watch_losses(holder, waiting)
    another.start()
    assert_granted_later(lost, other, waiting)


@ticks
@runs
def test_s251_a_follower_is_cut_where_ticks_are_long(
    surface: str, margin: tuple[Ensemble, Links], path: str, start: Start, run: int
) -> None:
    followers = [server for server in margin[0].servers if server.mode() == "follower"]
    cut_off(surface, margin, path, start, followers[run % 2])


@ticks
@runs
def test_s252_an_observer_is_cut_where_ticks_are_long(
    surface: str, margin: tuple[Ensemble, Links], path: str, start: Start, run: int
) -> None:
    (learner,) = (server for server in margin[0].servers if server.mode() == "observer")
    cut_off(surface, margin, path, start, learner)
