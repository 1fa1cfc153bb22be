"""Arguments are checked before a request is sent, so these tests need no server."""

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
    """Return a function that creates a lock of any kind."""
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
        # The call itself raises the error, before the awaitable is awaited.
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


CLIENT = zklock.Client(NOWHERE, connect=False)
AIO_CLIENT = aio.Client(NOWHERE)
LOCK, AIO_LOCK = zklock.Mutex(CLIENT, "/a"), aio.Mutex(AIO_CLIENT, "/a")
PAIR, AIO_PAIR = zklock.ReadWriteLock(CLIENT, "/b"), aio.ReadWriteLock(AIO_CLIENT, "/b")
SLOTS, ELECTION = zklock.Semaphore(CLIENT, "/c", 2), zklock.Election(CLIENT, "/d")

# Each entry has a function, an invalid argument, and the text of the error message that describes the valid
# arguments.
WRONG: list[tuple[Callable[[Any], object], Any, str]] = [
    *((lambda wrong, make=make: make(wrong), 5, "hosts must be a str, not int") for make in CLIENTS),
    *(
        (lambda wrong, make=make, name=name: make(NOWHERE, **{name: wrong}), wrong, f"{name} must be {what}")
        for make in CLIENTS
        for name, wrong, what in [
            ("session_timeout", "1", "a number, not str"),
            ("connect_timeout", None, "a number, not NoneType"),
            ("auth_file", 5, "a path: str or os.PathLike, not int"),
            ("acl", 5, "a str, not int"),
            ("parent_acl", b"x", "a str, not bytes"),
            ("sasl", "ab", "a pair of user and password, not str"),
            ("sasl", ("user",), "a pair of user and password, both str"),
            ("tls", "ca.pem", "a zklock.Tls, not str"),
            ("label", 5, "a str, not int"),
            ("identify", 1, "True or False, not int"),
            ("max_frame", 1.5, "a whole number, not float"),
            *(
                ("auth", wrong, 'a list of pairs of scheme and credential, such as [("digest", "user:pass')
                for wrong in ("digest", b"digest", 5, [5], ["ab"], [("a", 5)], [(5, "a")], ("a", "b:c"))
            ),
        ]
    ),
    (lambda wrong: zklock.Client(NOWHERE, connect=wrong), 0, "connect must be True or False, not int"),
    (zklock.Tls, 5, "ca must be a path: str or os.PathLike, not int"),
    (
        lambda wrong: zklock.Tls("a", cert="b", key=wrong),
        5,
        "key must be a path: str or os.PathLike, not int",
    ),
    (lambda wrong: zklock.Mutex(wrong, "/a"), 5, "client must be a zklock.Client or a hosts string, not int"),
    *(
        (
            lambda wrong, kind=kind, name=name: kind(NOWHERE, "/a", **{name: wrong}),
            wrong,
            f"{name} must be {what}",
        )
        for kind in (zklock.Mutex, aio.Mutex)
        for name, wrong, what in [
            ("reentrant", 1, "True or False, not int"),
            ("label", 5, "a str, not int"),
            ("naming", None, "a str, not NoneType"),
            ("max_hold", "1", "a number, not str"),
        ]
    ),
    (lambda wrong: zklock.Mutex(CLIENT, wrong), 5, "path must be a str, not int"),
    (lambda wrong: aio.Mutex(AIO_CLIENT, wrong), b"/a", "path must be a str, not bytes"),
    (lambda wrong: zklock.ReadWriteLock(CLIENT, "/a", naming=wrong), 5, "naming must be a str, not int"),
    (
        lambda wrong: zklock.ReadWriteLock(CLIENT, "/a", max_hold=wrong),
        [],
        "max_hold must be a number, not list",
    ),
    (lambda wrong: zklock.Semaphore(CLIENT, "/a", wrong), "5", "permits must be a whole number, not str"),
    (lambda wrong: aio.Semaphore(AIO_CLIENT, "/a", wrong), 1.5, "permits must be a whole number, not float"),
    (
        lambda wrong: zklock.Semaphore(CLIENT, "/a", shared_count=wrong),
        5,
        "shared_count must be a str, not int",
    ),
    (SLOTS.acquire_many, "1", "count must be a whole number, not str"),
    (lambda wrong: SLOTS.acquire_many(1, timeout=wrong), "1", "timeout must be a number, not str"),
    (
        zklock.MultiLock,
        5,
        "locks must be a list of locks, each a Mutex, a Semaphore or a half of a ReadWriteLock",
    ),
    (
        zklock.MultiLock,
        [5],
        "locks must be a list of locks, each a Mutex, a Semaphore or a half of a ReadWriteLock",
    ),
    (
        zklock.MultiLock,
        LOCK,
        "locks must be a list of locks, each a Mutex, a Semaphore or a half of a ReadWriteLock",
    ),
    (zklock.MultiLock, [PAIR], "locks: a ReadWriteLock is two locks; pass its read_lock or its write_lock"),
    (aio.MultiLock, 5, "locks must be a list of locks of zklock.aio, not int"),
    (aio.MultiLock, [LOCK], "locks must be locks of zklock.aio, not Mutex"),
    (aio.MultiLock, [AIO_PAIR], "locks: a ReadWriteLock is two locks; pass its read_lock or its write_lock"),
    (lambda wrong: LOCK.acquire(timeout=wrong), "1", "timeout must be a number, not str"),
    (lambda wrong: LOCK.acquire(connect_timeout=wrong), "1", "connect_timeout must be a number, not str"),
    (LOCK.hold, [], "timeout must be a number, not list"),
    (AIO_LOCK.hold, "1", "timeout must be a number, not str"),
    (LOCK.release, 5, "wait must be True or False, not int"),
    (lambda wrong: LOCK.release(timeout=wrong), "1", "timeout must be a number, not str"),
    (CLIENT.get, 5, "path must be a str, not int"),
    (AIO_CLIENT.get, 5, "path must be a str, not int"),
    (CLIENT.revoke, 5, "node must be a str, not int"),
    (AIO_CLIENT.break_lock, b"/a", "node must be a str, not bytes"),
    (lambda wrong: CLIENT.set_shared_count("/a", wrong), "5", "count must be a whole number, not str"),
    (lambda wrong: AIO_CLIENT.set_shared_count(wrong, 5), 5, "path must be a str, not int"),
    (CLIENT.on_state, 5, "a callback must be callable, but 5 is not"),
    (lambda wrong: zklock.Election(CLIENT, "/e", id=wrong), 5, "id must be a str, not int"),
    (ELECTION.campaign, "1", "timeout must be a number, not str"),
    (ELECTION.lead, [], "timeout must be a number, not list"),
    (ELECTION.on_leader, None, "a callback must be callable, but None is not"),
    (zklock.dump_on, "USR1", "signum must be a whole number, not str"),
    (
        lambda wrong: zklock.dump_on(10, wrong),
        "log.txt",
        "file must be an open file or the number of a file desc",
    ),
    (zklock.testing.Server, "1", "port must be a whole number, not str"),
]


