"""The interface of kazoo's locks, implemented by zklock. The locks use node names that kazoo understands.

>>> from zklock.compat.kazoo import Lock, LockTimeout
>>> report = Lock(client, "/locks/report", "my-identifier")
>>> with report:
...     report.contenders()
['my-identifier']

kazoo itself is not needed. `Lock`, `ReadLock` and `WriteLock` exclude the locks of kazoo 2.11 at the same
path. `Semaphore` does **not** see the leases of kazoo's semaphore: never use both with the same path.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterable
from threading import TIMEOUT_MAX
from types import TracebackType
from typing import Any, Literal

import zklock
from zklock import (
    BadArgument,
    Client,
    Contender,
    Error,
    Lease,
    LockTimeout,
    Mutex,
    NotHeld,
    PermitsMismatch,
    ReadWriteLock,
)
from zklock._zklock import Owner, Pending, Timeout, admit, pin, start_acquire, start_wait_lost

__all__ = [
    "CancelledError",
    "InconsistentLeases",
    "Lock",
    "LockTimeout",
    "ReadLock",
    "Semaphore",
    "WriteLock",
]


class CancelledError(Error):
    """A call of `cancel()` ended the wait for this lock or semaphore.

    >>> waiting = Lock(client, "/locks/taken")
    >>> threading.Timer(0.1, waiting.cancel).start()
    >>> try:
    ...     waiting.acquire()
    ... except CancelledError:
    ...     print("cancelled")
    cancelled
    """

    code = "CANCELLED"


class InconsistentLeases(PermitsMismatch, ValueError):  # noqa: N818
    """Other holders of a semaphore use a different number of leases. In kazoo, this is a `ValueError`.

    >>> with Semaphore(client, "/locks/pool", max_leases=5):
    ...     try:
    ...         Semaphore(client, "/locks/pool", max_leases=7).acquire()
    ...     except ValueError:
    ...         print("not 7")
    not 7
    """


class _Recipe:
    """The common part of kazoo's locks and its semaphore.

    All threads that use an object share its lock: the object holds the lock at most once, and has at most one
    acquire in progress.
    """

    client: Client | str | None
    path: str
    data: bytes
    cancelled: bool

    def __init__(self, lock: zklock.Lock, client: Client | str | None, path: str, identifier: object) -> None:
        self.client = client
        self.path = path
        self.data = _text(identifier).encode()
        self.cancelled = False
        self._lock = lock
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._one_at_a_time = threading.Lock()
        self._lease: Lease | None = None
        self._pending: Pending[Any] | None = None

    @property
    def is_acquired(self) -> bool:
        """Whether this object holds the lock. Unlike in kazoo, this is false once the lock is lost.

        Sends no request.
        """
        return _valid(self._lease)

    @property
    def lease(self) -> Lease | None:
        """The newest unreleased lease, with its fencing token, `check` and `on_lost`. Not part of kazoo."""
        return self._lease

    def cancel(self) -> None:
        """End this object's pending acquire, which leaves the queue and raises `CancelledError`.

        >>> waiting = Lock(client, "/locks/taken")
        >>> threading.Timer(0.1, waiting.cancel).start()
        >>> try:
        ...     waiting.acquire()
        ... except CancelledError:
        ...     print("cancelled")
        cancelled

        Do nothing if no acquire is in progress. In kazoo, the next acquire would fail in that case.
        """
        self.cancelled = True
        if (pending := self._pending) is not None:
            pending.abandon()

    def release(self) -> bool:
        """Release the lock, from any thread. Return False if this object does not hold it, or has lost it.

        >>> report = Lock(client, "/locks/report")
        >>> report.acquire(), report.release(), report.release()
        (True, True, False)

        Wait until the server has acknowledged the release, for at most half the session timeout. The call
        never fails because of the network.
        """
        lease, self._lease = self._lease, None
        if lease is None or self._pid != os.getpid():
            return False
        held = _valid(lease)
        try:
            lease.release()
        except NotHeld:
            # The program has released the lease itself, or another thread has.
            return False
        return held

    def __enter__(self) -> Lease:
        self._acquire(True, None)
        if (lease := self._lease) is None:
            raise NotHeld("another thread has released it already")
        return lease

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _acquire(self, blocking: bool, timeout: float | None) -> bool:
        if timeout is not None and timeout < 0:
            raise BadArgument(f"timeout: {timeout} is negative; None waits without a limit")
        # Check the arguments before any wait.
        Timeout(blocking, timeout)
        if self._pid != os.getpid():
            # Reset the state in a forked child, because another thread of the parent might have been changing
            # it.
            self._begin()
        deadline = None if timeout is None else time.monotonic() + timeout
        if not self._one_at_a_time.acquire(blocking, -1 if timeout is None else min(timeout, TIMEOUT_MAX)):
            return False
        try:
            self.cancelled = False
            return self._acquire_alone(blocking, deadline)
        finally:
            self._pending = None
            self._one_at_a_time.release()

    def _acquire_alone(self, blocking: bool, deadline: float | None) -> bool:
        admit()
        while (lease := self._lease) is not None and _valid(lease):
            if not (blocking and self._wait(start_wait_lost(lease), _remaining(deadline))):
                return False
        # Each acquire has a new owner, so that two locks of the same thread exclude each other.
        acquiring = start_acquire(self._lock, Owner(), Timeout(blocking, _remaining(deadline)))
        assert isinstance(acquiring, Pending), "a new owner holds nothing"
        self._wait(acquiring, None)
        try:
            lease = acquiring.take()
        except LockTimeout:
            if blocking:
                raise
            return False
        except RuntimeError as problem:
            if isinstance(problem, Error) or not self.cancelled:
                raise
            # `cancel()` abandoned the acquire after the lock was granted, which released the lock.
            raise self._cancelled() from None
        self._lease = lease
        try:
            # As in kazoo, the lock stays held if the program drops this object, because the callback refers
            # to the object.
            lease.on_lost(self._lost)
            pin(lease)
            self._granted()
        except BaseException:
            # Release the lock if an exception such as `KeyboardInterrupt` arrives here, because the caller
            # does not know that the lock was acquired.
            self.release()
            raise
        return True

    def _wait(self, pending: Pending[Any], timeout: float | None) -> bool:
        """Wait for an outcome, up to `timeout` seconds. `cancel()` can end the wait."""
        self._pending = pending
        try:
            # `cancel()` might have been called just before.
            if not self.cancelled and pending.wait(timeout):
                return True
        except BaseException:
            pending.abandon()
            raise
        if self.cancelled:
            pending.abandon()
            raise self._cancelled()
        return False

    def _cancelled(self) -> CancelledError:
        self.cancelled = False
        return CancelledError(f"{self.path}: the acquire was ended by cancel()")

    def _lost(self, lease: Lease) -> None:
        pass

    def _granted(self) -> None:
        pass


class Lock(_Recipe):
    """The interface of kazoo's `Lock`: exclusive, fair, and not reentrant.

    >>> report = Lock(client, "/locks/report", "my-identifier")
    >>> with report:
    ...     report.is_acquired
    True

    `client` is a `zklock.Client` or a hosts string, as for `zklock.Mutex`. `path` is the lock's directory.
    `contenders()` shows `identifier`, which can have up to 1 KiB. `extra_lock_patterns` is ignored: this lock
    waits for contenders with any node names. So, unlike kazoo's lock, it also waits for a `ReadLock`. The
    constructor sends nothing.

    An object can hold the lock only once, on behalf of all threads: a second acquire waits for the release of
    the first, even in the same thread. Any thread can release it. The lock stays held until it is released or
    lost, or the client is closed, even if nothing refers to the object.

    Raise `BadArgument` for a malformed argument.
    """

    def __init__(
        self,
        client: Client | str | None,
        path: str,
        identifier: object = None,
        extra_lock_patterns: Iterable[str] = (),
    ) -> None:
        # zklock does not need the patterns, because every node with a sequence number counts as a contender.
        del extra_lock_patterns
        super().__init__(self._on(client, path, _text(identifier)), client, path, identifier)

    @staticmethod
    def _on(client: Client | str | None, path: str, label: str) -> zklock.Lock:
        return Mutex(client, path, reentrant=False, label=label, naming="kazoo")

    @property
    def node(self) -> str | None:
        """The name of this object's node below the path while it holds the lock, or None."""
        lease = self._lease
        return None if lease is None else lease.node.rpartition("/")[2]

    def acquire(
        self, blocking: bool = True, timeout: float | None = None, ephemeral: Literal[True] = True
    ) -> bool:
        """Acquire the lock, waiting up to `timeout` seconds. None waits without a limit.

        >>> waiting = Lock(client, "/locks/taken")
        >>> waiting.acquire(blocking=False)
        False
        >>> try:
        ...     waiting.acquire(timeout=0.1)
        ... except LockTimeout:
        ...     print("taken")
        taken

        With `blocking=False`, return False if the lock is taken. When the timeout elapses, return False if
        this same object holds the lock, and raise `LockTimeout` otherwise, even if no server is reachable.

        Raise `CancelledError` after `cancel()`. Raise `BadArgument` for a timeout below zero, for a timeout
        together with `blocking=False`, and for `ephemeral=False`: zklock has no locks that outlive their
        holder. Raise the exceptions of `zklock.Lock.acquire`.
        """
        if not ephemeral:
            raise BadArgument(
                "ephemeral: False is not supported; a lock is released with its session at the latest"
            )
        return self._acquire(blocking, timeout)

    def contenders(self) -> list[str]:
        """Return the identifiers of all contenders, in queue order, or `""` for one without an identifier.

        >>> report = Lock(client, "/locks/report", "my-identifier")
        >>> with report:
        ...     report.contenders()
        ['my-identifier']
        """
        return [_identifier(contender) for contender in self._lock.contenders()]


