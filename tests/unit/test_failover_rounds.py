"""The fail-over benchmark kills the right servers and recognizes the effects. The workers are stand-ins."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from failover import effects, servers
from failover.clusters import MEMBERS, Cluster
from failover.effects import Asked, Handing, Kept, NextGrant
from failover.samples import LEADER, SERVER, STEADY, Sample
from failover.servers import ORDER, Pair, Rounds
from harness.answers import Line, Pending, now
from harness.worker import Worker


class Stand:
    """A worker whose replies the test chooses."""

    def __init__(self) -> None:
        self.history: list[Line] = []
        self.lost: set[str] = set()
        self.sent: list[Pending] = []

    def lock(self, *_: Any, **__: Any) -> None:
        """Do nothing."""

    hold = lock

    def send(self, cmd: str, **fields: Any) -> Pending:
        self.sent.append(Pending(self, {"id": len(self.sent), "cmd": cmd, **fields}))
        return self.sent[-1]

    def reply(self, event: str, **fields: Any) -> None:
        """Reply to the last command."""
        self.sent[-1].resolve({"event": event, "t": now(), **fields})

    def state(self, state: str) -> None:
        """Report a state of the client."""
        self.history.append({"event": "state", "client": "c", "state": state, "t": now()})


def worker() -> tuple[Worker, Stand]:
    stand = Stand()
    return cast(Worker, stand), stand


def test_a_lease_is_asked_for_its_state_only_after_its_client_is_back() -> None:
    asked, stand = worker()
    kept = Kept(asked, "kept", "/kept", "c", reports=True)
    killed = now()
    assert not kept.poll(killed)
    stand.state("suspended")
    assert not kept.poll(killed)
    assert not stand.sent, "the lease was asked while its client was suspended"
    stand.state("connected")
    assert not kept.poll(killed)
    # The client is connected, but no heartbeat has been acknowledged.
    stand.reply("value", value="suspended")
    assert not kept.poll(killed)
    assert not kept.poll(killed)
    stand.reply("value", value="held")
    kept.poll(killed)
    assert kept.poll(killed)
    assert kept.again is not None
    assert 0 < kept.again < 60
    assert [one.command["cmd"] for one in stand.sent] == ["state", "state"]


def test_states_before_the_kill_do_not_count() -> None:
    asked, stand = worker()
    kept = Kept(asked, "kept", "/kept", "c", reports=True)
    stand.state("connected")
    assert not kept.poll(now() + 1)
    assert not stand.sent


def test_a_lease_that_noticed_nothing_was_always_held() -> None:
    asked, stand = worker()
    kept = Kept(asked, "kept", "/kept", "c", reports=True)
    killed = now() - round(2 * STEADY * 1e9)
    assert not kept.poll(killed)
    stand.reply("value", value="held")
    kept.poll(killed)
    assert kept.again == 0


def test_a_lost_lease_is_a_complete_effect() -> None:
    asked, stand = worker()
    kept = Kept(asked, "kept", "/kept", "c", reports=True)
    stand.lost.add("kept")
    assert kept.poll(now())
    assert kept.is_lost
    assert kept.again is None


def test_other_libraries_do_not_report_the_state_of_a_lease() -> None:
    asked, stand = worker()
    assert Kept(asked, "kept", "/kept", "c", reports=False).poll(now())
    assert not stand.sent


def test_a_request_that_failed_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    one, stand = worker()
    asked = Asked(one, "contend", path="/p")
    stand.reply("error")
    assert asked.poll() is None
    assert len(stand.sent) == 1, "a program waits before it tries again"
    monkeypatch.setattr(effects, "PAUSE", 0)
    assert asked.poll() is None
    assert [pending.command["path"] for pending in stand.sent] == ["/p", "/p"]
    stand.reply("done")
    found = asked.poll()
    assert found is not None
    assert found["event"] == "done"
    assert asked.ids == {0, 1}


def test_the_next_grant_follows_the_release() -> None:
    (holder, first), (waiter, second) = worker(), worker()
    grants = NextGrant(holder, waiter, "next", "/next", "c")
    assert not first.sent, "released before the kill"
    killed = now()
    grants.begin()
    assert first.sent[-1].command["cmd"] == "release"
    assert not grants.poll(killed)
    assert grants.grant(killed) is None
    second.sent[-1].resolve({"event": "acquired", "t": killed + 10**9})
    assert grants.poll(killed)
    assert grants.grant(killed) == 1


def test_only_grants_of_the_lock_that_is_handed_on_count() -> None:
    (one, first), (other, second) = worker(), worker()
    handing = Handing((one, other), "/handed", "c")
    killed = now() - 3 * 10**9
    for stand, at in ((first, 1.0), (second, 1.01)):
        stamps = [killed + round((at + step / 50) * 1e9) for step in range(100)]
        stand.history += [{"event": "held", "id": 0, "t": stamp} for stamp in stamps]
        # A hold of another lock, within the gap.
        stand.history.append({"event": "held", "id": 99, "t": killed + 6 * 10**8})
    assert handing.poll(killed)
    assert handing.grant(killed) == pytest.approx(1)


class FakeCluster:
    """Three servers, of which the last one leads."""

    def __init__(self, log: list[str]) -> None:
        self._log = log
        self.killed: set[int] = set()

    def leader(self) -> int:
        return MEMBERS - 1

    def follower(self, turn: int) -> int:
        return turn % (MEMBERS - 1)

    def kill(self, number: int) -> None:
        assert not self.killed, "two of three servers are needed"
        self.killed.add(number)
        self._log.append(f"kill {number}")

    def launch(self, number: int) -> None:
        self._log.append(f"launch {number}")

    def wait(self) -> None:
        self.killed.clear()


class FakePair:
    """A pair whose effects are complete after some polls, or never."""

    def __init__(self, cluster: FakeCluster, log: list[str], name: str, polls: int | None) -> None:
        self.cluster, self._log, self._name, self._polls = cluster, log, name, polls
        self.polled = 0

    def prepare(self, number: int, event: str, victim: int) -> None:
        self.polled = 0
        self._log.append(f"{self._name} prepares {event} {victim}")

    def begin(self, killed: int) -> None:
        self._log.append(f"{self._name} begins")

    def poll(self) -> bool:
        self.polled += 1
        return self._polls is not None and self.polled >= self._polls

    def sample(self, event: str, number: int) -> Sample | None:
        return Sample(event, self._name, number) if self._polls is not None else None

    def disconnect(self) -> None:
        self._log.append(f"{self._name} disconnects")


def round_of(*polls: int | None) -> tuple[list[str], list[Sample], list[FakePair]]:
    """Run a round. Return the calls, the samples and the pairs."""
    log: list[str] = []
    cluster = FakeCluster(log)
    pairs = [FakePair(cluster, log, f"p{number}", one) for number, one in enumerate(polls)]
    samples: list[Sample] = []
    with ThreadPoolExecutor(1) as pool:
        rounds = Rounds(cast(list[Pair], pairs), samples.append, pool)
        rounds.run(1, ORDER, 0)
    return log, samples, pairs


def test_a_round_kills_a_follower_and_then_the_leader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "REST", 0)
    log, samples, _ = round_of(1)
    assert log == [
        f"p0 prepares {SERVER} 1",
        "kill 1",
        "p0 begins",
        "launch 1",
        f"p0 prepares {LEADER} 2",
        "kill 2",
        "p0 begins",
        "launch 2",
        "p0 disconnects",
    ]
    assert [one.event for one in samples] == [SERVER, LEADER]


def test_a_peer_is_asked_until_its_own_effects_are_complete(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "REST", 0)
    _, _, pairs = round_of(1, 5)
    assert [pair.polled for pair in pairs] == [1, 5]


def test_a_stuck_peer_ends_neither_the_round_nor_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "REST", 0)
    monkeypatch.setattr(servers, "PATIENCE", 0.1)
    log, samples, pairs = round_of(None, 2)
    assert [one.peer for one in samples] == ["p1", "p1"]
    assert pairs[0].polled > 2
    assert log[-2:] == ["p0 disconnects", "p1 disconnects"]


class FakeConnections:
    """A cluster and a worker: the connections go to these servers, one after another."""

    hosts = "hosts"

    def __init__(self, *numbers: int) -> None:
        self._numbers = list(numbers)
        self.calls: list[str] = []

    def connect(self, *_: Any, **__: Any) -> int:
        number = self._numbers.pop(0)
        self.calls.append(f"connect {number}")
        return number

    def call(self, cmd: str, **_: Any) -> None:
        self.calls.append(cmd)

    def serves(self, number: int, session: int) -> bool:
        return session == number


def test_clients_connect_until_only_the_first_is_on_the_victim() -> None:
    connections = FakeConnections(1, 0, 0, 0, 2)
    pair = object.__new__(Pair)
    pair.first = pair.second = cast(Worker, connections)
    pair.cluster, pair._clients = cast(Cluster, connections), 0
    pair._connect(0)
    first, second = (
        ["connect 1", "close", "connect 0"],
        ["connect 0", "close", "connect 0", "close", "connect 2"],
    )
    assert connections.calls == [*first, *second]
