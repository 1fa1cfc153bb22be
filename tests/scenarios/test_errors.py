"""Each error describes the failure, its cause, and the contenders that block the caller."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
import trustme

from harness.imposters import certified, imposter
from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import Start, await_loss, line_up
from harness.worker import Worker

TIMEOUT = 0.5
PATIENCE = 3.0
# A name must not begin with a hyphen, so the resolver refuses it locally, independent of DNS servers.
UNRESOLVABLE = "-no-such-host.invalid"


@pytest.fixture
def worker(surface: str, server: Standalone, start: Start) -> Worker:
    """Return a worker with a connected client."""
    made = start(surface)
    made.connect(server.hosts, label="billing")
    return made


@pytest.fixture
def silent() -> Iterator[str]:
    """Provide the address of a port that accepts connections and never replies."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def test_s303_what_happened_at_each_server(surface: str, silent: str, start: Start) -> None:
    with imposter(None, b"HTTP/1.1 400 Bad Request\r\n\r\n") as web:
        problems = {
            "127.0.0.1:1": "refused",
            "[::1]:1": "refused",
            f"{UNRESOLVABLE}:2181": "unknown host",
            web: "not zookeeper",
            silent: "silent",
        }
        hosts = ",".join(problems)
        error = (
            start(surface)
            .send(
                "connect",
                client="c",
                hosts=f"{hosts}/app",
                session_timeout=2 * PATIENCE,
                connect_timeout=2 * PATIENCE,
            )
            .error()
        )
    assert error.code == "CONNECTION_FAILED"
    assert dict(error.servers) == problems
    assert "127.0.0.1:1, [::1]:1 refused the connection" in error.message
    assert f"{UNRESOLVABLE}:2181 could not be resolved" in error.message
    assert f"{web} misbehaved" in error.message
    assert "web server" in error.message
    assert f"{silent} accepted a connection, but did not answer" in error.message


def test_s303_one_server_is_the_cause(surface: str, start: Start) -> None:
    asked = start(surface).send("connect", client="c", hosts="127.0.0.1:1", connect_timeout=TIMEOUT)
    error = asked.error()
    assert error.servers == [["127.0.0.1:1", "refused"]]
    assert "127.0.0.1:1 refused the connection" in error.cause


def test_s303_why_no_server_was_trusted(surface: str, tmp_path: Path, start: Start) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    contexts = {
        "certificate expired": certified(authority, expired=True),
        "certificate name": certified(authority, "elsewhere.example"),
        "certificate authority": certified(trustme.CA()),
    }
    with ExitStack() as imposters:
        problems = {imposters.enter_context(imposter(context)): why for why, context in contexts.items()}
        problems[imposters.enter_context(imposter(None, b"HTTP/1.1 400 \r\n"))] = "tls"
        hosts = ",".join(problems)
        tls = {"ca": str(tmp_path / "ca.pem")}
        error = (
            start(surface).send("connect", client="c", hosts=hosts, tls=tls, connect_timeout=PATIENCE).error()
        )
    assert error.code == "CONNECTION_FAILED"
    assert dict(error.servers) == problems
    assert "elsewhere.example" in error.message


def test_s340_who_holds_the_lock(
    worker: Worker, surface: str, server: Standalone, path: str, start: Start
) -> None:
    other = start(surface)
    other.connect(server.hosts, label="nightly")
    for one in (worker, other):
        one.lock(path)
    held = other.hold()
    error = worker.fail_to_enter(TIMEOUT)
    assert error.code == "LOCK_TIMEOUT"
    assert re.search(
        rf'"{path}" is taken: 1 still ahead in the queue: process {other.pid} on \S+ \(nightly\), '
        r"owner [0-9]+(?: \(a\))?, since 2\d{3}-\d\d-\d\dT\d\d:\d\d:\d\dZ, which holds it",
        error.message,
    )
    [blocker] = error.blockers
    assert (blocker["position"], blocker["pid"], blocker["label"]) == (0, other.pid, "nightly")
    assert blocker["node"] == held["node"]
    assert blocker["session"] == held["session"]
    # The client used its local knowledge and sent no read requests.
    requests = worker.call("stats", client="c")["value"]["requests"]
    assert requests["read"] == 0
    assert requests["verify"] == 0
    other.release()


