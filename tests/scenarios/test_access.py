"""Tests of credentials and access control lists, and of clients without the required rights."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kazoo.exceptions import NoAuthError
from kazoo.security import ACL, make_acl, make_digest_acl

from harness.history import assert_clean
from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import Start, line_up, nothing_watched
from harness.worker import Worker

US = [("digest", "app:secret")]
OTHERS = [("digest", "app:guess")]


@pytest.fixture
def admin(server: Standalone) -> Iterator[Observer]:
    """Provide an observer with our credentials."""
    with Observer(server.hosts) as bystander:
        bystander.client.add_auth(*US[0])
        yield bystander


def user(start: Start, surface: str, hosts: str, path: str, auth: list[tuple[str, str]], acl: str) -> Worker:
    """Return a worker with credentials and a lock object `m` on the path."""
    worker = start(surface)
    worker.connect(hosts, auth=auth, acl=acl)
    worker.lock(path)
    return worker


def access(observer: Observer, path: str) -> list[ACL]:
    """Return the access control list of a node."""
    acls: list[ACL] = observer.client.get_acls(path)[0]
    return acls


def ours() -> list[ACL]:
    """Return the list that `creator` stands for with our credentials."""
    return [make_digest_acl("app", "secret", all=True)]


def test_s120_access_needs_our_credentials(
    surface: str, server: Standalone, admin: Observer, path: str, start: Start
) -> None:
    workers = [user(start, surface, server.hosts, path, US, "creator") for _ in range(2)]
    node = workers[0].hold()["node"]
    (waiting,) = line_up(admin, path, workers[1:])
    assert access(admin, node) == access(admin, path) == ours()
    workers[0].release()
    waiting.expect("acquired")
    workers[1].release()
    assert_clean([hold for worker in workers for hold in worker.holds()], at_least=2)
    admin.assert_free(path)


@pytest.mark.parametrize("auth", [[], OTHERS], ids=["without", "wrong"])
def test_s121_a_stranger_is_refused(
    surface: str,
    server: Standalone,
    proxy: Proxy,
    admin: Observer,
    path: str,
    start: Start,
    auth: list[tuple[str, str]],
) -> None:
    holder = user(start, surface, server.hosts, path, US, "creator")
    holder.hold()
    stranger = user(start, surface, proxy.hosts, path, auth, "open")
    proxy.reset()
    (node,) = admin.queue(path)
    asked = [
        {"cmd": "acquire", "lock": "m", "lease": "l", "owner": "a"},
        {"cmd": "try", "lock": "m", "lease": "l", "owner": "a"},
        {"cmd": "locked", "lock": "m"},
        {"cmd": "break", "client": "c", "node": f"{path}/{node}"},
    ]
    for command in asked:
        error = stranger.send(**command).error()
        assert error.code == "AUTH_FAILED", command
        assert path in str(error)
        assert "guess" not in str(error)
    # The client does not retry in a loop: it sent each request once.
    assert proxy.snapshot().total <= 2 * len(asked)
    assert len(admin.queue(path)) == 1
    nothing_watched(server, stranger, path)
    holder.release()


def test_s122_an_unknown_scheme(surface: str, server: Standalone, proxy: Proxy, start: Start) -> None:
    worker = start(surface)
    error = worker.send("connect", client="c", hosts=proxy.hosts, auth=[("nobody", "knows:secret")]).error()
    assert error.code == "AUTH_FAILED"
    assert "secret" not in str(error)
    # The client has opened only one connection, so it has not retried the refused request.
    assert proxy.next_number() == 2


def test_s123_credentials_outlive_connection_and_session(
    surface: str, proxy: Proxy, admin: Observer, path: str, start: Start
) -> None:
    worker = user(start, surface, proxy.hosts, path, US, "creator")
    first = worker.hold()
    proxy.cut()
    worker.release()
    worker.hold()
    worker.release()
    session = worker.sessions["c"]
    admin.kill_session(session, proxy.passwords[session])
    again = worker.hold()
    assert int(again["session"]) != int(first["session"]) == session
    assert access(admin, again["node"]) == ours()
    worker.release()
    admin.assert_free(path)


def test_s124_a_parent_without_access(
    surface: str, proxy: Proxy, admin: Observer, path: str, start: Start
) -> None:
    admin.create(path)
    admin.client.set_acls(path, [make_acl("world", "anyone", read=True), *ours()])
    worker = user(start, surface, proxy.hosts, path, OTHERS, "open")
    below = f"{path}/below"
    worker.lock(below, lock="below")
    proxy.reset()
    for lock in ("m", "below"):
        error = worker.acquire(lock=lock).error()
        assert error.code == "AUTH_FAILED"
        assert path in str(error)
    assert proxy.snapshot().total <= 8
    assert admin.children(path) == []
    # The client still works on other paths.
    worker.lock(f"{path}-free", lock="free")
    worker.hold("free", lock="free")
    worker.release("free")


def test_s125_a_list_of_rules(
    surface: str, server: Standalone, admin: Observer, path: str, start: Start
) -> None:
    hashed = make_digest_acl("app", "secret", all=True).id.id
    holder = user(start, surface, server.hosts, path, US, f"digest:{hashed}:cdrwa,world:anyone:r")
    holder.hold()
    stranger = user(start, surface, server.hosts, path, [], "open")
    assert stranger.call("locked", lock="m")["value"] is True
    assert stranger.acquire().error().code == "AUTH_FAILED"
    holder.release()
    admin.assert_free(path)


@pytest.mark.parametrize("acl", ["", "everybody", "world:anyone", "world:anyone:x"])
def test_s126_an_invalid_access_control_list(surface: str, proxy: Proxy, start: Start, acl: str) -> None:
    error = start(surface).send("connect", client="c", hosts=proxy.hosts, auth=US, acl=acl).error()
    assert error.code == "BAD_ARGUMENT"
    assert "acl" in str(error)
    assert "secret" not in str(error)
    assert proxy.next_number() == 1


def test_s127_one_queue_with_curator_under_an_acl(
    surface: str, server: Standalone, admin: Observer, path: str, start: Start
) -> None:
    mine = user(start, surface, server.hosts, path, US, "creator")
    curator = user(start, "curator", server.hosts, path, US, "creator")
    for first, second in ((mine, curator), (curator, mine)):
        first.hold()
        (waiting,) = line_up(admin, path, [second])
        first.release()
        waiting.expect("acquired")
        second.release()
    assert_clean(mine.holds() + curator.holds(), at_least=4)
    admin.assert_free(path)


def test_s323_other_users_can_have_locks_next_to_ours(
    surface: str, server: Standalone, admin: Observer, observer: Observer, path: str, start: Start
) -> None:
    mine = user(start, surface, server.hosts, f"{path}/team/a", US, "creator")
    mine.hold()
    for parent in (path, f"{path}/team"):
        assert access(admin, parent) == [*ours(), make_acl("world", "anyone", create=True, read=True)]
    stranger = user(start, surface, server.hosts, f"{path}/team/b", OTHERS, "creator")
    stranger.hold()
    # A client without our identity can neither delete our lock directory nor change the rights of its parent.
    mine.lock(f"{path}/team/empty", lock="empty")
    mine.hold("e", lock="empty")
    mine.release("e")
    with pytest.raises(NoAuthError):
        observer.client.delete(f"{path}/team/empty")
    with pytest.raises(NoAuthError):
        observer.client.set_acls(f"{path}/team", [make_acl("world", "anyone", all=True)])
    # The semaphore's directories and their parent belong to us.
    mine.lock(f"{path}/team/s", lock="s", kind="semaphore", permits=2)
    mine.hold("p", lock="s")
    assert access(admin, f"{path}/team/s") == access(admin, f"{path}/team/s/leases") == ours()
    for worker, leases in ((mine, ("p", "l")), (stranger, ("l",))):
        for lease in leases:
            worker.release(lease)


@pytest.mark.parametrize("given", ["creator", "open", "world:anyone:cdr"])
def test_s324_parents_with_their_own_acl(
    surface: str, given: str, server: Standalone, admin: Observer, path: str, start: Start
) -> None:
    lists = {
        "creator": ours(),
        "open": [make_acl("world", "anyone", all=True)],
        "world:anyone:cdr": [make_acl("world", "anyone", create=True, delete=True, read=True)],
    }
    worker = start(surface)
    worker.connect(server.hosts, auth=US, acl="creator", parent_acl=given)
    worker.lock(f"{path}/lock")
    worker.hold()
    assert access(admin, path) == lists[given]
    assert access(admin, f"{path}/lock") == ours()
    worker.release()


def test_s324_an_invalid_acl_for_parents(surface: str, proxy: Proxy, start: Start) -> None:
    options = {"hosts": proxy.hosts, "auth": US, "parent_acl": "everybody"}
    error = start(surface).send("connect", client="c", **options).error()
    assert error.code == "BAD_ARGUMENT"
    assert ("parentAcl" if surface == "node" else "parent_acl") in str(error)
    assert proxy.next_number() == 1


@pytest.mark.parametrize("shows", [US, [*US, *OTHERS], []], ids=["one", "two", "none"])
def test_s325_credentials_in_plain_text(
    surface: str, shows: list[tuple[str, str]], proxy: Proxy, path: str, start: Start
) -> None:
    worker = start(surface)
    worker.call("log")
    worker.connect(proxy.hosts, client="here", auth=shows)
    session = worker.connect(f"{proxy.hosts},-elsewhere.invalid:2181", auth=shows)
    worker.lock(path)
    worker.hold()
    worker.release()
    with Observer(proxy.upstream_hosts) as bystander:
        bystander.kill_session(session, proxy.passwords[session])
    assert int(worker.hold()["session"]) != session
    worker.release()
    reported = [line for line in worker.lines() if line["event"] == "log" and "unencrypted" in line["text"]]
    assert len(reported) == (1 if shows else 0), reported
    assert not any("secret" in text for line in worker.lines() for text in [str(line)])
