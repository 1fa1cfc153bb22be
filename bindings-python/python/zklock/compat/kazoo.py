"""kazoo's locks on a zklock client: the same names, arguments and outcomes, and nodes that kazoo understands.

>>> from zklock.compat.kazoo import Lock, LockTimeout
>>> report = Lock(client, "/locks/report", "my-identifier")
>>> with report:
...     report.contenders()
['my-identifier']

kazoo itself is not needed. `Lock`, `ReadLock` and `WriteLock` exclude those of kazoo 2.11 at the same path.
`Semaphore` does **not** share anything with kazoo's: never let both use one path.
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
    """A wait for a lock or a semaphore was ended by its `cancel()`.

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
    """The holders of a semaphore have another number of leases in mind. kazoo raises `ValueError`.

    >>> with Semaphore(client, "/locks/pool", max_leases=5):
    ...     try:
    ...         Semaphore(client, "/locks/pool", max_leases=7).acquire()
    ...     except ValueError:
    ...         print("not 7")
    not 7
    """


class _Recipe:
    """What kazoo's locks and its semaphore have in common.

    An object holds the lock once, whichever thread acquired it, and one acquire of it is under way at a time.
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
        """Whether this object holds it. Unlike kazoo's, it is false once the lock is lost. Sends nothing."""
        return _valid(self._lease)

    @property
    def lease(self) -> Lease | None:
        """What was acquired last and not released: its fencing token, `check`, `on_lost`. Not in kazoo."""
        return self._lease

    def cancel(self) -> None:
        """End the acquire of this object that is under way: it leaves the queue and raises `CancelledError`.

        >>> waiting = Lock(client, "/locks/taken")
        >>> threading.Timer(0.1, waiting.cancel).start()
        >>> try:
        ...     waiting.acquire()
        ... except CancelledError:
        ...     print("cancelled")
        cancelled

        Does nothing if none is under way. In kazoo the next one fails then.
        """
        self.cancelled = True
        if (pending := self._pending) is not None:
            pending.abandon()

    def release(self) -> bool:
        """Release it, from any thread; False if this object does not hold it, or has lost it.

        >>> report = Lock(client, "/locks/report")
        >>> report.acquire(), report.release(), report.release()
        (True, True, False)

        Waits until the server has acknowledged it, for half the session time-out at most. It never fails
        because of the network.
        """
        lease, self._lease = self._lease, None
        if lease is None or self._pid != os.getpid():
            return False
        held = _valid(lease)
        try:
            lease.release()
        except NotHeld:
            # The program has released the lease itself, or in another thread.
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
            raise BadArgument(f"timeout: {timeout} is below zero; None waits as long as it takes")
        # Checks them, before anything waits.
        Timeout(blocking, timeout)
        if self._pid != os.getpid():
            # A forked child inherited what is its parent's, perhaps while another thread was at work in it.
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
            if not (blocking and self._wait(start_wait_lost(lease), _left(deadline))):
                return False
        # Each acquire has an owner of its own: one thread's locks exclude each other too.
        acquiring = start_acquire(self._lock, Owner(), Timeout(blocking, _left(deadline)))
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
            # Abandoned after it was granted, and so released.
            raise self._cancelled() from None
        self._lease = lease
        try:
            # As in kazoo, it stays held if the program drops this object: the callback refers to it.
            lease.on_lost(self._lost)
            pin(lease)
            self._granted()
        except BaseException:
            # Ctrl-C: the caller does not learn that it was acquired.
            self.release()
            raise
        return True

    def _wait(self, pending: Pending[Any], timeout: float | None) -> bool:
        """Wait for an outcome, up to `timeout` seconds; `cancel()` can end it meanwhile."""
        self._pending = pending
        try:
            # It may have come just before.
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
    """kazoo's `Lock`: exclusive, fair, and not reentrant.

    >>> report = Lock(client, "/locks/report", "my-identifier")
    >>> with report:
    ...     report.is_acquired
    True

    `client` is a `zklock.Client` or a hosts string, as for `zklock.Mutex`, `path` the lock's directory, and
    `identifier`, of up to 1 KiB, what `contenders()` shows. `extra_lock_patterns` is accepted, and not
    needed: every contender counts, whichever client its node is from. So, unlike kazoo's, this lock waits
    for a `ReadLock` too. Creating one sends nothing.

    One object holds the lock once, for all threads: any of them may release it, and the holder that acquires
    again waits for itself. What was acquired stays held until it is released or lost, or the client closed,
    even if nothing refers to the object.

    Raises `BadArgument` for a malformed argument.
    """

    def __init__(
        self,
        client: Client | str | None,
        path: str,
        identifier: object = None,
        extra_lock_patterns: Iterable[str] = (),
    ) -> None:
        # Every node with a sequence number counts anyway.
        del extra_lock_patterns
        super().__init__(self._on(client, path, _text(identifier)), client, path, identifier)

    @staticmethod
    def _on(client: Client | str | None, path: str, label: str) -> zklock.Lock:
        return Mutex(client, path, reentrant=False, label=label, naming="kazoo")

    @property
    def node(self) -> str | None:
        """The name of its node below the path while it has the lock, or None."""
        lease = self._lease
        return None if lease is None else lease.node.rpartition("/")[2]

    def acquire(
        self, blocking: bool = True, timeout: float | None = None, ephemeral: Literal[True] = True
    ) -> bool:
        """Acquire the lock, waiting up to `timeout` seconds; None waits as long as it takes.

        >>> waiting = Lock(client, "/locks/taken")
        >>> waiting.acquire(blocking=False)
        False
        >>> try:
        ...     waiting.acquire(timeout=0.1)
        ... except LockTimeout:
        ...     print("taken")
        taken

        Returns False if it is taken, with `blocking=False`, and if this very object holds it, for as long as
        it may wait. Otherwise raises `LockTimeout` when the time is up, also if no server is reachable.

        Raises `CancelledError` after `cancel()`; `BadArgument` for a time-out below zero, or together with
        `blocking=False`, and for `ephemeral=False`: locks that outlive their holder are not offered; and what
        `zklock.Lock.acquire` raises.
        """
        if not ephemeral:
            raise BadArgument("ephemeral: False is not offered; a lock ends with its session at the latest")
        return self._acquire(blocking, timeout)

    def contenders(self) -> list[str]:
        """The identifiers of all contenders in the order of the queue; empty strings where there is none.

        >>> report = Lock(client, "/locks/report", "my-identifier")
        >>> with report:
        ...     report.contenders()
        ['my-identifier']
        """
        return [_identifier(contender) for contender in self._lock.contenders()]


