"""The end of a scope whose lock was lost inside it."""

from __future__ import annotations

import gc
import queue
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager

import pytest
from harness.observer import Observer

import zklock


def fail_after_loss(
    observer: Observer, scope: AbstractContextManager[zklock.Lease], error: BaseException | None = None
) -> None:
    """Lose the lock inside the scope, wait until the lease is lost, and raise `error` or call `check()`."""
    with scope as lease:
        assert lease.remaining > 0
        observer.delete(lease.node)
        while lease.state != "lost":
            pass
        assert lease.remaining == 0
        if error is not None:
            raise error
        lease.check()


def test_a_scope_ends_with_the_loss(client: zklock.Client, path: str) -> None:
    lock = zklock.Mutex(client, path)
    with pytest.raises(zklock.LockLost, match="client closed") as caught, lock:
        client.close()
    assert caught.value.__cause__ is None


def test_the_body_s_own_error_wins_with_the_loss_as_a_note(
    client: zklock.Client, observer: Observer, path: str
) -> None:
    raised = ValueError("of the body")
    with pytest.raises(ValueError, match="of the body") as caught:
        fail_after_loss(observer, zklock.Mutex(client, path).hold(timeout=5), raised)
    assert caught.value is raised
    assert caught.value.__cause__ is None
    [note] = caught.value.__notes__
    assert note.startswith("zklock.LockLost: ")
    assert path in note
    assert "deleted" in note


def test_scopes_within_each_other_add_one_note(client: zklock.Client, observer: Observer, path: str) -> None:
    lock, raised = zklock.Mutex(client, path), ValueError("of the body")
    with pytest.raises(ValueError, match="of the body"), lock:
        fail_after_loss(observer, lock, raised)
    assert len(raised.__notes__) == 1


def test_notes_that_cannot_be_added_to_do_not_hide_the_error(
    client: zklock.Client, observer: Observer, path: str
) -> None:
    raised = ValueError("of the body")
    raised.__notes__ = ()  # type: ignore[assignment]
    with pytest.raises(ValueError, match="of the body"):
        fail_after_loss(observer, zklock.Mutex(client, path), raised)


def test_an_error_without_a_loss_gets_no_note(client: zklock.Client, path: str) -> None:
    with pytest.raises(ValueError, match="of the body") as caught, zklock.Mutex(client, path):
        raise ValueError("of the body")
    assert not hasattr(caught.value, "__notes__")


def test_a_lost_leadership_is_a_note_too(client: zklock.Client, observer: Observer, path: str) -> None:
    raised = ValueError("of the body")
    with pytest.raises(ValueError, match="of the body"):
        fail_after_loss(observer, zklock.Election(client, path).lead(timeout=5), raised)
    assert [note.startswith("zklock.LockLost: ") for note in raised.__notes__] == [True]


def test_a_loss_that_the_body_noticed_is_reported_once(
    client: zklock.Client, observer: Observer, path: str
) -> None:
    lock = zklock.Mutex(client, path)
    with pytest.raises(zklock.LockLost) as caught:
        fail_after_loss(observer, lock)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    with lock:
        assert lock.owned()


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_exit_exception_of_the_body_propagates(
    client: zklock.Client, observer: Observer, path: str, kind: type[BaseException]
) -> None:
    with pytest.raises(kind) as caught:
        fail_after_loss(observer, zklock.Mutex(client, path), kind())
    assert len(caught.value.__notes__) == 1


def test_a_released_lease_ends_its_scope_without_an_error(
    client: zklock.Client, observer: Observer, path: str
) -> None:
    with zklock.Mutex(client, path) as lease:
        lease.release()
        observer.wait_queue(path, 0)


def held(lock: zklock.Mutex) -> zklock.Lease:
    """Acquire a lock, and return its lease."""
    assert lock.acquire()
    lease = lock.lease
    assert lease is not None
    return lease


def test_a_loss_is_reported_on_the_callback_thread(
    client: zklock.Client, observer: Observer, path: str
) -> None:
    lease = held(zklock.Mutex(client, path))
    received: queue.SimpleQueue[tuple[zklock.Lease, str]] = queue.SimpleQueue()

    def tell(lost: zklock.Lease) -> None:
        received.put((lost, threading.current_thread().name))

    lease.on_lost(tell)
    lease.on_lost(lambda _: received.put((lease, "cancelled"))).cancel()
    assert not lease.wait_lost(timeout=0)
    observer.delete(lease.node)
    assert lease.wait_lost(timeout=10)
    assert received.get(timeout=10) == (lease, "zklock-callback")
    assert lease.loss_reason == "node deleted"
    # Registered after the loss.
    lease.on_lost(tell)
    assert received.get(timeout=10) == (lease, "zklock-callback")
    assert received.empty()


def test_an_exception_of_a_callback_is_reported(
    client: zklock.Client, observer: Observer, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = held(zklock.Mutex(client, path))
    reported: queue.SimpleQueue[type[BaseException] | None] = queue.SimpleQueue()
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: reported.put(unraisable.exc_type))

    def fail(_: zklock.Lease) -> None:
        raise KeyError

    received: queue.SimpleQueue[zklock.Lease] = queue.SimpleQueue()
    lease.on_lost(fail)
    lease.on_lost(received.put)
    observer.delete(lease.node)
    assert reported.get(timeout=10) is KeyError
    assert received.get(timeout=10) is lease


def test_a_release_ends_the_wait_for_a_loss(client: zklock.Client, path: str) -> None:
    lease = held(zklock.Mutex(client, path))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lease.wait_lost)
        lease.release()
        assert waiting.result(timeout=10) is False
    assert lease.loss_reason is None


def test_waiting_for_a_loss_can_be_interrupted(client: zklock.Client, path: str) -> None:
    lease = held(zklock.Mutex(client, path))

    def wait() -> None:
        # Start the timer inside the `raises` block, so that even an early interrupt is caught.
        threading.Timer(0.1, signal.raise_signal, (signal.SIGINT,)).start()
        lease.wait_lost()

    with pytest.raises(KeyboardInterrupt):
        wait()
    lease.check()


@pytest.mark.parametrize("timeout", [-2, float("nan")])
def test_invalid_timeouts_are_refused(client: zklock.Client, path: str, timeout: float) -> None:
    with pytest.raises(zklock.BadArgument):
        held(zklock.Mutex(client, path)).wait_lost(timeout)


def test_a_lease_with_a_callback_is_released_when_nothing_refers_to_it(
    client: zklock.Client, observer: Observer, path: str
) -> None:
    lock = zklock.Mutex(client, path)
    held(lock).on_lost(print)
    assert len(observer.queue(path)) == 1
    del lock
    gc.collect()
    observer.wait_queue(path, 0)
