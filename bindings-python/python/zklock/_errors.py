"""The exceptions of zklock.

Each has a code that is the same in every language. Most also derive from a built-in exception.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from zklock._zklock import Contender, Deadlock, ServerReport, _LossReason, _TimeoutReason

#: The builtin exception for each problem of a server. All other problems are an `OSError`.
_BUILTIN: dict[str, type[OSError]] = {
    "refused": ConnectionRefusedError,
    "silent": TimeoutError,
    "closed": ConnectionResetError,
}


def cause(servers: tuple[ServerReport, ...]) -> Exception | None:
    """Return the servers' problems as an exception, for use as the cause of an error."""
    causes = [_BUILTIN.get(report.problem, OSError)(str(report)) for report in servers]
    if len(causes) > 1:
        return ExceptionGroup("the problems of the servers", causes)
    return causes[0] if causes else None


class Error(Exception):
    """Base class of all exceptions that zklock raises, except `TypeError`.

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

    The message names the contenders that block the lock. A program can read them from `blockers`:

    >>> try:
    ...     with taken.hold(timeout=0.5):
    ...         print("held")
    ... except zklock.LockTimeout as error:
    ...     print([contender.language for contender in error.blockers])
    ['python']

    If the client was not connected, `servers` gives the reasons, as with `ConnectionFailed`. A service can
    choose its response by `reason`: 409 if the lock is taken, and 503 otherwise.
    """

    code = "LOCK_TIMEOUT"

    _reason: _TimeoutReason = "unknown"

    @property
    def reason(self) -> _TimeoutReason:
        """The reason for the timeout, for use in a program.

        - `taken`: a server's answer during this acquire showed another contender that blocks it, or this
          client itself holds the lock.
        - `unreachable`: no server answered during the acquire.
        - `full`: the queue had as many waiters as `max_waiters` permits, so the acquire was refused
          immediately.
        - `unknown`: any other case, such as a connection that was lost during the acquire.

        An acquire that does not wait raises `ConnectionFailed` if no server answers.
        """
        return self._reason

    _blockers: tuple[Contender, ...] = ()

    @property
    def blockers(self) -> tuple[Contender, ...]:
        """The contenders that were known to block the lock when the timeout elapsed, in queue order.

        The client sends no request for this list. It contains at most the two nearest contenders ahead of the
        caller, and the contenders of this client that hold the lock or wait ahead of the caller.
        """
        return self._blockers

    _deadlock: Deadlock | None = None

    @property
    def deadlock(self) -> Deadlock | None:
        """A deadlock of two owners that was found shortly before the timeout, or None.

        The error message ends with a description of it. The search runs only if the caller holds other locks
        through the same client. None does not prove that there is no deadlock: `zklock doctor --deadlocks`
        finds all of them.
        """
        return self._deadlock

    _servers: tuple[ServerReport, ...] = ()

    @property
    def servers(self) -> tuple[ServerReport, ...]:
        """The problem of each server, if the client was not connected. Otherwise an empty tuple."""
        return self._servers


class LockLost(Error):
    """The lease is no longer valid. `reason` tells why.

    Possible reasons: no server replied in time, the session expired, the node was deleted, the lease was held
    for longer than `max_hold`, or the client was closed.

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
        """The reason for the loss, one of the values of `Lease.loss_reason`."""
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
    """A reader requested the write lock while it held the read lock, so it would wait for itself forever.

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

    `servers` has the problem of each server. `__cause__` has the same problems as exceptions: an `OSError`,
    or an `ExceptionGroup` if there are several servers.
    """

    code = "CONNECTION_FAILED"

    _servers: tuple[ServerReport, ...] = ()

    @property
    def servers(self) -> tuple[ServerReport, ...]:
        """The result of the last attempt at each server, in the order of `hosts`."""
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
    """An argument is out of range, or refers to an item that does not exist. The message names the argument.

    >>> try:
    ...     zklock.Mutex(client, "no/slash/in/front")
    ... except zklock.BadArgument as error:
    ...     print(error)
    path: ...

    zklock sent no request, or only a request that looked up the item.
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
    """The object was inherited through fork and belongs to the parent process. Create a new client here.

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
    """Another contender on this path uses a different number of permits. The message names both numbers.

    >>> with zklock.Semaphore(client, "/locks/pool", 5):
    ...     try:
    ...         zklock.Semaphore(client, "/locks/pool", 7).acquire()
    ...     except zklock.PermitsMismatch:
    ...         print("not 7")
    not 7
    """

    code = "PERMITS_MISMATCH"


class TransactionFailed(Error, RuntimeError):
    """One operation of a transaction cannot be executed, so none was executed.

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
        """The position of the failed operation in the transaction, from 0, or None.

        None if the server refused the check of the lock's node, which zklock adds to the caller's operations.
        """
        return self._index

    @property
    def path(self) -> str | None:
        """The path of the failed operation, as given."""
        return self._path


#: The exceptions by code, for the extension module.
BY_CODE: dict[str, type[Error]] = {error.code: error for error in Error.__subclasses__()}

# Tracebacks and pickles show the module from which programs import the exceptions.
for _error in (Error, *BY_CODE.values()):
    _error.__module__ = "zklock"