class WriteLock(Lock):
    """kazoo's `WriteLock`: held by one writer, and by no readers. Not reentrant.

    >>> with WriteLock(client, "/locks/catalogue"):
    ...     ReadLock(client, "/locks/catalogue").acquire(blocking=False)
    False

    The arguments and methods are those of `Lock`.
    """

    @staticmethod
    def _on(client: Client | str | None, path: str, label: str) -> zklock.Lock:
        return ReadWriteLock(client, path, label=label, naming="kazoo").write_lock


class ReadLock(Lock):
    """kazoo's `ReadLock`: held together with other readers, and not with a writer. Not reentrant.

    >>> with ReadLock(client, "/locks/catalogue"):
    ...     ReadLock(client, "/locks/catalogue").acquire(blocking=False)
    True

    The arguments and methods are those of `Lock`. It waits for a `Lock` too, and a `Lock` for it.
    """

    @staticmethod
    def _on(client: Client | str | None, path: str, label: str) -> zklock.Lock:
        return ReadWriteLock(client, path, label=label, naming="kazoo").read_lock


class Semaphore(_Recipe):
    """The interface of kazoo's `Semaphore`, on the nodes of `zklock.Semaphore`.

    >>> with Semaphore(client, "/locks/upstream", "worker-7", max_leases=5) as lease:
    ...     lease.state
    'held'

    **Never use a path that a kazoo `Semaphore` uses**: the two do not see each other's leases. It shares them
    with other programs on this module, with `zklock.Semaphore` and with Curator's `InterProcessSemaphoreV2`.
    If kazoo's has left its number there, a warning in the log says so, unless `client` is a hosts string.

    All holders and waiters must agree on `max_leases`; once there are none, the number is forgotten. An
    object takes one lease. As with `Lock`, it belongs to all threads, and stays held until it is released.

    Raises `BadArgument` for a malformed argument.
    """

    def __init__(
        self, client: Client | str | None, path: str, identifier: object = None, max_leases: int = 1
    ) -> None:
        lock = zklock.Semaphore(client, path, max_leases, label=_text(identifier))
        super().__init__(lock, client, path, identifier)
        self.max_leases = max_leases
        self._looked = False

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Acquire a lease, waiting up to `timeout` seconds; None waits as long as it takes.

        >>> semaphore = Semaphore(client, "/locks/upstream")
        >>> semaphore.acquire(), semaphore.acquire()
        (True, True)

        Returns True at once if this object has one, and False with `blocking=False` if there is none left.
        Raises `LockTimeout` when the time is up, `InconsistentLeases`, which is a `ValueError`, if the
        others have another number in mind, and what `Lock.acquire` raises.
        """
        return self._acquire(blocking, timeout)

    def lease_holders(self) -> list[str]:
        """The identifiers of those who have a lease, in no particular order; empty strings for no identifier.

        >>> semaphore = Semaphore(client, "/locks/upstream", "worker-7", max_leases=5)
        >>> with semaphore:
        ...     semaphore.lease_holders()
        ['worker-7']
        """
        contenders, leases = self._lock.contenders(), f"{self._lock.path}/leases/"
        queue = [contender for contender in contenders if contender.node.startswith(leases)]
        # Whoever is next has a node here already while it waits.
        return [_identifier(contender) for contender in queue[: self.max_leases]]

    def _acquire_alone(self, blocking: bool, deadline: float | None) -> bool:
        if self.is_acquired:
            return True
        try:
            return super()._acquire_alone(blocking, deadline)
        except PermitsMismatch as mismatch:
            raise InconsistentLeases(str(mismatch)) from mismatch

    def _granted(self) -> None:
        """Warn if a semaphore of kazoo's has left its number in the node: it may still be in use."""
        if self._looked or not isinstance(self.client, Client):
            return
        self._looked = True
        try:
            found = self.client.get(self.path)
        except Error:
            # What was acquired is acquired; what is wrong with the client will show.
            return
        if found is not None and found.data.isdigit():
            logging.getLogger("zklock").warning(
                "kazoo's Semaphore has used the path %r; it does not see the leases of this one, nor this one"
                " its: give this one a path of its own",
                self.path,
            )


def _text(identifier: object) -> str:
    # Empty, not None, which would stand for the client's label.
    return str(identifier or "")


def _valid(lease: Lease | None) -> bool:
    return lease is not None and lease.state in ("held", "suspended")


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _identifier(contender: Contender) -> str:
    if contender.host is not None:
        return contender.label or ""
    # kazoo's node: its data is the identifier.
    return contender.data.decode("utf-8", "replace")
