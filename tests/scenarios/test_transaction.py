"""Tests of writes to ZooKeeper that are applied only while a lock is held."""

from __future__ import annotations

from harness.answers import now
from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import Start, assert_within, eventually, user
from harness.worker import Line, Pending, Worker


def transact(worker: Worker, *operations: Line, lease: str = "l") -> Pending:
    """Send a transaction under a lease."""
    return worker.send("transact", lease=lease, operations=list(operations))


def create(path: str, data: str = "") -> Line:
    """Return the operation that creates a node."""
    return {"op": "create", "path": path, "data": data}


def write(path: str, data: str, **version: int) -> Line:
    """Return the operation that writes a node's data."""
    return {"op": "set_data", "path": path, "data": data, **version}


def delete(path: str) -> Line:
    """Return the operation that deletes a node."""
    return {"op": "delete", "path": path}


def test_s209_all_or_nothing(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    worker = user(start, surface, server.hosts, path)
    worker.hold()
    state, draft = f"{path}-state", f"{path}-draft"
    transact(worker, create(state, "begun"), create(draft)).expect("done")
    assert observer.client.get(state)[0] == b"begun"
    transact(worker, write(state, "done", version=0), delete(draft)).expect("done")
    assert observer.client.get(state)[0] == b"done"
    assert not observer.exists(draft)
    # The second operation fails, so the first one is not applied either.
    for impossible in (
        write(state, "again", version=0),
        delete(f"{path}-none"),
        {"op": "check", "path": state, "version": 7},
        create(state),
    ):
        error = transact(worker, create(draft), impossible).error()
        assert error.code == "TRANSACTION_FAILED"
        assert str(impossible["path"]) in str(error)
        assert not observer.exists(draft)
    assert worker.check().expect("value")["value"] == "held"
    assert transact(worker, create("no path")).error().code == "BAD_ARGUMENT"
    worker.release()
    assert transact(worker, write(state, "late")).error().code == "NOT_HELD"
    assert observer.client.get(state)[0] == b"done"


def test_s210_a_holder_that_was_stopped_writes_nothing(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    stopped = user(start, surface, proxy.hosts, path, session_timeout=4)
    other = user(start, surface, server.hosts, path)
    stopped.hold()
    state = f"{path}-state"
    transact(stopped, create(state, "mine")).expect("done")
    waiting = other.acquire()
    observer.wait_queue(path, 2)
    stopped.presume_lost()
    # When the process resumes, no reply tells it about the loss. Only its clock shows that the lease is lost.
    proxy.black_hole()
    stopped.pause()
    waiting.expect("acquired")
    transact(other, write(state, "theirs")).expect("done")
    # The process resumes and still has its lease.
    late = transact(stopped, write(state, "stale"))
    resumed = now()
    stopped.resume()
    error = late.error()
    assert error.code == "LOCK_LOST"
    assert_within(error, resumed, 0)
    proxy.heal()
    assert observer.client.get(state)[0] == b"theirs"
    other.release()


def test_s210_a_holder_that_receives_no_replies_writes_nothing(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    holder = user(start, surface, proxy.hosts, path, session_timeout=30)
    other = user(start, surface, server.hosts, path)
    node = holder.hold()["node"]
    state = f"{path}-state"
    transact(holder, create(state, "mine")).expect("done")
    waiting = other.acquire()
    observer.wait_queue(path, 2)
    holder.presume_lost()
    # The holder's requests arrive at the server, but it receives no replies.
    proxy.black_hole("down")
    observer.delete(node)
    waiting.expect("acquired")
    transact(other, write(state, "theirs")).expect("done")
    assert holder.check().expect("value")["value"] == "held"
    proxy.reset()
    late = transact(holder, write(state, "stale"))
    # The server must decide before the holder learns of the loss.
    eventually(lambda: proxy.snapshot().requests["multi"] > 0, "the transaction is on its way")
    proxy.heal()
    assert late.error().code == "LOCK_LOST"
    assert observer.client.get(state)[0] == b"theirs"
    other.release()


def test_s211_a_transaction_without_a_reply(
    surface: str, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    worker = start(surface)
    worker.connect(proxy.hosts, session_timeout=30, connect_timeout=1)
    worker.lock(path)
    worker.hold()
    state = f"{path}-state"
    proxy.black_hole()
    asked = transact(worker, create(state))
    error = asked.error()
    assert error.code == "CONNECTION_FAILED"
    assert_within(error, asked.sent, 1)
    # The server receives the delayed request and applies it, although the client has reported an error.
    proxy.heal()
    eventually(lambda: observer.exists(state), "the transaction is carried out")
    worker.release()
