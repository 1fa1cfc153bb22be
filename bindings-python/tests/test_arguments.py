"""Arguments are checked before anything is sent: nothing listens where these locks point."""

from __future__ import annotations

import asyncio
import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import scripts

import zklock
from zklock import aio

NOWHERE = "127.0.0.1:1"
Make = Callable[..., Any]
CLIENTS: list[Make] = [zklock.Client, aio.Client]


@pytest.fixture(
    params=[
        zklock.Mutex,
        aio.Mutex,
        lambda *arguments, **options: zklock.ReadWriteLock(*arguments, **options).write_lock,
        lambda *arguments, **options: aio.ReadWriteLock(*arguments, **options).read_lock,
    ],
    ids=["sync", "aio", "sync-write", "aio-read"],
)
def make(request: pytest.FixtureRequest) -> Make:
    """Creates a lock of any kind."""
    factory: Make = request.param
    return factory


@pytest.mark.parametrize("path", ["", "a", "/", "/a/", "//a", "/a\0b", "/../a"])
def test_malformed_paths(make: Make, path: str) -> None:
    with pytest.raises(zklock.BadArgument, match=r"^path: "):
        make(NOWHERE, path)


@pytest.mark.parametrize("hosts", ["", "a:", "a:99999", "a,,b", "::1", "a/b//c"])
def test_malformed_hosts(make: Make, hosts: str) -> None:
    with pytest.raises(zklock.BadArgument, match=r"^hosts: "):
        make(hosts, "/a")
    with pytest.raises(zklock.BadArgument, match=r"^hosts: "):
        zklock.Client(hosts)
    with pytest.raises(zklock.BadArgument, match=r"^hosts: "):
        aio.Client(hosts)


@pytest.mark.parametrize("timeout", [-2, -0.5, math.nan, -math.inf])
def test_malformed_timeouts(make: Make, timeout: float) -> None:
    async def attempt() -> None:
        lock = make(NOWHERE, "/a")
        # Raised by the call, not when the awaitable is awaited.
        with pytest.raises(zklock.BadArgument, match=r"^timeout: "):
            lock.acquire(timeout=timeout)
        with pytest.raises(zklock.BadArgument, match=r"^timeout: "):
            lock.hold(timeout=timeout)

    asyncio.run(attempt())


@pytest.mark.parametrize("timeout", [0, 1, 2.5])
def test_a_timeout_without_blocking(make: Make, timeout: float) -> None:
    async def attempt() -> None:
        with pytest.raises(zklock.BadArgument, match=r"^timeout: .*blocking"):
            make(NOWHERE, "/a").acquire(blocking=False, timeout=timeout)

    asyncio.run(attempt())


def test_other_arguments_out_of_range(make: Make) -> None:
    with pytest.raises(zklock.BadArgument, match=r"^naming: "):
        make(NOWHERE, "/a", naming="other")
    for name in ("session_timeout", "connect_timeout"):
        for value in (0, -1, math.nan):
            for client in CLIENTS:
                with pytest.raises(zklock.BadArgument, match=f"^{name}: "):
                    client(NOWHERE, **{name: value})


def test_wrong_types(make: Make) -> None:
    async def attempt() -> None:
        lock = make(NOWHERE, "/a")
        for wrong in ({"timeout": "1"}, {"timeout": b"1"}, {"blocking": 5}, {"blocking": None}):
            with pytest.raises(TypeError):
                lock.acquire(**wrong)
        with pytest.raises(TypeError):
            lock.hold(timeout="1")

    asyncio.run(attempt())
    for client, path in ((object(), "/a"), (5, "/a"), (NOWHERE, None), (NOWHERE, b"/a")):
        with pytest.raises(TypeError):
            make(client, path)
    with pytest.raises(TypeError):
        make(NOWHERE, "/a", label=5)
    for client_class in CLIENTS:
        with pytest.raises(TypeError):
            client_class(5)
        with pytest.raises(TypeError):
            client_class(NOWHERE, session_timeout="1")


def test_a_number_is_no_time_out(make: Make) -> None:
    """`acquire(5)` would be `blocking=5`."""

    async def attempt() -> None:
        for wrong in (5, 2.5, -1):
            with pytest.raises(TypeError, match=rf"not {wrong}; is timeout={wrong} meant\?"):
                make(NOWHERE, "/a").acquire(wrong)

    asyncio.run(attempt())


def test_a_client_of_the_other_kind() -> None:
    with pytest.raises(TypeError, match=r"zklock\.aio\.Client"):
        zklock.Mutex(aio.Client(NOWHERE), "/a")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"zklock\.aio\.Client"):
        zklock.ReadWriteLock(aio.Client(NOWHERE), "/a")  # type: ignore[arg-type]


