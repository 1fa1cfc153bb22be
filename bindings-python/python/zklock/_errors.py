"""The exceptions: each has a code, the same in every language; most have a builtin base beside `Error`."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from zklock._zklock import Contender, Deadlock, ServerReport, _LossReason, _TimeoutReason

#: The builtin exception that fits a server's problem; `OSError` for all others.
_BUILTIN: dict[str, type[OSError]] = {
    "refused": ConnectionRefusedError,
    "silent": TimeoutError,
    "closed": ConnectionResetError,
}


def cause(servers: tuple[ServerReport, ...]) -> Exception | None:
    """What an error that is because of the servers has as its cause."""
    causes = [_BUILTIN.get(report.problem, OSError)(str(report)) for report in servers]
    if len(causes) > 1:
        return ExceptionGroup("what happened at the servers", causes)
    return causes[0] if causes else None


class Error(Exception):
    """The base of everything that zklock raises, except `TypeError`.

    >>> try:
    ...     zklock.Mutex(client, "no/slash/in/front")
    ... except zklock.Error as error:
    ...     error.code
    'BAD_ARGUMENT'
    """

    #: A stable name of the kind of error, the same in every language.
    code: ClassVar[str]


class LockTimeout(Error, TimeoutError):
    """The lock was not acquired before the deadline. The contender has left the queue.

    >>> try:
    ...     with taken.hold(timeout=0.1):
    ...         print("held")
    ... except zklock.LockTimeout:
    ...     print("taken")
    taken

    The message says who is in the way, and so does `blockers`, for programs:

    >>> try:
    ...     with taken.hold(timeout=0.5):
    ...         print("held")
    ... except zklock.LockTimeout as error:
    ...     print([contender.language for contender in error.blockers])
    ['python']

    If the client was not connected, `servers` says why, as with `ConnectionFailed`. A service answers by
    `reason`: 409 if the lock is taken, and 503 otherwise.
    """

    code = "LOCK_TIMEOUT"

    _reason: _TimeoutReason = "unknown"

    @property
    def reason(self) -> _TimeoutReason:
        """Why the time was not enough, to act upon.

        `taken`: an answer of a server during this attempt showed another contender in the way, or this
        client itself holds the lock. `unreachable`: no server answered anything since the attempt began.
        `full`: as many contenders waited as `max_waiters` permits, so that it was refused at once.
        `unknown`: anything else, such as a connection that was lost in between. An acquire that does not
        wait fails with `ConnectionFailed` if it is not answered.
        """
        return self._reason

    _blockers: tuple[Contender, ...] = ()

    @property
    def blockers(self) -> tuple[Contender, ...]:
        """The contenders in the way that were known when the time was up, in the order of the queue.

        Nobody was asked, so they are few: the nearest two, and whoever of this client holds or waits in
        front.
        """
        return self._blockers

    _deadlock: Deadlock | None = None

    @property
    def deadlock(self) -> Deadlock | None:
        """The deadlock of two owners that was found shortly before the time was up; the message ends with it.

        It is searched for only if the caller holds other locks through the same client. None proves nothing:
        `zklock doctor --deadlocks` finds all of them.
        """
        return self._deadlock

    _servers: tuple[ServerReport, ...] = ()

    @property
    def servers(self) -> tuple[ServerReport, ...]:
        """What happened at each server, if the client was not connected; else empty."""
        return self._servers


class LockLost(Error):
    """The lease is no longer valid; `reason` says why.

    Its term or its session ended, its node was deleted, it was held for longer than `max_hold`, or its
    client was closed.

    >>> lock.acquire()
    True
    >>> client.close()
    >>> try:
    ...     lock.lease.check()
    ... except zklock.LockLost as error:
    ...     print("lost:", error.reason)
    lost: client closed
    """

    code = "LOCK_LOST"

    _reason: _LossReason | None = None

    @property
    def reason(self) -> _LossReason | None:
        """Why, as `Lease.loss_reason` says it."""
        return self._reason


class NotHeld(Error, RuntimeError):
    """There is nothing to release: the caller does not hold the lock, or has already released this lease.

    >>> try:
    ...     lock.release()
    ... except zklock.NotHeld:
    ...     print("not held")
    not held
    """

    code = "NOT_HELD"


class UpgradeRefused(Error, RuntimeError):
    """A reader asked for the write lock while it reads: it would wait for itself for ever.

    >>> with catalogue.read_lock:
    ...     try:
    ...         catalogue.write_lock.acquire()
    ...     except zklock.UpgradeRefused:
    ...         print("release the read lock first")
    release the read lock first
    """

    code = "UPGRADE_REFUSED"


class ConnectionFailed(Error, ConnectionError):
    """No server answered in time.

    >>> try:
    ...     zklock.Client("127.0.0.1:1", connect_timeout=0.1)
    ... except zklock.ConnectionFailed as error:
    ...     print([report.problem for report in error.servers])
    ['refused']

    Its `servers` say what happened at each server, and so does its `__cause__`: an `OSError`, or an
    `ExceptionGroup` of them if there are several servers.
    """

    code = "CONNECTION_FAILED"

    _servers: tuple[ServerReport, ...] = ()

    @property
    def servers(self) -> tuple[ServerReport, ...]:
        """What happened at each server when it was last tried, in the order of `hosts`."""
        return self._servers


class AuthFailed(Error, PermissionError):
    """The server refused the credentials, or they do not permit the operation.

    >>> auth = [("digest", "me:secret")]
    >>> private = zklock.Client("zk1:2181,zk2:2181", auth=auth, acl="creator")
    >>> with zklock.Mutex(private, "/private/report"):
    ...     try:
    ...         zklock.Mutex(client, "/private/report").acquire(timeout=5)
    ...     except zklock.AuthFailed:
    ...         print("not permitted")
    not permitted
    """

    code = "AUTH_FAILED"


class BadArgument(Error, ValueError):
    """An argument is out of range, or names something that does not exist. The message names it.

    >>> try:
    ...     zklock.Mutex(client, "no/slash/in/front")
    ... except zklock.BadArgument as error:
    ...     print(error)
    path: ...

    No request was sent, except those that looked up what the argument names.
    """

    code = "BAD_ARGUMENT"


class ClientClosed(Error, RuntimeError):
    """The client has been closed.

    >>> client.close()
    >>> try:
    ...     lock.acquire()
    ... except zklock.ClientClosed:
    ...     print("closed")
    closed
    """

    code = "CLIENT_CLOSED"


class Forked(Error, RuntimeError):
    """The handle was inherited through fork and belongs to the parent. Make a new client in this process.

    >>> if os.fork() == 0:
    ...     try:
    ...         lock.acquire()
    ...     except zklock.Forked:
    ...         os._exit(0)
    ...     os._exit(1)
    >>> os.wait()[1]
    0
    """

    code = "FORKED"


class SequenceExhausted(Error):
    """The directory's sequence counter is near its end. Delete the idle directory, or use another path.

    >>> try:
    ...     lock.acquire()
    ... except zklock.SequenceExhausted:
    ...     lock = zklock.Mutex(client, "/locks/report-2")
    True
    """

    code = "SEQUENCE_EXHAUSTED"


class PermitsMismatch(Error):
    """Another contender on this path uses a different number of permits. The message has both.

    >>> with zklock.Semaphore(client, "/locks/pool", 5):
    ...     try:
    ...         zklock.Semaphore(client, "/locks/pool", 7).acquire()
    ...     except zklock.PermitsMismatch:
    ...         print("not 7")
    not 7
    """

    code = "PERMITS_MISMATCH"


class TransactionFailed(Error, RuntimeError):
    """One of a transaction's operations cannot be carried out. None was.

    >>> with lock as lease:
    ...     try:
    ...         lease.transaction().delete("/not/there").commit()
    ...     except zklock.TransactionFailed as error:
    ...         print(f"not written: operation {error.index} at {error.path}")
    not written: operation 0 at /not/there
    """

    code = "TRANSACTION_FAILED"

    _index: int | None = None
    _path: str | None = None

    @property
    def index(self) -> int | None:
        """The place of this operation in the transaction, from 0; None if it is none of them.

        It is none of them if the server refuses the check of the lock's node itself.
        """
        return self._index

    @property
    def path(self) -> str | None:
        """The path of this operation, as given."""
        return self._path


#: Where the extension module finds its exceptions.
BY_CODE: dict[str, type[Error]] = {error.code: error for error in Error.__subclasses__()}

# Tracebacks and pickles refer to them by the module from which they are imported.
for _error in (Error, *BY_CODE.values()):
    _error.__module__ = "zklock"
