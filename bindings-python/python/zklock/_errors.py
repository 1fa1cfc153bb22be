"""The exceptions: each with a code, the same in every language, and mostly a builtin base beside `Error`."""

from __future__ import annotations

from typing import ClassVar


class Error(Exception):
    """What everything that zklock raises has in common, but for `TypeError`."""

    #: A stable name of the kind of error, the same in every language.
    code: ClassVar[str]


class LockTimeout(Error, TimeoutError):
    """The lock was not acquired before the deadline. The contender has left the queue."""

    code = "LOCK_TIMEOUT"


class LockLost(Error):
    """The lease proves nothing any more: its session ended, its node was deleted, or its client closed."""

    code = "LOCK_LOST"


class NotHeld(Error, RuntimeError):
    """There is nothing to release: the caller does not hold the lock, or released this lease before."""

    code = "NOT_HELD"


class UpgradeRefused(Error, RuntimeError):
    """A reader asked for the write lock while it reads; it would wait for itself for ever."""

    code = "UPGRADE_REFUSED"


class ConnectionFailed(Error, ConnectionError):
    """No server answered in time."""

    code = "CONNECTION_FAILED"


class AuthFailed(Error, PermissionError):
    """The server refused the credentials, or they do not permit the operation."""

    code = "AUTH_FAILED"


class BadArgument(Error, ValueError):
    """An argument is out of its range, or names what is not there. The message names the argument.

    No request was sent, but those that looked at what the argument names.
    """

    code = "BAD_ARGUMENT"


class ClientClosed(Error, RuntimeError):
    """The client has been closed."""

    code = "CLIENT_CLOSED"


class Forked(Error, RuntimeError):
    """The handle was inherited through fork and belongs to the parent. Make a new client in this process."""

    code = "FORKED"


class SequenceExhausted(Error):
    """The directory's sequence counter is near its end. Delete the idle directory, or use another path."""

    code = "SEQUENCE_EXHAUSTED"


class PermitsMismatch(Error):
    """Another contender on this path uses a different number of permits. The message has both."""

    code = "PERMITS_MISMATCH"


class TransactionFailed(Error, RuntimeError):
    """One of a transaction's operations cannot be carried out. None was."""

    code = "TRANSACTION_FAILED"


#: Where the extension module looks its exceptions up.
BY_CODE: dict[str, type[Error]] = {error.code: error for error in Error.__subclasses__()}

# Tracebacks and pickles name them where they are imported from.
for _error in (Error, *BY_CODE.values()):
    _error.__module__ = "zklock"
