"""S840: other clients see the owner within a client."""

from __future__ import annotations

import json
from typing import TypedDict

from conftest import Start
from harness.observer import Observer
from harness.server import Standalone


class Owner(TypedDict):
    """The owner that created a node, as the node's data describes it."""

    number: int
    name: str | None
    process: int


def owner_of(observer: Observer, path: str) -> Owner:
    """Return the owner of the first node in a queue."""
    node = observer.queue(path)[0]
    data, _ = observer.client.get(f"{path}/{node}")
    owner: Owner = json.loads(data)["owner"]
    return owner


def test_s840_an_owner_inside_a_client(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    held = {"a": "worker-1", "b": "worker-1", "c": "worker-2"}
    worker = start(surface)
    worker.connect(server.hosts)
    for name, owner in held.items():
        worker.lock(f"{path}/{name}", lock=name)
        worker.hold(name, owner=owner, lock=name)
    owners = {name: owner_of(observer, f"{path}/{name}") for name in held}
    assert owners["a"] == owners["b"]
    assert owners["a"]["number"] != owners["c"]["number"]
    assert owners["a"]["process"] == owners["c"]["process"]
    assert [owners[name]["name"] for name in held] == list(held.values())
    other = start(surface)
    other.connect(server.hosts)
    other.lock(f"{path}/d", lock="d")
    other.hold("d", owner="worker-1", lock="d")
    assert owner_of(observer, f"{path}/d")["process"] != owners["a"]["process"]
    other.lock(f"{path}/c", lock="c")
    error = other.fail_to_enter(0.2, "c", owner="worker-1", lock="c")
    assert f"owner {owners['c']['number']} (worker-2)" in error.message