@pytest.mark.parametrize(("call", "wrong", "message"), WRONG)
def test_the_error_for_a_wrong_type_names_the_argument_and_the_python_type(
    call: Callable[[Any], object], wrong: Any, message: str
) -> None:
    with pytest.raises(TypeError) as caught:
        call(wrong)
    assert str(caught.value).startswith(message)


def test_a_credential_of_a_wrong_type_is_not_shown() -> None:
    for auth in ([("digest", ["user:secret"])], [("user:secret",)], "user:secret"):
        with pytest.raises(TypeError) as caught:
            zklock.Client(NOWHERE, auth=auth)  # type: ignore[arg-type]
        assert "secret" not in str(caught.value)


def test_wrong_types_for_methods_of_a_lease(client: zklock.Client, path: str) -> None:
    with zklock.Mutex(client, path) as lease:
        new = lease.transaction
        for call, wrong, message in [
            (lease.release, None, "wait must be True or False, not NoneType"),
            (lease.wait_lost, "1", "timeout must be a number, not str"),
            (lease.on_lost, 5, "a callback must be callable, but 5 is not"),
            (lease.on_revoke, None, "a callback must be callable, but None is not"),
            (lambda wrong: new().create(wrong), 5, "path must be a str, not int"),
            (lambda wrong: new().create("/a", wrong), "text", "data must be bytes, not str"),
            (lambda wrong: new().set_data("/a", wrong), 5, "data must be bytes, not int"),
            (lambda wrong: new().set_data("/a", b"", wrong), "1", "version must be a whole number, not str"),
            (lambda wrong: new().delete("/a", wrong), 1.5, "version must be a whole number, not float"),
            (lambda wrong: new().check("/a", wrong), None, "version must be a whole number, not NoneType"),
        ]:
            with pytest.raises(TypeError) as caught:
                call(wrong)
            assert str(caught.value).startswith(message)
        lease.check()


@pytest.mark.parametrize("sign", [1, -1])
def test_a_number_beyond_all_bounds_is_out_of_range(sign: int) -> None:
    number = sign * 2**70
    for call in (
        lambda: zklock.Client(NOWHERE, max_frame=number),
        lambda: zklock.Semaphore(NOWHERE, "/a", number),
        lambda: SLOTS.acquire_many(number),
        lambda: CLIENT.set_shared_count("/a", number),
        lambda: zklock.dump_on(number),
        lambda: zklock.dump_on(10, number),
        lambda: zklock.testing.Server(number),
    ):
        with pytest.raises(zklock.BadArgument):
            call()
    # As a number of seconds, this is the same as infinity.
    zklock.Mutex(NOWHERE, "/a", max_hold=10**400)
    with pytest.raises(zklock.BadArgument, match=r"^max_hold: "):
        zklock.Mutex(NOWHERE, "/a", max_hold=-(10**400))


def test_a_number_is_not_accepted_as_blocking(make: Make) -> None:
    """`acquire(5)` would mean `blocking=5`."""

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
