"""A client that connects on first use, separately in each process."""

from __future__ import annotations

import gc
import threading

import pytest
import scripts
from harness.security import secured_server

import zklock
from zklock import aio

FORK = """
    def in_a_child(work):
        sys.stdout.flush()
        pid = os.fork()
        if not pid:
            status = 1
            try:
                work()
                status = 0
            except BaseException as error:
                print(repr(error))
            finally:
                sys.stdout.flush()
                os._exit(status)
        print("child", os.waitpid(pid, 0)[1])
"""


def test_nothing_is_sent_before_the_first_use() -> None:
    # No server listens there.
    client = zklock.Client("127.0.0.1:1", connect=False, connect_timeout=0.2)
    lock = zklock.Mutex(client, "/a")
    assert (client.state, client.session_id) == ("idle", 0)
    with pytest.raises(zklock.ConnectionFailed):
        lock.acquire()
    with pytest.raises(zklock.ConnectionFailed):
        client.connect()


def test_arguments_are_checked_at_once() -> None:
    with pytest.raises(zklock.BadArgument, match="session_timeout"):
        zklock.Client("a", connect=False, session_timeout=0)


def test_the_first_use_connects_and_a_close_is_final(hosts: str, path: str) -> None:
    with zklock.Client(hosts, connect=False) as client:
        assert client.state == "idle"
        lock = zklock.Mutex(client, path)
        with lock as lease:
            assert client.state == "connected"
            assert lease.session_id == client.session_id
        assert client.stats().acquisitions == 1
    assert client.state == "closed"
    with pytest.raises(zklock.ClientClosed):
        lock.acquire()
    assert zklock.Client(hosts, connect=False).connect().state == "connected"


def test_an_unused_client_closes(hosts: str, path: str) -> None:
    client = zklock.Client(hosts, connect=False)
    closed = threading.Event()
    client.on_state(lambda state: closed.set() if state == "closed" else None)
    lock = zklock.Mutex(client, path)
    with lock:
        pass
    # A lock keeps the client alive.
    del client
    gc.collect()
    assert not closed.wait(0.1)
    with lock:
        pass
    del lock
    assert closed.wait(10)


@pytest.mark.parametrize("used", [False, True], ids=["unused before", "used before"])
def test_every_process_has_a_session_of_its_own(hosts: str, path: str, used: bool) -> None:
    done = scripts.run(
        FORK
        + f"""
    client = zklock.Client(hosts, connect=False)
    lock, session = zklock.Mutex(client, path), 0
    if {used}:
        lock.acquire()
        session = lock.lease.session_id

    def work():
        assert client.state == "idle" and client.session_id == 0, client
        assert not lock.owned() and lock.lease is None
        # The parent keeps what it has.
        assert lock.acquire(blocking=False) is not {used}
        with zklock.Mutex(client, path + "-2") as lease:
            assert lease.session_id == client.session_id not in (0, session)
        in_a_child(work_again)
        client.close()
        assert client.state == "closed"

    def work_again():
        assert client.state == "idle"
        client.connect()
        with zklock.Mutex(client, path + "-2") as lease: pass

    in_a_child(work)
    if {used}:
        lock.lease.check()
        assert client.session_id == session
        lock.release()
    else:
        assert client.state == "idle"
    with lock: print("parent fine")
        """,
        hosts,
        path,
    )
    assert done.stdout.splitlines() == ["child 0", "child 0", "parent fine"], done
    assert "never awaited" not in done.stderr


def test_a_lease_belongs_to_the_process_that_acquired_it(hosts: str, path: str) -> None:
    done = scripts.run(
        FORK
        + """
    client = zklock.Client(hosts, connect=False)
    lease = zklock.Mutex(client, path).__enter__()

    def work():
        client.connect()
        for attempt in (lease.check, lease.release):
            try:
                attempt()
                print("no error from", attempt)
            except zklock.Forked:
                pass
        assert zklock.Mutex(client, path).acquire(blocking=False) is False

    in_a_child(work)
    lease.check()
    lease.release()
        """,
        hosts,
        path,
    )
    assert done.stdout.splitlines() == ["child 0"], done