def test_whether_to_re_enter_is_a_bool() -> None:
    for mutex in (zklock.Mutex, aio.Mutex):
        for wrong in (None, 0, "no"):
            with pytest.raises(TypeError):
                mutex(NOWHERE, "/a", reentrant=wrong)  # type: ignore[arg-type]


def test_locks_are_made_by_their_kinds() -> None:
    with pytest.raises(TypeError):
        zklock.Lock()
    for kind in (zklock.Mutex, aio.Mutex):
        with pytest.raises(TypeError):
            type("Subclass", (kind,), {})(5, "/a")


def test_bad_arguments_start_nothing() -> None:
    done = scripts.run(
        """
        for attempt in (
            lambda: zklock.Client("a:"),
            lambda: zklock.Mutex(hosts, "a"),
            lambda: zklock.Mutex(hosts, "/a").acquire(timeout=-2),
            lambda: zklock.Mutex(hosts, "/a").hold(timeout=-2),
        ):
            try:
                attempt()
            except zklock.BadArgument:
                print(len(os.listdir("/proc/self/task")))
        """
    )
    assert done.stdout.split() == ["1"] * 4, done


def test_every_error_has_two_bases_and_a_code() -> None:
    expected = {
        "LOCK_TIMEOUT": (zklock.LockTimeout, TimeoutError),
        "LOCK_LOST": (zklock.LockLost, Exception),
        "NOT_HELD": (zklock.NotHeld, RuntimeError),
        "UPGRADE_REFUSED": (zklock.UpgradeRefused, RuntimeError),
        "CONNECTION_FAILED": (zklock.ConnectionFailed, ConnectionError),
        "AUTH_FAILED": (zklock.AuthFailed, PermissionError),
        "BAD_ARGUMENT": (zklock.BadArgument, ValueError),
        "CLIENT_CLOSED": (zklock.ClientClosed, RuntimeError),
        "FORKED": (zklock.Forked, RuntimeError),
        "SEQUENCE_EXHAUSTED": (zklock.SequenceExhausted, Exception),
        "PERMITS_MISMATCH": (zklock.PermitsMismatch, Exception),
    }
    for code, (error, builtin) in expected.items():
        made = error("why")
        assert isinstance(made, (zklock.Error, builtin))
        assert (made.code, str(made)) == (code, "why")
        assert type(pickle.loads(pickle.dumps(made))) is error


def test_an_unreachable_server_fails_in_time() -> None:
    with pytest.raises(zklock.ConnectionFailed) as failure:
        zklock.Client(NOWHERE, connect_timeout=0.3)
    assert failure.value.code == "CONNECTION_FAILED"
    assert not zklock.Mutex(NOWHERE, "/a").acquire(timeout=0.3)
    with pytest.raises(zklock.LockTimeout) as late, zklock.Mutex(NOWHERE, "/a").hold(timeout=0.3):
        pass
    assert late.value.reason == "unreachable"


def test_only_a_try_has_a_bound_of_its_own() -> None:
    lock, election = zklock.Mutex(NOWHERE, "/a"), zklock.Election(NOWHERE, "/e")
    tries: list[Callable[[], Any]] = [
        lambda: lock.acquire(blocking=False, connect_timeout=0.3),
        lambda: lock.acquire(timeout=0, connect_timeout=0.3),
        lambda: lock.hold(timeout=0, connect_timeout=0.3).__enter__(),
        lambda: zklock.MultiLock([lock]).acquire(blocking=False, connect_timeout=0.3),
        lambda: zklock.Semaphore(NOWHERE, "/s", 2).acquire_many(1, blocking=False, connect_timeout=0.3),
        lambda: election.campaign(timeout=0, connect_timeout=0.3),
        lambda: election.lead(timeout=0, connect_timeout=0.3).__enter__(),
    ]
    for one in tries:
        with pytest.raises(zklock.ConnectionFailed, match=r"within \d+ms"):
            one()
    for blocking, timeout, bound in [(True, -1, 1), (True, 5, 1), (False, -1, 0), (False, -1, -1)]:
        with pytest.raises(zklock.BadArgument, match=r"^connect_timeout: "):
            lock.acquire(blocking, timeout, connect_timeout=bound)


def test_versions_out_of_range(client: zklock.Client, path: str) -> None:
    with zklock.Mutex(client, path) as lease:
        guards: list[Callable[[Any], Any]] = [
            lambda version: lease.transaction().check("/a", version),
            lambda version: lease.transaction().set_data("/a", b"", version),
            lambda version: lease.transaction().delete("/a", version),
        ]
        for guard in guards:
            for version in (-1, 1 << 31, 1 << 32):
                with pytest.raises(zklock.BadArgument, match=r"^version: must be a whole number"):
                    guard(version)
            for wrong in (0.9, "0"):
                with pytest.raises(TypeError):
                    guard(wrong)
