"""Tests of server addresses, and of the rule by which locks with equal addresses share a client."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from harness.observer import Observer
from harness.proxy import Proxy
from harness.reported import health
from harness.rights import KINDS, occupy
from harness.server import Standalone
from harness.steps import Start, eventually
from harness.worker import Worker


def test_s792_every_kind_over_ipv6(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    """Clients connect over IPv6 with one address, with several, and below a chroot."""
    observer.create(f"{path}/root")
    with Proxy(server.hosts, host="::1") as proxy:
        assert proxy.hosts == f"[::1]:{proxy.port}"
        worker = start(surface)
        for client, hosts in {
            "one": proxy.hosts,
            "several": f"[::1]:1,{proxy.hosts},[0:0:0:0:0:0:0:1]:2",
            "below": f"{proxy.hosts}{path}/root",
        }.items():
            session = worker.connect(hosts, client=client)
            assert session in proxy.passwords
            assert health(worker, client).value["server"] == proxy.hosts
            if client != "below":
                for kind in KINDS:
                    occupy(worker, observer, f"{path}-{client}-{kind}", kind, client=client)
        worker.lock("/deep/lock", lock="deep", client="below")
        output = worker.hold("deep", lock="deep")
        assert observer.owner(f"{path}/root{output['node']}") == worker.sessions["below"]
        # The clients reconnect over IPv6.
        proxy.cut()
        for client in ("one", "several"):
            eventually(partial(is_reconnected, worker, client), "the client is connected again")
            assert health(worker, client).value["server"] == proxy.hosts


def is_reconnected(worker: Worker, client: str) -> bool:
    """Return whether a client has counted one reconnection."""
    return bool(worker.call("stats", client=client)["value"]["reconnections"] == 1)


KINDS_THAT_SHARE: dict[str, dict[str, Any]] = {
    "mutex": {},
    "read": {"kind": "read"},
    "write": {"kind": "write"},
    "semaphore": {"kind": "semaphore", "permits": 2},
    "election": {"kind": "election"},
}


@pytest.mark.parametrize("spelled", ["same", "space", "other chroot", "other servers", "other order"])
def test_s793_locks_share_a_client_by_their_hosts(
    surface: str, spelled: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    """In one process, locks with equal hosts share a client, and locks with different hosts do not."""
    observer.create(f"{path}/root")
    with Proxy(server.hosts) as proxy, Proxy(server.hosts) as too:
        both = f"{proxy.hosts},{too.hosts}"
        first, second, shares = {
            "same": (proxy.hosts, proxy.hosts, True),
            "space": (both, both.replace(",", ", "), True),
            "other chroot": (proxy.hosts, f"{proxy.hosts}{path}/root", False),
            "other servers": (proxy.hosts, both, False),
            "other order": (both, f"{too.hosts},{proxy.hosts}", None),
        }[spelled]
        worker = start(surface)
        sessions: dict[str, set[int]] = {"first": set(), "second": set()}
        for name, hosts in (("first", first), ("second", second)):
            for kind, options in KINDS_THAT_SHARE.items():
                lock = f"{name} {kind}"
                worker.lock(f"/t-{name}{path}/{kind}", lock=lock, hosts=hosts, **options)
                sessions[name].add(int(worker.hold(lock, lock=lock, owner=lock)["session"]))
        assert [len(one) for one in sessions.values()] == [1, 1], "locks of all kinds share one session"
        assert len(set(proxy.passwords) | set(too.passwords)) == len(sessions["first"] | sessions["second"])
        if shares is not None:
            assert (sessions["first"] == sessions["second"]) is shares