def test_s340_the_nearest_of_many(
    worker: Worker, surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    others = [start(surface) for _ in range(4)]
    for number, other in enumerate(others):
        other.connect(server.hosts, label=f"n{number}")
        other.lock(path)
    others[0].hold()
    waiting = line_up(observer, path, others[1:])
    worker.lock(path)
    error = worker.fail_to_enter(TIMEOUT)
    assert "4 still ahead in the queue" in error.message
    assert [(one["position"], one["label"]) for one in error.blockers] == [(2, "n2"), (3, "n3")]
    assert "which holds it" not in error.message
    others[0].release()
    for other, pending in zip(others[1:], waiting, strict=True):
        pending.expect("acquired")
        other.release()


@pytest.mark.parametrize("kind", ["read", "write"])
def test_s340_readers_and_writers(
    worker: Worker, surface: str, server: Standalone, path: str, start: Start, kind: str
) -> None:
    other = start(surface)
    other.connect(server.hosts, label="nightly")
    other.lock(path, kind="write" if kind == "read" else "read")
    worker.lock(path, kind=kind)
    other.hold()
    error = worker.fail_to_enter(TIMEOUT)
    assert [one["label"] for one in error.blockers] == ["nightly"]
    assert "which holds it" in error.message
    other.release()


def test_s341_a_wait_for_the_same_client(worker: Worker, path: str) -> None:
    worker.lock(path, reentrant=False)
    held = worker.hold()
    error = worker.fail_to_enter(TIMEOUT)
    assert error.code == "LOCK_TIMEOUT"
    # In Node, scopes have no owner name.
    owner = r"another owner in this client \(billing\), number [0-9]+(?: \(a\))?, since 2"
    assert re.search(owner, error.message)
    assert "which holds it" in error.message
    [blocker] = error.blockers
    assert (blocker["position"], blocker["pid"], blocker["session"]) == (0, worker.pid, held["session"])
    worker.release()


def test_s341_another_client_of_the_process(worker: Worker, server: Standalone, path: str) -> None:
    worker.connect(server.hosts, client="second")
    worker.lock(path)
    worker.lock(path, lock="other", client="second")
    worker.hold(lock="other")
    error = worker.fail_to_enter(TIMEOUT)
    owner = r"another client in this process, owner [0-9]+(?: \(a\))?, since 2"
    assert re.search(owner, error.message)
    worker.release()


def test_s342_why_a_lease_was_lost(worker: Worker, observer: Observer, path: str) -> None:
    worker.lock(path)
    node = worker.hold()["node"]
    observer.delete(node)
    await_loss(worker)
    error = worker.check().error()
    assert error.code == "LOCK_LOST"
    assert error.reason == "node deleted"
    assert "node deleted" in error.message


@pytest.mark.parametrize(
    "name",
    ["emoji 🔒", "private \ue000", "private \uf8ff", "replaced \ufffd"],
    ids=["emoji", "e000", "f8ff", "fffd"],
)
def test_s343_characters_that_servers_refuse(worker: Worker, path: str, name: str) -> None:
    error = worker.send("lock", lock="m", client="c", path=f"{path}/{name}").error()
    assert error.code == "BAD_ARGUMENT"
    assert error.message.startswith("path: contains a character that ZooKeeper does not allow")


@pytest.mark.parametrize("name", ["größe", "日本", "e\u0301", "\uf900"])
def test_s343_all_other_characters_are_allowed(
    worker: Worker, observer: Observer, path: str, name: str
) -> None:
    worker.lock(f"{path}/{name}")
    worker.hold()
    assert len(observer.queue(f"{path}/{name}")) == 1
    worker.release()


@pytest.mark.parametrize(
    ("hosts", "problem"),
    [
        ("zk1/app,zk2/app", 'write "zk1:2181,zk2:2181/app"'),
        ("zk1:1/a,zk2:2/b", "the chroot must appear once, after the last server"),
        ("zk1,::1", 'an IPv6 address needs brackets, as in "[::1]"'),
        ("zk1,[fe80::1%eth0]:1", "an address with a zone ID is not supported"),
        ("zk1,zk2:0/app", 'a port must be 1 to 65535: "zk2:0"'),
        ("zk1/app/", "must not end with '/'"),
    ],
)
def test_s344_invalid_hosts(surface: str, start: Start, hosts: str, problem: str) -> None:
    error = start(surface).send("connect", client="c", hosts=hosts).error()
    assert error.code == "BAD_ARGUMENT"
    assert error.message.startswith("hosts: ")
    assert problem.replace(":2181", "") in error.message
    assert error.message.endswith(f'in "{hosts}"')


def test_s345_an_ipv6_address(surface: str, server: Standalone, path: str, start: Start) -> None:
    worker = start(surface)
    with Proxy(server.hosts, host="::1") as proxy:
        worker.connect(proxy.hosts)
        worker.lock(path)
        worker.hold()
        worker.release()


def test_s346_paths_as_given(
    worker: Worker, surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    observer.create(path)
    below = start(surface)
    below.connect(f"{server.hosts}{path}")
    for kind in ("mutex", "semaphore"):
        options: dict[str, Any] = {"permits": 1} if kind == "semaphore" else {}
        below.lock(f"/{kind}", kind=kind, **options)
        below.hold()
        error = below.fail_to_enter(TIMEOUT)
        assert f'"/{kind}"' in error.message
        assert path not in error.message
        below.release()
    missing = "/mutex/_c_x-lock-0000000009"
    error = below.send("revoke", client="c", node=missing).error()
    assert error.code == "NOT_HELD"
    assert f'"{missing}"' in error.message