class WriteLock(Lock):
    """The interface of kazoo's `WriteLock`: one writer holds it, without readers. Not reentrant.

    >>> with WriteLock(client, "/locks/catalogue"):
    ...     ReadLock(client, "/locks/catalogue").acquire(blocking=False)
    False

    See `Lock` for the arguments and methods.
    """

    @staticmethod
    def _on(client: Client | str | None, path: str, label: str) -> zklock.Lock:
        return ReadWriteLock(client, path, label=label, naming="kazoo").write_lock


class ReadLock(Lock):
    """The interface of kazoo's `ReadLock`: several readers can hold it together. Not reentrant.

    >>> with ReadLock(client, "/locks/catalogue"):
    ...     ReadLock(client, "/locks/catalogue").acquire(blocking=False)
    True

    See `Lock` for the arguments and methods. A `ReadLock` also waits for a `Lock`, and a `Lock` for a
    `ReadLock`.
    """

    @staticmethod
    def _on(client: Client | str | None, path: str, label: str) -> zklock.Lock:
        return ReadWriteLock(client, path, label=label, naming="kazoo").read_lock


class Semaphore(_Recipe):
    """The interface of kazoo's `Semaphore`, on the nodes of `zklock.Semaphore`.

    >>> with Semaphore(client, "/locks/upstream", "worker-7", max_leases=5) as lease:
    ...     lease.state
    'held'

    **Never use a path that a kazoo `Semaphore` uses**: the two do not see each other's leases. This class
    shares its leases with `zklock.Semaphore` and with Curator's `InterProcessSemaphoreV2`. A kazoo semaphore
    writes its number of leases into the node at the path. If this class finds such a number, it logs a
    warning, unless `client` is a hosts string.

    All holders and waiters must agree on `max_leases`. When no holder or waiter is left, another number can
    be used. An object takes one lease. As with `Lock`, the lease belongs to all threads, and stays held until
    it is released.

    Raise `BadArgument` for a malformed argument.
    """

    def __init__(
        self, client: Client | str | None, path: str, identifier: object = None, max_leases: int = 1
    ) -> None:
        lock = zklock.Semaphore(client, path, max_leases, label=_text(identifier))
        super().__init__(lock, client, path, identifier)
        self.max_leases = max_leases
        self._checked_node = False

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Acquire a lease, waiting up to `timeout` seconds. None waits without a limit.

        >>> semaphore = Semaphore(client, "/locks/upstream")
        >>> semaphore.acquire(), semaphore.acquire()
        (True, True)

        Return True immediately if this object already has a lease. With `blocking=False`, return False if no
        lease is free. Raise `LockTimeout` when the timeout elapses. Raise `InconsistentLeases`, which is a
        `ValueError`, if other holders use a different `max_leases`. Raise the exceptions of `Lock.acquire`.
        """
        return self._acquire(blocking, timeout)

    def lease_holders(self) -> list[str]:
        """Return the identifiers of the lease holders, in any order, or `""` for one without an identifier.

        >>> semaphore = Semaphore(client, "/locks/upstream", "worker-7", max_leases=5)
        >>> with semaphore:
        ...     semaphore.lease_holders()
        ['worker-7']
        """
        contenders, leases = self._lock.contenders(), f"{self._lock.path}/leases/"
        queue = [contender for contender in contenders if contender.node.startswith(leases)]
        # The first waiter in the queue already has a node here too.
        return [_identifier(contender) for contender in queue[: self.max_leases]]

    def _acquire_alone(self, blocking: bool, deadline: float | None) -> bool:
        if self.is_acquired:
            return True
        try:
            return super()._acquire_alone(blocking, deadline)
        except PermitsMismatch as mismatch:
            raise InconsistentLeases(str(mismatch)) from mismatch

    def _granted(self) -> None:
        """Warn if a kazoo semaphore has written its number of leases into the node, because that semaphore
        might still be in use.
        """
        if self._checked_node or not isinstance(self.client, Client):
            return
        self._checked_node = True
        try:
            found = self.client.get(self.path)
        except Error:
            # Ignore the failure: the lease is acquired, and if the client is unusable, other calls will
            # report it.
            return
        if found is not None and found.data.isdigit():
            logging.getLogger("zklock").warning(
                "kazoo's Semaphore has used the path %r; the two semaphores do not see each other's leases:"
                " use a different path for this one",
                self.path,
            )


def _text(identifier: object) -> str:
    # Return an empty string if there is no identifier, because None would select the client's label.
    return str(identifier or "")


def _valid(lease: Lease | None) -> bool:
    return lease is not None and lease.state in ("held", "suspended")


def _remaining(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _identifier(contender: Contender) -> str:
    if contender.host is not None:
        return contender.label or ""
    # The data of a node that kazoo created is the identifier.
    return contender.data.decode("utf-8", "replace")
