"""What the end of a scope says when the lock was lost inside it."""

from __future__ import annotations

from contextlib import AbstractContextManager

import pytest
from harness.observer import Observer

import zklock


def fail_after_loss(
    observer: Observer, scope: AbstractContextManager[zklock.Lease], error: BaseException | None = None
) -> None:
    """Lose the lock inside the scope, notice it, and raise the error; without one, what `check()` says."""
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


def test_the_loss_is_chained_to_what_the_body_raised(
    client: zklock.Client, observer: Observer, path: str
) -> None:
    raised = ValueError("of the body")
    with pytest.raises(zklock.LockLost) as caught:
        fail_after_loss(observer, zklock.Mutex(client, path).hold(timeout=5), raised)
    assert caught.value.__cause__ is raised


def test_a_loss_that_the_body_noticed_is_not_said_twice(
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
def test_what_ends_the_program_wins(
    client: zklock.Client, observer: Observer, path: str, kind: type[BaseException]
) -> None:
    with pytest.raises(kind):
        fail_after_loss(observer, zklock.Mutex(client, path), kind())


def test_a_released_lease_ends_its_scope_in_silence(
    client: zklock.Client, observer: Observer, path: str
) -> None:
    with zklock.Mutex(client, path) as lease:
        lease.release()
        observer.wait_queue(path, 0)
