"""The attributes of exceptions, and exceptions that are pickled."""

from __future__ import annotations

import asyncio
import copy
import logging
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest
import trustme
from harness.imposters import imposter
from harness.steps import eventually

import zklock
from zklock import aio

SURROGATE = "half \ud83d"


def failed(hosts: str) -> zklock.ConnectionFailed:
    """Return the error of a connection to these servers."""
    with pytest.raises(zklock.ConnectionFailed) as caught:
        zklock.Client(hosts, connect_timeout=1.0)
    return caught.value


def test_one_server_is_the_cause() -> None:
    error = failed("127.0.0.1:1")
    [report] = error.servers
    assert (report.server, report.problem) == ("127.0.0.1:1", "refused")
    assert report.detail.startswith("refused the connection: ")
    assert isinstance(error.__cause__, ConnectionRefusedError)
    assert str(error.__cause__) == str(report)
    assert str(report) in str(error)


def test_several_servers_are_a_group() -> None:
    error = failed("127.0.0.1:1,-no-such-host.invalid:2181")
    assert [report.problem for report in error.servers] == ["refused", "unknown host"]
    assert isinstance(error.__cause__, ExceptionGroup)
    assert [type(cause) for cause in error.__cause__.exceptions] == [ConnectionRefusedError, OSError]


def test_asyncio_errors_have_the_same_attributes() -> None:
    async def main() -> None:
        with pytest.raises(zklock.ConnectionFailed) as caught:
            await aio.Client("127.0.0.1:1", connect_timeout=0.5).connect()
        assert caught.value.servers[0].problem == "refused"
        assert isinstance(caught.value.__cause__, ConnectionRefusedError)

    asyncio.run(main())


def test_the_log_tells_once_why_no_server_can_be_used(caplog: pytest.LogCaptureFixture) -> None:
    # The client tries all servers again within a second, with the same result.
    with caplog.at_level(logging.WARNING, "zklock"), imposter(None, b"HTTP/1.1 400\r\n\r\n") as web:
        with pytest.raises(zklock.ConnectionFailed):
            zklock.Client(f"127.0.0.1:1,{web}", connect_timeout=2.5)
        eventually(lambda: any(web in record.getMessage() for record in caplog.records), "a warning")
        events = [record.getMessage() for record in caplog.records if record.name == "zklock"]
    # Clients that other tests left to the garbage collector might still log something.
    logged = [event for event in events if web in event]
    assert len(logged) == 1, events
    assert logged[0].startswith("no server is usable; trying again")
    assert "127.0.0.1:1 refused the connection" in logged[0]
    assert f"{web} misbehaved" in logged[0]


def test_errors_and_their_attributes_can_be_pickled(
    client: zklock.Client, other: zklock.Client, path: str
) -> None:
    error = pickle.loads(pickle.dumps(failed("127.0.0.1:1")))
    assert [report.problem for report in error.servers] == ["refused"]
    with zklock.Mutex(other, path, label="nightly"):
        # Long enough to find the holder.
        with pytest.raises(zklock.LockTimeout) as caught, zklock.Mutex(client, path).hold(timeout=1):
            pass
        again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert (again.reason, copy.copy(caught.value).reason) == ("taken", "taken")
    assert again.blockers == caught.value.blockers
    assert again.blockers[0].label == "nightly"


def test_a_loss_has_its_reason(client: zklock.Client, path: str) -> None:
    lock = zklock.Mutex(client, path)
    lock.acquire()
    lease = lock.lease
    client.close()
    assert lease is not None
    with pytest.raises(zklock.LockLost) as caught:
        lease.check()
    assert caught.value.reason == lease.loss_reason == "client closed"


def test_a_transaction_says_which_operation_failed(client: zklock.Client, path: str) -> None:
    with zklock.Mutex(client, path) as lease:
        missing = f"{path}-missing"
        begun = lease.transaction().create(f"{path}-a").create(f"{path}-b", b"x").set_data(missing, b"y")
        with pytest.raises(zklock.TransactionFailed) as caught:
            begun.delete(f"{path}-c").commit()
        assert (caught.value.index, caught.value.path) == (2, missing)
        assert missing in str(caught.value)
        again = pickle.loads(pickle.dumps(caught.value))
        assert (again.index, again.path) == (2, missing)
        assert client.get(f"{path}-a") is None
    made = zklock.TransactionFailed("made")
    assert (made.index, made.path) == (None, None)


