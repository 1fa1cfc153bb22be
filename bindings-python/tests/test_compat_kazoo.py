"""kazoo's own tests of its locks and its semaphore, run on `zklock.compat.kazoo`.

The tests come with kazoo. Instead of a `KazooClient` they receive an adapter, which creates the locks of
`zklock.compat.kazoo` on a zklock client and a real server. For everything else that the tests do with
ZooKeeper, the adapter uses a real kazoo client.
"""

from __future__ import annotations

import importlib
import sys
import threading
import unittest
import uuid
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any
from unittest.mock import patch

import pytest
from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import eventually
from kazoo.client import KazooClient

import zklock
from zklock.compat import kazoo as compat

EXCEPTIONS = {
    "KazooLockTests.test_lock_ephemeral": "acquire(ephemeral=False) is refused: no lock outlives its session",
    "TestSemaphore.test_inconsistent_max_leases_other_data": (
        "different numbers are always refused; kazoo does not compare them if the node has other data"
    ),
    "TestSequence.test_get_predecessor": "calls a private method of kazoo's, on a mock",
    "TestSequence.test_get_predecessor_go": "calls a private method of kazoo's, on a mock",
}
"""The tests that are expected to fail, with the reasons."""


LIMIT = 40.0
"""Timeout for one test, in seconds."""


class Adapter:
    """The object that the tests use as a `KazooClient`."""

    def __init__(self, hosts: str) -> None:
        self._hosts = hosts
        self._kazoo: Any = KazooClient(hosts)

    def start(self) -> None:
        self._zklock = zklock.Client(self._hosts)
        self._kazoo.start()
        self.Lock = partial(compat.Lock, self._zklock)
        self.ReadLock = partial(compat.ReadLock, self._zklock)
        self.WriteLock = partial(compat.WriteLock, self._zklock)
        self.handler = self._kazoo.handler
        self.ensure_path, self.get, self.set = self._kazoo.ensure_path, self._kazoo.get, self._kazoo.set

    def Semaphore(self, *arguments: Any, **named: Any) -> compat.Semaphore:  # noqa: N802
        semaphore: Any = compat.Semaphore(self._zklock, *arguments, **named)
        # A test waits for this event, which kazoo's semaphore sets when its client has noticed a change.
        semaphore.wake_event = threading.Event()
        self._zklock.on_state(lambda _state: semaphore.wake_event.set())
        result: compat.Semaphore = semaphore
        return result

    def stop(self) -> None:
        self._zklock.close()
        self._kazoo.stop()

    def close(self) -> None:
        self._kazoo.close()

    def expire(self, observer: Observer, proxy: Proxy) -> None:
        """Expire the session for real, and wait for the next one."""
        session = self._zklock.session_id
        observer.kill_session(session, proxy.passwords[session])
        eventually(lambda: self._zklock.session_id != session, "a new session")


class Condition(threading.Condition):
    """A condition variable that delays a contender until the test's own thread waits.

    Two tests wait until the lock is free, and then until it has its next holder. They rely on kazoo's slow
    hand-off: with a fast hand-off, they would never see the lock free. So a contender that locks this
    condition variable for the first time is delayed until the test's thread waits."""

    def __init__(self) -> None:
        super().__init__()
        self.mine = threading.current_thread()
        self.waits = False
        self.known = {self.mine}

    def __enter__(self) -> bool:
        entered = super().__enter__()
        if (thread := threading.current_thread()) not in self.known:
            self.known.add(thread)
            while not self.waits:
                super().wait()
        return entered

    def wait(self, timeout: float | None = None) -> bool:
        super().notify_all()
        self.waits = True
        return super().wait(timeout)

    def notify_all(self) -> None:
        self.waits = False
        super().notify_all()


class Harness(unittest.TestCase):
    """The base class of kazoo's tests. It replaces `kazoo.testing`, which would start its own servers."""

    observer: Observer
    proxy: Proxy

    def setUp(self) -> None:
        namespace = f"/kazoo-{uuid.uuid4().hex}"
        self.observer.create(namespace)
        self.hosts = f"{self.proxy.hosts}{namespace}"
        self.clients: list[Adapter] = []
        self.client = self._get_client()
        self.client.start()

    def tearDown(self) -> None:
        for client in self.clients:
            client.stop()
            client.close()

    def _get_client(self) -> Adapter:
        client = Adapter(self.hosts)
        self.clients.append(client)
        return client

    def expire_session(self, _event_factory: Callable[[], threading.Event]) -> None:
        self.client.expire(self.observer, self.proxy)


def kazoos_tests() -> Any:
    """Return the module `kazoo.tests.test_lock` with our base class."""
    testing: Any = ModuleType("kazoo.testing")
    testing.KazooTestCase = Harness
    with patch.dict(sys.modules, {"kazoo.testing": testing}):
        return importlib.import_module("kazoo.tests.test_lock")


theirs = kazoos_tests()

TESTS: dict[str, unittest.TestCase] = {
    f"{name}.{method}": kind(method)
    for name, kind in vars(theirs).items()
    if isinstance(kind, type) and issubclass(kind, unittest.TestCase) and kind is not Harness
    for method in unittest.TestLoader().getTestCaseNames(kind)
}


@pytest.fixture(scope="module")
def proxy(server: Standalone) -> Iterator[Proxy]:
    """Provide a proxy that records the passwords of sessions. A test needs them to expire sessions."""
    with Proxy(server.hosts) as between:
        yield between


@pytest.mark.parametrize("name", TESTS)
def test_kazoos_own(name: str, observer: Observer, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    for replaced in ("CancelledError", "Lock", "LockTimeout"):
        monkeypatch.setattr(theirs, replaced, getattr(compat, replaced))
    test: Any = TESTS[name]
    test.observer, test.proxy, test.make_condition = observer, proxy, Condition
    result = unittest.TestResult()
    # Run the test on a daemon thread, because a test that hangs can wait forever for its own threads.
    runner = threading.Thread(target=test.run, args=(result,), daemon=True)
    runner.start()
    runner.join(LIMIT)
    assert not runner.is_alive(), f"{name} has not ended after {LIMIT} s"
    assert result.testsRun == 1
    assert not result.skipped
    problems = "".join(trace for _, trace in result.failures + result.errors)
    if name in EXCEPTIONS:
        assert problems, f"{name} passes: it is no exception any more"
    else:
        assert not problems, problems


def test_at_least_90_percent_of_kazoos_tests_pass() -> None:
    assert set(EXCEPTIONS) <= set(TESTS)
    on_a_server = [name for name in TESTS if not name.startswith("TestSequence")]
    passing = [name for name in on_a_server if name not in EXCEPTIONS]
    assert (len(on_a_server), len(passing)) == (29, 27)
    assert len(passing) / len(on_a_server) > 0.9


def test_lease_holders_omits_waiters(server: Standalone) -> None:
    path = f"/t-{uuid.uuid4().hex[:8]}/pool"
    with zklock.Client(server.hosts) as client:
        fred, george = (compat.Semaphore(client, path, name, max_leases=1) for name in ("fred", "george"))
        fred.acquire()
        waiting = threading.Thread(target=george.acquire)
        waiting.start()
        lock = zklock.Semaphore(client, path, 1)
        # The waiter has a node next to the holder's node.
        eventually(
            lambda: sum("/leases/" in one.node for one in lock.contenders()) == 2,
            "the node of one that waits",
        )
        assert fred.lease_holders() == ["fred"]
        fred.release()
        waiting.join()
        assert george.lease_holders() == ["george"]
        george.release()