def test_a_child_that_ends_leaves_the_parent_s_client_alone(hosts: str, path: str) -> None:
    done = scripts.run(
        FORK
        + """
    client = zklock.Client(hosts, connect=False)
    lock = zklock.Mutex(client, path)
    lock.acquire()

    def work():
        names = globals()
        for name in ("client", "lock"):
            del names[name]

    in_a_child(work)
    lock.lease.check()
    with zklock.Client(hosts) as other:
        print(zklock.Mutex(other, path).acquire(blocking=False))
    print(client.state)
        """,
        hosts,
        path,
    )
    assert done.stdout.splitlines() == ["child 0", "False", "connected"], done


def test_asyncio(hosts: str, path: str) -> None:
    done = scripts.run(
        FORK
        + """
    client = aio.Client(hosts)
    lock = aio.Mutex(client, path)

    async def use():
        async with asyncio.timeout(10), lock as lease:
            return lease.session_id

    sessions = [asyncio.run(use())]

    def work():
        assert client.state == "idle"
        assert asyncio.run(use()) not in sessions

    in_a_child(work)
    assert asyncio.run(use()) in sessions
        """,
        hosts,
        path,
    )
    assert done.stdout.splitlines() == ["child 0"], done


def test_a_module_s_lock_of_a_secured_ensemble_works_in_workers(path: str) -> None:
    """The client uses TLS, credentials, and an access control list that excludes all other clients."""
    with secured_server() as server:
        options = f"""
    PLAIN = {server.server.hosts!r}
    tls = zklock.Tls({server.tls["ca"]!r}, cert={server.tls["cert"]!r}, key={server.tls["key"]!r})
    client = zklock.Client(hosts, tls=tls, auth=[("digest", "app:secret")], acl="creator", connect=False)
    lock = zklock.Mutex(client, path)
        """
        done = scripts.run(
            FORK
            + options
            + """
    def work():
        with lock as lease:
            print(lease.state)

    in_a_child(work)
    in_a_child(work)
    with lock: print("here, too")
    try:
        zklock.Mutex(PLAIN, path).acquire()
    except zklock.AuthFailed:
        print("others are shut out")
            """,
            server.hosts,
            path,
        )
    expected = ["held", "child 0", "held", "child 0", "here, too", "others are shut out"]
    assert done.stdout.splitlines() == expected, done


def test_a_client_that_connected_belongs_to_its_process_and_says_so(hosts: str, path: str) -> None:
    done = scripts.run(
        FORK
        + """
    client = zklock.Client(hosts)

    def work():
        print(client.state, "forked" in repr(client))
        try:
            zklock.Mutex(client, path).acquire()
        except zklock.Forked as error:
            print(error.code)

    in_a_child(work)
    print(client.state)
        """,
        hosts,
        path,
    )
    assert done.stdout.splitlines() == ["forked True", "FORKED", "child 0", "connected"], done


def test_locks_of_one_client_are_one_lock(hosts: str, path: str) -> None:
    client = zklock.Client(hosts, connect=False)
    with zklock.Mutex(client, path), zklock.Mutex(client, path) as again:
        assert again.state == "held"
    # Two clients stay separate, even with equal options.
    with zklock.Mutex(client, path):
        assert not zklock.Mutex(zklock.Client(hosts, connect=False), path).acquire(blocking=False)
    with pytest.raises(zklock.BadArgument, match="two clients"):
        zklock.MultiLock([zklock.Mutex(client, path), zklock.Mutex(zklock.Client(hosts), path)])
    assert zklock.MultiLock([zklock.Mutex(client, path), zklock.Mutex(client, path)]).paths == [path]


def test_without_hosts_the_environment_decides(
    hosts: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZKLOCK_HOSTS", hosts)
    for lock in (
        zklock.Mutex(None, path),
        zklock.ReadWriteLock(None, path + "-2").write_lock,
        zklock.Semaphore(None, path + "-3", 2),
    ):
        assert hosts in repr(lock)
        with lock as lease:
            assert lease.state == "held"
    assert hosts in repr(aio.Mutex(None, path))