def test_errors_created_by_a_program_have_empty_attributes() -> None:
    assert zklock.LockTimeout("late").blockers == ()
    assert zklock.LockTimeout("late").servers == ()
    assert zklock.LockTimeout("late").reason == "unknown"
    assert zklock.ConnectionFailed("away").servers == ()
    assert zklock.LockLost("lost").reason is None


def test_the_granted_session_timeout_and_the_warning_if_it_is_shorter(
    hosts: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "zklock"), zklock.Client(hosts, session_timeout=3600) as client:
        assert 0 < client.session_timeout < 3600
        assert client.hosts == hosts
        with zklock.Mutex(client, path) as lease:
            assert lease.session_timeout == client.session_timeout
    shortened = "the server shortened the session timeout"
    eventually(
        lambda: any(record.getMessage().startswith(shortened) for record in caplog.records), "a warning"
    )


def test_hosts_are_complete(hosts: str) -> None:
    lazy = aio.Client("zk1, [::1]:7/app", session_timeout=7)
    assert lazy.hosts == "zk1:2181,[::1]:7/app"
    assert lazy.session_timeout == 7


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("path", lambda client, path: zklock.Mutex(client, f"{path}/{SURROGATE}")),
        ("path", lambda client, path: zklock.ReadWriteLock(client, f"{path}/{SURROGATE}")),
        ("path", lambda client, path: zklock.Semaphore(client, f"{path}/{SURROGATE}", 1)),
        ("shared_count", lambda client, path: zklock.Semaphore(client, path, shared_count=f"/{SURROGATE}")),
        ("node", lambda client, path: client.revoke(f"{path}/{SURROGATE}")),
        ("node", lambda client, path: client.break_lock(f"{path}/{SURROGATE}")),
        ("path", lambda client, _: client.get(f"/{SURROGATE}")),
        ("label", lambda client, path: zklock.Mutex(client, path, label=SURROGATE)),
        ("label", lambda client, path: zklock.ReadWriteLock(client, path, label=SURROGATE)),
        ("label", lambda client, path: zklock.Semaphore(client, path, 1, label=SURROGATE)),
        ("label", lambda *_: zklock.Client(label=SURROGATE, connect=False)),
        ("label", lambda *_: aio.Client(label=SURROGATE)),
        ("id", lambda client, path: zklock.Election(client, path, id=SURROGATE)),
        ("hosts", lambda *_: zklock.Client(SURROGATE)),
        ("hosts", lambda _, path: zklock.Mutex(SURROGATE, path)),
    ],
)
def test_a_lone_surrogate_is_refused_with_the_argument_name(
    client: zklock.Client, path: str, name: str, call: Callable[[zklock.Client, str], object]
) -> None:
    with pytest.raises(zklock.BadArgument) as caught:
        call(client, path)
    assert str(caught.value).startswith(f"{name}: contains a lone surrogate")
    assert "\\ud83d" in str(caught.value)


def test_a_lone_surrogate_in_a_transaction(client: zklock.Client, path: str) -> None:
    with (
        zklock.Mutex(client, path) as lease,
        pytest.raises(zklock.BadArgument, match=r"^path: contains a lone"),
    ):
        lease.transaction().create(f"/{SURROGATE}")


def test_hosts_of_the_environment_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZKLOCK_HOSTS", "zk1/app,zk2/app")
    with pytest.raises(zklock.BadArgument) as caught:
        zklock.Client()
    assert str(caught.value).endswith('in "zk1/app,zk2/app" (from the environment variable ZKLOCK_HOSTS)')
    assert 'write "zk1,zk2/app"' in str(caught.value)


@pytest.mark.parametrize("bad", ["ca", "cert", "key", "mismatch"])
def test_bad_certificates_are_refused_before_any_connection(tmp_path: Path, bad: str) -> None:
    authority = trustme.CA()
    one, other = authority.issue_cert("a@example.org"), authority.issue_cert("b@example.org")
    files = {name: tmp_path / f"{name}.pem" for name in ("ca", "cert", "key")}
    authority.cert_pem.write_to_path(str(files["ca"]))
    one.cert_chain_pems[0].write_to_path(str(files["cert"]))
    (other if bad == "mismatch" else one).private_key_pem.write_to_path(str(files["key"]))
    if bad != "mismatch":
        files[bad].write_text("-----BEGIN nothing")
    with pytest.raises(zklock.BadArgument) as caught:
        # No server listens at this address, so an attempt to connect would fail with another error.
        zklock.Client("127.0.0.1:1", tls=zklock.Tls(**files))
    assert str(caught.value).startswith(f"tls: {'key' if bad == 'mismatch' else bad}: ")
