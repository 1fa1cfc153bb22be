"""The nodes that a client creates, and their access control lists."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kazoo.security import ACL

from harness.observer import Observer
from harness.worker import Worker

COUNT = 2
"""Number of permits in the node of a shared count."""

KINDS = (
    "mutex",
    "kazoo",
    "rigid",
    "read",
    "write",
    "downgrade",
    "semaphore",
    "shared",
    "multi",
    "election",
    "transaction",
)


def occupy(worker: Worker, observer: Observer, top: str, kind: str, *, client: str = "c") -> dict[str, int]:
    """Let one owner hold a lock of this kind and another owner wait for it, both on the same client.

    The lock's path must not exist yet. Return the number of children of each directory.
    """
    path = f"{top}/above/{kind}"
    name = path

    def contend(members: int = 1, at: str = path, **options: Any) -> None:
        """Let one owner hold and another one wait."""
        worker.hold(f"{name} held", lock=name, owner=f"{name} a", **options)
        worker.acquire(f"{name} waits", lock=name, owner=f"{name} b", **options)
        observer.wait_queue(at, 2 * members)

    if kind in ("mutex", "kazoo", "rigid"):
        given_by_kind: dict[str, dict[str, Any]] = {
            "kazoo": {"naming": "kazoo"},
            "rigid": {"reentrant": False},
        }
        options = given_by_kind.get(kind, {})
        worker.lock(path, lock=name, client=client, **options)
        contend()
        return {path: 2}
    if kind in ("read", "write"):
        worker.lock(path, lock=name, kind=kind, client=client)
        worker.lock(path, lock=f"{name} write", kind="write", client=client)
        worker.hold(f"{name} held", lock=name, owner=f"{name} a")
        worker.acquire(f"{name} waits", lock=f"{name} write", owner=f"{name} b")
        observer.wait_queue(path, 2)
        return {path: 2}
    if kind == "downgrade":
        worker.lock(path, lock=f"{name} read", kind="read", client=client)
        worker.lock(path, lock=name, kind="write", client=client)
        worker.hold(f"{name} written", lock=name, owner=f"{name} a")
        worker.hold(f"{name} read", lock=f"{name} read", owner=f"{name} a")
        worker.release(f"{name} written", owner=f"{name} a")
        observer.wait_queue(path, 1)
        return {path: 1}
    if kind in ("semaphore", "shared"):
        given: dict[str, Any] = {"permits": COUNT}
        found: dict[str, int] = {}
        if kind == "shared":
            count = f"{top}/above/counts/{kind}"
            worker.call("count", client=client, node=count, count=COUNT)
            given = {"shared_count": count}
            found = {f"{top}/above/counts": 1}
        worker.lock(path, lock=name, kind="semaphore", client=client, **given)
        worker.hold(f"{name} held", lock=name, owner=f"{name} a", count=2)
        # Owner b is first in the semaphore's queue (`locks`), so it also has a permit node (`leases`). Owner
        # c waits behind b.
        worker.acquire(f"{name} waits", lock=name, owner=f"{name} b", count=1)
        observer.wait_queue(f"{path}/leases", 3)
        worker.acquire(f"{name} late", lock=name, owner=f"{name} c", count=1)
        observer.wait_queue(f"{path}/locks", 2)
        return {path: 2, f"{path}/leases": 3, f"{path}/locks": 2, **found}
    if kind == "multi":
        worker.lock(f"{path}/one", lock=f"{name} one", client=client)
        worker.lock(f"{path}/two", lock=f"{name} two", kind="semaphore", permits=COUNT, client=client)
        worker.multi([f"{name} one", f"{name} two"], lock=name)
        worker.hold(f"{name} held", lock=name, owner=f"{name} a")
        # The client returns the turn in the background.
        observer.wait_queue(f"{path}/two/locks", 0)
        return {f"{path}/one": 1, f"{path}/two/leases": 1}
    if kind == "election":
        worker.lock(path, lock=name, kind="election", client=client, candidate="first")
        worker.lock(path, lock=f"{name} next", kind="election", client=client, candidate="next")
        worker.hold(f"{name} held", lock=name, owner=f"{name} a")
        worker.acquire(f"{name} waits", lock=f"{name} next", owner=f"{name} b")
        observer.wait_queue(path, 2)
        return {path: 2}
    assert kind == "transaction", kind
    worker.lock(path, lock=name, client=client)
    worker.hold(f"{name} held", lock=name, owner=f"{name} a")
    made = [{"op": "create", "path": f"{path}/result", "data": "done"}]
    worker.call("transact", lease=f"{name} held", operations=made)
    return {path: 2}


def parents(top: str, kind: str) -> set[str]:
    """Return the directories above the lock and above its shared count. Other locks can use them too."""
    above = {top, f"{top}/above"}
    if kind == "shared":
        above.add(f"{top}/above/counts")
    return above | ({f"{top}/above/multi"} if kind == "multi" else set())


def nodes(observer: Observer, top: str) -> Iterator[str]:
    """Yield a node and all its descendants."""
    yield top
    for child in observer.children(top):
        yield from nodes(observer, f"{top}/{child}")


def access(observer: Observer, node: str) -> list[ACL]:
    """Return the access control list of a node."""
    found: list[ACL] = observer.client.get_acls(node)[0]
    return found
