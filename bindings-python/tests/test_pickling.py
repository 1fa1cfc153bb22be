"""Copies of locks, in this process and in others."""

from __future__ import annotations

import copy
import inspect
import multiprocessing
import pickle
from typing import Any

import pytest

import zklock
from zklock import aio

# All arguments, each with a value other than its default.
EVERYTHING: dict[str, Any] = {
    "reentrant": False,
    "label": "nightly",
    "naming": "kazoo",
    "max_hold": 60.0,
    "grace": 1.0,
    "max_waiters": 5,
    "cohort": 8,
    "linger": 0.5,
    "options": zklock.ClientOptions(session_timeout=5, acl="world:anyone:cdrwa", label="nightly"),
    "permits": 3,
    "shared_count": "/count",
    "id": "scheduler-1",
}


def arguments(kind: type) -> dict[str, Any]:
    """Return a valid combination of arguments for a lock of this class."""
    names = set(inspect.signature(kind).parameters) - {"client", "path"}
    unknown = names - set(EVERYTHING)
    assert not unknown, f"a value for {unknown}, please"
    # `max_waiters` cannot be combined with `cohort`.
    return {name: EVERYTHING[name] for name in names - {"permits", "cohort"}}


@pytest.mark.parametrize("kind", [zklock.Mutex, zklock.ReadWriteLock, aio.Mutex, aio.ReadWriteLock])
def test_a_copy_has_the_cohort(kind: Any) -> None:
    lock = kind("zk1/app", "/a", cohort=EVERYTHING["cohort"])
    for twin in (lock, pickle.loads(pickle.dumps(lock))):
        assert twin.__reduce__()[1][3]["cohort"] == EVERYTHING["cohort"]


LOCKS = [
    zklock.Mutex,
    zklock.ReadWriteLock,
    zklock.Semaphore,
    zklock.Election,
    aio.Mutex,
    aio.ReadWriteLock,
    aio.Semaphore,
    aio.Election,
]


@pytest.mark.parametrize("kind", LOCKS, ids=lambda kind: f"{kind.__module__}.{kind.__name__}")
def test_a_copy_has_every_argument(kind: Any) -> None:
    given = arguments(kind)
    lock = kind("zk1/app", "/a", **given)
    _, (class_, hosts, path, options) = lock.__reduce__()
    assert (class_, hosts, path) == (kind, "zk1/app", "/a")
    assert {name: options[name] for name in given} == given
    for twin in (pickle.loads(pickle.dumps(lock)), copy.copy(lock), copy.deepcopy(lock)):
        assert type(twin) is kind
        assert twin is not lock
        assert repr(twin) == repr(lock)
        assert twin.__reduce__()[1] == lock.__reduce__()[1]


@pytest.mark.parametrize("module", [zklock, aio])
def test_halves_and_multi_locks(module: Any) -> None:
    both = module.ReadWriteLock("zk1", "/a", label="x")
    several = module.MultiLock([module.Semaphore("zk1", "/b", 2), both.write_lock])
    for lock in (both.read_lock, both.write_lock, several):
        twin = pickle.loads(pickle.dumps(lock))
        assert type(twin) is type(lock)
        assert repr(twin) == repr(lock)
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            assert repr(pickle.loads(pickle.dumps(lock, protocol))) == repr(lock)


def test_default_hosts_are_those_of_the_environment_that_unpickles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZKLOCK_HOSTS", "here:1")
    pickled = pickle.dumps(zklock.Mutex(None, "/a"))
    monkeypatch.setenv("ZKLOCK_HOSTS", "there:2")
    assert "there:2" in repr(pickle.loads(pickled))


def work(lock: zklock.Mutex, held: Any) -> None:
    """The work of a child."""
    held.put(lock.acquire(blocking=False))
    with lock as lease:
        held.put(lease.session_id)


def test_a_child_gets_a_lock_as_an_argument(hosts: str, path: str) -> None:
    context = multiprocessing.get_context("spawn")
    held: Any = context.SimpleQueue()
    lock = zklock.Mutex(hosts, path)
    with lock as lease:
        child = context.Process(target=work, args=(lock, held))
        child.start()
        assert held.get() is False
    assert held.get() not in (0, lease.session_id)
    child.join()
    assert child.exitcode == 0


def test_a_copy_is_the_same_lock(hosts: str, path: str) -> None:
    lock = zklock.Mutex(hosts, path)
    with lock:
        twin = copy.copy(lock)
        assert twin.owned()
        with twin as lease:
            assert lock.lease is not None
            assert lease.fencing_token == lock.lease.fencing_token


@pytest.mark.parametrize("module", [zklock, aio])
def test_locks_on_a_client_are_refused(module: Any) -> None:
    options: dict[str, Any] = {} if module is aio else {"connect": False}
    client = module.Client("zk1", auth=[("digest", "app:hidden")], **options)
    both = module.ReadWriteLock(client, "/b")
    locks = [module.Mutex(client, "/a"), both, both.read_lock, module.Semaphore(client, "/c", 1)]
    locks.append(module.MultiLock([locks[0]]))
    for lock in locks:
        for attempt in (pickle.dumps, copy.copy, copy.deepcopy):
            if attempt is copy.copy and isinstance(lock, module.MultiLock):
                # A shallow copy has the same members.
                assert attempt(lock).paths == ["/a"]
                continue
            with pytest.raises(TypeError, match=r"on a client: .* create the lock with a hosts string"):
                attempt(lock)
