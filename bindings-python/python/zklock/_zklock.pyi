"""The extension module. The package `zklock` exports its public items. Only `zklock.aio` uses the others."""

from asyncio import AbstractEventLoop
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Sequence
from contextvars import Context
from os import PathLike
from types import GenericAlias, TracebackType
from typing import (
    Any,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    Self,
    TypeAlias,
    TypeVar,
    final,
    type_check_only,
)

from typing_extensions import disjoint_base

_T = TypeVar("_T")
_P = ParamSpec("_P")
_R = TypeVar("_R")

@type_check_only
class _HasFileno(Protocol):
    def fileno(self) -> int: ...

__all__ = [
    "Acquirable",
    "Candidate",
    "Client",
    "ClientOptions",
    "Contender",
    "Deadlock",
    "Election",
    "Health",
    "Histogram",
    "Hold",
    "HoldReport",
    "Lead",
    "Leaders",
    "Leadership",
    "Lease",
    "Leases",
    "Leaving",
    "Level",
    "Lock",
    "MultiLock",
    "Mutex",
    "NodeData",
    "Notice",
    "NotifyEventLoop",
    "Owner",
    "OwnerInfo",
    "OwnerReport",
    "Pending",
    "ReadWriteLock",
    "ReleaseTimeout",
    "Rounds",
    "SavedLevels",
    "Scopes",
    "Semaphore",
    "Server",
    "ServerReport",
    "Site",
    "Slot",
    "Stats",
    "Timeout",
    "Tls",
    "Transaction",
    "Turn",
    "WaitReport",
    "__version__",
    "admit",
    "begin_turn",
    "close_on_signals",
    "dump",
    "dump_on",
    "keep",
    "lazy_client",
    "leave",
    "newest",
    "next_callback",
    "next_events",
    "observe",
    "owned_by",
    "pin",
    "push",
    "release_newest",
    "report_unraisable",
    "shutdown",
    "start_acquire",
    "start_acquire_many",
    "start_break_lock",
    "start_campaign",
    "start_candidates",
    "start_close",
    "start_commit",
    "start_connect",
    "start_contenders",
    "start_get",
    "start_leader",
    "start_locked",
    "start_next_leader",
    "start_release",
    "start_revoke",
    "start_set_shared_count",
    "start_turn",
    "start_wait_lost",
]

__version__: str

# Values of several properties. At run time they are strings.
_ClientState: TypeAlias = Literal["idle", "connecting", "connected", "suspended", "closed", "forked"]
_LeaseState: TypeAlias = Literal["held", "suspended", "lost", "released"]
_LockMode: TypeAlias = Literal["mutex", "read", "write", "permit", "leadership"]
_LossReason: TypeAlias = Literal[
    "term ended",
    "session expired",
    "node deleted",
    "held too long",
    "client closed",
    "inherited through fork",
]
_TimeoutReason: TypeAlias = Literal["taken", "unreachable", "unknown", "full"]

_ServerProblem: TypeAlias = Literal[
    "unknown host",
    "refused",
    "unreachable",
    "silent",
    "closed",
    "not serving",
    "read-only",
    "not zookeeper",
    "certificate name",
    "certificate expired",
    "certificate authority",
    "tls",
    "answered",
    "not tried",
]

@final
class Client:
    """A connection to a ZooKeeper ensemble. All locks created on the client share it.

    >>> with zklock.Client("zk1:2181,zk2:2181/chroot") as client:
    ...     lock = zklock.Mutex(client, "/locks/report")

    `hosts` names the servers: `host[:port]`, separated by commas, with an optional chroot at the end. The
    default is the environment variable `ZKLOCK_HOSTS`, or else `127.0.0.1:2181`. Times are in seconds. If the
    servers receive nothing from this process for `session_timeout`, they free its locks. Operators can see
    `label` in the data of the lock nodes, next to host, process and language. With `identify=False` the nodes
    contain none of this.

    `auth` is a list of credentials that the client sends to the servers. Each is a pair of scheme and
    credential, such as `("digest", "user:password")`. A server accepts any password of the scheme `digest`: a
    wrong password causes an error only when a node refuses access. `auth_file` is a file with one credential
    per line: `digest:USER:PASSWORD` or `sasl:USER:PASSWORD`. The client refuses a file that users other than
    its owner can access.

    `acl` sets the permissions of the nodes and lock directories that the client creates. `"open"`, the
    default, permits everything to everyone. `"creator"` permits everything to clients with the same
    credentials. Or give rules in the syntax of ZooKeeper's command line, such as
    `"digest:user:hash:cdrwa,world:anyone:r"`. `parent_acl` sets the permissions of the parents of lock
    directories. By default other clients can also read the parents and create nodes in them. A refused
    request raises `AuthFailed`.

    `sasl` is a user and a password for DIGEST-MD5. If a server refuses them, the client raises `AuthFailed`
    immediately. With `sasl`, the identity in the rules of an `acl` is `sasl:user`, not `digest:user:hash`.
    `tls` encrypts the connections. The client logs a warning if it sends credentials to another machine
    without encryption.

    Operators can set missing arguments through environment variables: `ZKLOCK_AUTH_FILE`, `ZKLOCK_ACL`,
    `ZKLOCK_PARENT_ACL`, `ZKLOCK_TLS_CA` (with `ZKLOCK_TLS_CERT` and `ZKLOCK_TLS_KEY`) and
    `ZKLOCK_SESSION_TIMEOUT` (`10s`, or a number of seconds; the default is 10 s). If any argument gives
    credentials, `ZKLOCK_AUTH_FILE` is ignored. An empty variable counts as unset.

    `max_frame` is the size of the largest reply that the client reads, in bytes. A listing needs up to 256
    bytes per name. If a reply is larger, only its request fails: a lock directory whose listing exceeds
    `max_frame` cannot be locked or inspected.

    The constructor connects. It raises `ConnectionFailed` if no server answers within `connect_timeout`. It
    raises `BadArgument` for a malformed argument, before it sends anything.

    The client closes when nothing uses it any more, and when the process exits. A child process that inherits
    the client through fork must create its own: the inherited one raises `Forked`.

    With `connect=False` the constructor sends nothing. The client connects on first use, separately in each
    process. So a module can create such a client and its locks before a server forks its workers, and they
    work in each worker. A lease still belongs to the process that acquired it.
    """

    def __new__(
        cls,
        hosts: str | None = None,
        *,
        session_timeout: float | None = None,
        connect_timeout: float = 10.0,
        auth: Sequence[tuple[str, str | bytes]] | None = None,
        auth_file: str | PathLike[str] | None = None,
        acl: str | None = None,
        parent_acl: str | None = None,
        sasl: tuple[str, str] | None = None,
        tls: Tls | None = None,
        label: str | None = None,
        identify: bool = True,
        max_frame: int = 16777216,
        connect: bool = True,
    ) -> Self: ...
    def connect(self) -> Self:
        """Wait until there is a session, and return the client.

        Use this method for a client that was created with `connect=False`.

        >>> client = zklock.Client("zk1:2181,zk2:2181", connect=False).connect()

        Raise `ConnectionFailed` if no server answers within `connect_timeout`, and `AuthFailed` if the
        servers refuse the credentials.
        """

    @property
    def state(self) -> _ClientState:
        """One of `connecting`, `connected`, `suspended` and `closed`.

        A suspended client is disconnected, but its session might survive. With `connect=False` the state is
        `idle` before the first use. In a forked child of the process that owns the client, it is `forked`.
        """

    @property
    def session_id(self) -> int:
        """The current ZooKeeper session."""

    @property
    def session_timeout(self) -> float:
        """The session timeout in seconds: the requested timeout until a server has granted one.

        If the server receives nothing from this process for that time, it frees the process's locks.
        """

    @property
    def hosts(self) -> str:
        """The servers and the chroot, as a connect string in which every server has its port."""

    def on_state(self, callback: Callable[[_ClientState], object]) -> Notice:
        """Call `callback` with the new state at each change, until the client is `closed`.

        >>> notice = client.on_state(lambda state: print("now", state))

        The callback reports the state of the connection. To learn that a lock was lost, use `Lease.on_lost`,
        which also describes how callbacks are called.
        """

    def stats(self) -> Stats:
        """Return the statistics of the client since it was created.

        >>> client.stats().acquisitions
        0

        Send no request. This also works for a closed client.
        """

    def health(self) -> Health:
        """Return the current state of the client, with its waiters and holds.

        >>> client.health().state
        'connected'

        This is for health checks, and to find out why a program hangs. It sends no request and waits for no
        server. It also works for a client that is closed, disconnected, not yet connected or inherited
        through fork.
        """

    def revoke(self, node: str) -> None:
        """Ask a contender to give up its lock, as Curator's `Revoker` does.

        >>> with lock as lease:
        ...     client.revoke(lease.node)

        `node` is the full path of the contender's node below the client's chroot: `Contender.node` or
        `Lease.node`. A holder that listens, for example with `Lease.on_revoke`, receives the request, and can
        ignore it.

        Raise `NotHeld` if there is no such node, `BadArgument` if it is not a contender's node, `AuthFailed`,
        and `ConnectionFailed`.
        """

    def break_lock(self, node: str) -> None:
        """Take away a contender's lock or its position in the queue, by deleting its node. For operators.

        >>> for contender in lock.contenders():
        ...     if contender.host == "retired.example.org":
        ...         client.break_lock(contender.node)

        A connected holder is notified of its loss almost immediately, but the next waiter might receive the
        lock before that. Raise the same exceptions as `revoke`.
        """

    def get(self, path: str) -> NodeData | None:
        """Return the data and the version of the node at `path`, or None if there is no node.

        >>> client.get("/report/state") is None
        True

        `path` is absolute, below the client's chroot. This is a single read, and the server might lag behind
        other servers. Before you write data that depends on it, let a transaction check the version:

        >>> with lock as lease:
        ...     lease.transaction().create("/report", b"1").commit()
        ...     found = client.get("/report")
        ...     grown = found.data + b"2"
        ...     lease.transaction().set_data("/report", grown, found.version).commit()

        Raise `BadArgument` for a malformed path, `AuthFailed`, and `ConnectionFailed`.
        """
    def set_shared_count(self, path: str, count: int) -> None:
        """Set the number of permits of all semaphores whose `shared_count` is the node at `path`.

        >>> client.set_shared_count("/settings/upstream", 5)
        >>> shared = "/settings/upstream"
        >>> slots = zklock.Semaphore(client, "/locks/upstream", shared_count=shared)

        Create the node if it does not exist, in the format of Curator's `SharedCount`. Waiting semaphores see
        the change. A smaller number takes no permit away from a holder. Raise `BadArgument` for a malformed
        path or a number out of range, `AuthFailed`, and `ConnectionFailed`. After `ConnectionFailed`, the
        number may or may not have been set.
        """
    def close(self, drain: float | None = None) -> None:
        """Close the client: its leases are lost, its waiters fail, and its nodes are removed.

        >>> client.close()

        Wait until the server has acknowledged the close, for two seconds at most. A second call waits for the
        same close.

        With `drain`, the client first waits until it holds nothing, for at most that many seconds:

        >>> client.close(drain=10)

        Until then leases stay valid, and their owners can re-enter. Every other acquire raises `ClientClosed`
        immediately. That includes acquires that already wait, and acquires inside a running scope. If Ctrl-C
        interrupts the call, the client continues to drain. A second call can only shorten the drain:
        `close()` ends it.

        Do not drain inside a `with` block of a lock, not even in a signal handler: the drain would wait for
        the end of that block. Call it on another thread.
        """

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

@disjoint_base
class Level:
    """Base class of a lease and of several leases."""

    def check(self) -> None:
        """Check that the lock is held, without a request. For several leases, check all of them.

        >>> with lock as lease:
        ...     lease.check()

        Raise `LockLost` if it is lost, and `NotHeld` after a release.
        """

    def release(self, wait: bool = True, timeout: float | None = None) -> None:
        """Release this lease, from any thread. The last release of a hold frees the lock.

        >>> with lock as lease:
        ...     lease.release(wait=False)

        For several leases, release those that have not been released yet, the last one first.

        Wait up to `timeout` seconds until the server has acknowledged the release. The wait also ends when
        the current value of `remaining` has elapsed, which is at most half the session timeout. After either
        limit the call returns normally, and the release continues in the background. With `wait=False` the
        call returns once the release has been sent. A release never fails because of the network.

        If another client had already deleted the lock's node or closed the session, `state` is `lost`
        afterwards.

        Raise `NotHeld` on the second call. Raise `BadArgument` for a timeout below zero (except -1, which
        means no timeout), and for a timeout together with `wait=False`.
        """

@disjoint_base
class Lease(Level):
    """Proof of holding a lock, returned by a successful acquire.

    >>> with lock as lease:
    ...     write_report(lease.fencing_token)

    Every acquire returns a new lease. The leases that one owner has for one path share a node, token and
    state. The last release frees the lock. Keep a reference to the lease, or to its lock object, until you
    release it: a lease without references is released, with a `ResourceWarning` and a warning in the log.
    """

    @property
    def path(self) -> str:
        """The lock path, as given when the lock was created."""

    @property
    def node(self) -> str:
        """The full path of the lock's node, below the client's chroot."""

    @property
    def mode(self) -> _LockMode:
        """The mode of the hold: `mutex`, `read`, `write`, `permit` or `leadership`."""

    @property
    def fencing_token(self) -> int:
        """A number that increases with each new holder, over the lifetime of the ensemble.

        Pass it to the resource that the lock protects, and let the resource refuse smaller tokens: a process
        that was paused cannot know that it has lost the lock.
        """

    @property
    def handoffs(self) -> int:
        """The number of earlier holds on this lease's node.

        With the options `cohort` and `linger`, consecutive holds can share a node, and then have the same
        fencing token. The pair `(fencing_token, handoffs)` increases with each new holder. Without these
        options, `handoffs` is 0.
        """

    @property
    def session_id(self) -> int:
        """The ZooKeeper session that owns the node."""

    @property
    def session_timeout(self) -> float:
        """The session timeout that the server granted, in seconds.

        If the server receives nothing from the client for that time, it frees the lock.
        """

    @property
    def state(self) -> _LeaseState:
        """One of `held`, `suspended` (while the server is unreachable), `lost` (permanently) and `released`.

        A suspended lease is still valid, for `remaining` seconds. If the server answers in that time, the
        lease is held again. Otherwise it is lost. Sends no request.
        """

    @property
    def remaining(self) -> float:
        """The time in seconds for which no other client can get the lock, unless the lock's node is deleted.

        The time ends half a session timeout after the client sent the last write that the server
        acknowledged. Each further acknowledged write extends it. It is 0 if the lease is lost or released.
        Sends no request.
        """

    @property
    def loss_reason(self) -> _LossReason | None:
        """The reason for the loss, or None. Sends no request.

        The reason is `term ended`, `session expired`, `node deleted`, `held too long` (after `max_hold`) or
        `client closed`. In a forked child it is `inherited through fork`.
        """

    def on_lost(self, callback: Callable[[Lease], object]) -> Notice:
        """Call `callback` once with the lease when the lease is lost. If it is already lost, call it soon.

        >>> lost = threading.Event()
        >>> with lock as lease:
        ...     notice = lease.on_lost(lambda lease: lost.set())

        The callback runs on the thread `zklock-callback`. All callbacks share this thread, so a slow callback
        delays only other callbacks. An exception of a callback is passed to `sys.unraisablehook`. With
        gevent, each callback runs in a new greenlet. The callback is not called after the release of the
        lease. The callback should use its argument. If it referred to the variable `lease` instead, the lease
        could never be collected and released.
        """

    def on_revoke(self, callback: Callable[[Lease], object]) -> Notice:
        """Call `callback` once with the lease when another program asks the holder to give up the lock.

        >>> asked = threading.Event()
        >>> with lock as lease:
        ...     notice = lease.on_revoke(lambda lease: asked.set())

        `Client.revoke` and Curator's `Revoker` send such a request. A request that arrived before this call
        counts too. The lease stays held: the holder decides whether to release it. See `on_lost` for how
        callbacks are called.
        """

    def transaction(self) -> Transaction:
        """Create an empty transaction, without a request. The servers execute it only while the lock is held.

        >>> with lock as lease:
        ...     lease.transaction().set_data("/state", b"done").commit()
        """

    def wait_lost(self, timeout: float | None = -1) -> bool:
        """Wait until the lease is lost. Return False if it is released first, or after `timeout` seconds.

        >>> with lock as lease:
        ...     lease.wait_lost(timeout=0.1)
        False

        -1 and None wait without a limit. Raise `BadArgument` for any other timeout below zero.
        """

@final
class Election:
    """A candidate in the election at a path. It can also be used only to observe the leader.

    >>> election = zklock.Election(client, "/elections/scheduler", id="scheduler-1")
    >>> with election.lead() as leadership:
    ...     run_scheduler(leadership.fencing_token)

    Candidates lead in the order in which the server queued them. An election is an exclusive lock, with all
    guarantees of this library's locks. Services that use Curator's `LeaderLatch` take part in the same
    election. `client`, `path` and `options` are the same as for `Mutex`.

    `id` identifies the candidate to other clients. It is at most 1024 bytes long, can be empty, and need not
    be unique. The default is `host:pid`.

    An election object is one candidate, even if several threads campaign. Their campaigns share one node and
    one leadership. The leadership ends when the last of them resigns. The election continues to lead even if
    the program drops its `Leadership` objects without resigning. If the election object itself is dropped
    while it leads, it resigns, with a `ResourceWarning`. The constructor sends nothing.

    Raise `BadArgument` for a malformed argument.
    """

    def __new__(
        cls,
        client: Client | str | None,
        path: str,
        *,
        id: str | None = None,  # noqa: A002
        options: ClientOptions | None = None,
    ) -> Self: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    @property
    def path(self) -> str:
        """The path of the election."""

    @property
    def id(self) -> str:
        """The candidate's id."""

    @property
    def is_leader(self) -> bool:
        """Whether this candidate leads. Sends no request.

        It becomes false when the candidate resigns, or when its session might have expired. It is always
        false before another candidate can lead.
        """

    def campaign(self, timeout: float | None = -1, *, connect_timeout: float | None = None) -> Leadership:
        """Become a candidate, wait until it leads, and return the leadership.

        >>> leadership = election.campaign(timeout=5)
        >>> leadership.resign()

        `timeout` is in seconds, and covers connecting, queueing and waiting together. With -1 or None the
        call waits without a limit, even across a loss of the connection or the session. With 0 the candidate
        leads only if there is no other candidate. `connect_timeout` has the same meaning as in
        `Lock.acquire()`.

        Raise `LockTimeout` if it does not lead in time. Raise `BadArgument` if a kazoo contender is in the
        queue, because kazoo's elections do not see zklock's candidates. Otherwise raise the same exceptions
        as `Lock.acquire()`. Ctrl-C withdraws the candidate.
        """

    def lead(self, timeout: float | None = -1, *, connect_timeout: float | None = None) -> Lead:
        """Return a context manager that campaigns, and resigns at the end of the block.

        >>> with election.lead(timeout=5):
        ...     election.is_leader
        True

        `timeout` and `connect_timeout` are in seconds, as in `campaign()`. The end of the block raises
        `LockLost` if the leadership was lost meanwhile.
        """

    def run(self, body: Callable[[Leadership], object]) -> None:
        """Lead whenever possible: campaign, call `body` with the leadership, resign, and campaign again.

        >>> election.run(schedule)

        If the leadership is lost, `body` must return: it can detect the loss with `leadership.check()` or
        `on_lost`. Then the election campaigns again. If leaderships last less than five seconds, the election
        pauses between them so that other candidates can lead. The pauses become longer, up to six seconds.
        After `ConnectionFailed` it also pauses, and campaigns again.

        Return when the client is closed or drained. If `body` raises an exception, resign and raise it. The
        only exception that is not raised is the `LockLost` of this leadership: it leads to the next campaign.
        Also raise the other errors of `campaign()`. Ctrl-C ends the call.
        """

    def leader(self) -> Candidate | None:
        """Return the candidate that leads or is about to lead, or None if there is no candidate.

        >>> with election.lead():
        ...     election.leader().id
        'scheduler-1'

        This takes three round trips. The answer can be out of date when it arrives, so use the fencing token
        to protect actions that only the leader may perform. Raise the same exceptions as `Lock.locked()`.
        """

    def candidates(self) -> list[Candidate]:
        """Return the candidates, in the order in which they lead. Raise the same exceptions as `leader()`.

        >>> with election.lead():
        ...     [candidate.position for candidate in election.candidates()]
        [0]
        """

    def on_leader(self, callback: Callable[[Candidate | None], object]) -> Notice:
        """Call `callback` with the current leader (a `Candidate` or None), now and after each change.

        >>> notice = election.on_leader(lambda leader: print("leads:", leader))
        >>> notice.cancel()

        The caller need not be a candidate. The client watches only one node, regardless of the number of
        candidates. If the leader changes several times in quick succession, only the last change might be
        reported. The observation continues, and keeps the client open, until the notice is cancelled or the
        client is closed. See `Lease.on_lost` for how callbacks are called.
        """

@final
class Lead:
    """The result of `Election.lead()`. It can be entered more than once."""

    def __enter__(self) -> Leadership: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

@final
class Leadership(Lease):
    """The leadership that `Election.campaign()` returns: a `Lease` of the election's lock.

    >>> with election.lead() as leadership:
    ...     leadership.check()

    The election keeps a reference to the leadership until it is resigned or lost, so the program can drop its
    own.
    """

    def resign(self, wait: bool = True, timeout: float | None = None) -> None:
        """Let the next candidate lead. This is another name for `release()`.

        >>> with election.lead() as leadership:
        ...     leadership.resign()
        """

@final
class Candidate:
    """One candidate of an election, as found by `Election.candidates()`. Immutable.

    >>> with election.lead():
    ...     election.leader().position
    0
    """

    @property
    def position(self) -> int:
        """Position in the queue, from 0. The candidate at position 0 leads."""

    @property
    def id(self) -> str:
        """The candidate's id. Empty if it has none, if it exceeds 4 KiB, or if it cannot be read."""

    @property
    def node(self) -> str:
        """The full path of the node, below the client's chroot. It has the same form as `Lease.node`."""

    @property
    def session_id(self) -> int:
        """The ZooKeeper session that owns the node."""

    @property
    def fencing_token(self) -> int:
        """The fencing token of its leadership, now or once it leads."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class Rounds:
    """The state of `Election.run()`, which repeats rounds: a campaign, a leadership and a pause."""

    def __new__(cls, election: Election) -> Self: ...
    def are_over(self) -> bool:
        """Return whether the client is closed, so that no further campaign is possible."""

    def begin(self) -> None:
        """Record that a leadership has begun."""

    def end(self) -> float:
        """Record that the leadership is over. Return the seconds to pause before the next campaign."""

    def fail(self, failure: BaseException) -> float | None:
        """Return the seconds to pause after a failed campaign, or None if the client is closed.

        Raise the failure if the next campaign would fail in the same way.
        """

    def pause(self, seconds: float) -> None:
        """Wait `seconds` before the next campaign. Return earlier if the client is closed."""

    def start_pause(self, seconds: float) -> Pending[None]:
        """Start to wait before the next campaign."""

@final
class Leaders:
    """The current leader, followed by each change."""

@final
class Leases(Level):
    """The leases that an acquire of several locks or permits returns, in the order of acquisition.

    >>> with semaphore.acquire_many(3) as leases:
    ...     len(leases)
    3

    Each lease can be released separately. The end of a `with` block releases the remaining ones, and raises
    `LockLost` if one was lost. Leases without references are released, with a `ResourceWarning`.
    """

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Lease: ...
    def __iter__(self) -> Iterator[Lease]: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

@final
class NodeData:
    """The data of a node and its version, as read by `Client.get()`. Immutable.

    >>> with lock as lease:
    ...     lease.transaction().create("/report", b"draft").commit()
    >>> client.get("/report").version
    0
    """

    @property
    def data(self) -> bytes:
        """The data."""
    @property
    def version(self) -> int:
        """The number of times that the data was set. Pass it to a transaction as `version`."""
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class ClientOptions:
    """The settings of the client that a lock uses if it is created with a hosts string.

    >>> options = zklock.ClientOptions(session_timeout=5, label="reports")
    >>> lock = zklock.Mutex("zk1:2181,zk2:2181", "/locks/report", options=options)

    The arguments are those of `zklock.Client`, without `hosts` and `connect`. In each process, all locks with
    the same hosts and equal options share one client. The constructor reads files and environment variables,
    and sends nothing.

    Options can be pickled, and so can a lock that has them, unless they contain a password. In that case use
    `auth_file`, because only the name of that file is pickled.

    Raise `BadArgument` for a malformed argument.
    """

    def __new__(
        cls,
        *,
        session_timeout: float | None = None,
        connect_timeout: float = 10.0,
        auth: Sequence[tuple[str, str | bytes]] | None = None,
        auth_file: str | PathLike[str] | None = None,
        acl: str | None = None,
        parent_acl: str | None = None,
        sasl: tuple[str, str] | None = None,
        tls: Tls | None = None,
        label: str | None = None,
        identify: bool = True,
        max_frame: int = 16777216,
    ) -> Self: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Contender:
    """One contender in the queue of a lock, as returned by `Lock.contenders()`. Immutable.

    >>> with lock:
    ...     lock.contenders()[0].language
    'python'
    """

    @property
    def position(self) -> int:
        """Position in the queue, from 0. Position 0 holds the lock.

        Readers and holders of permits at later positions can hold the lock at the same time.
        """

    @property
    def node(self) -> str:
        """The full path of the node, below the client's chroot. It has the same form as `Lease.node`."""

    @property
    def reader(self) -> bool:
        """Whether the contender requests the read lock, which it can hold together with other readers."""

    @property
    def session_id(self) -> int:
        """The ZooKeeper session that owns the node."""

    @property
    def fencing_token(self) -> int:
        """The zxid that created the node.

        It is also the fencing token that the contender's lease has, or will have once it is granted. There is
        one exception: if a writer keeps only its read lock, it gets a new node, but its lease keeps the old
        token.
        """

    @property
    def host(self) -> str | None:
        """The host name of the contender, or None if zklock did not create the node.

        In that case, the properties that follow are also None.
        """

    @property
    def pid(self) -> int | None:
        """The process id of the contender."""

    @property
    def language(self) -> str | None:
        """The language of the contender's program: `python`, `node` or `rust`."""

    @property
    def label(self) -> str | None:
        """The label of the contender's lock or client, or None."""

    @property
    def since(self) -> float | None:
        """The time at which the contender joined the queue, by its own clock, in seconds since 1970."""

    @property
    def revoked(self) -> bool | None:
        """Whether the holder was asked to give up the lock, and has received that request."""

    @property
    def cohort(self) -> int | None:
        """The option `cohort` of its lock, or None.

        This is the maximum number of consecutive holds on the node before the next node in the queue gets the
        lock. The client's other waiters have no nodes, and so do not appear in the list of contenders.
        """

    @property
    def linger(self) -> float | None:
        """The option `linger` of its lock, in seconds, or None.

        The client can keep the node for this time after a release. The node itself does not show whether the
        lock is still held.
        """

    @property
    def owner(self) -> OwnerInfo | None:
        """The owner inside the contender's program, such as a thread or a task."""

    @property
    def data(self) -> bytes:
        """The node's data, unchanged, from any program. Empty if it was not read.

        The client does not read data that is longer than 4 KiB, or that it has no permission to read. Once 16
        MiB have been read for a listing, it reads no more data.
        """

    @property
    def data_length(self) -> int:
        """The size of the node's data in bytes, whether or not the data was read."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@final
class OwnerInfo:
    """The description of a contender's owner, such as a thread or task of its program. Immutable.

    >>> with lock:
    ...     lock.contenders()[0].owner.name
    'MainThread'
    """

    @property
    def number(self) -> int:
        """The number of the owner. It is unique in the owner's process, and never reused there."""

    @property
    def name(self) -> str | None:
        """The first 64 bytes of the owner's name, or None if it has no name."""

    @property
    def process(self) -> int:
        """A number that distinguishes processes with the same host name and process id, as in containers."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Deadlock:
    """Two owners that waited for each other, as reported by `LockTimeout.deadlock`. Immutable.

    >>> try:
    ...     with taken.hold(timeout=0.5):
    ...         print("held")
    ... except zklock.LockTimeout as error:
    ...     found = error.deadlock
    ...     if found:
    ...         print(f"take {found.held} and {found.waited} in one order")
    ...     else:
    ...         print("taken")
    taken
    """

    @property
    def held(self) -> str:
        """The path of the lock that the caller held and the other owner waited for."""

    @property
    def waited(self) -> str:
        """The path of the lock that the caller waited for."""

    @property
    def other(self) -> Contender:
        """The other owner's contender, ahead of the caller in the queue of `waited`."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

@disjoint_base
class Acquirable(Generic[_T]):
    """Base class of all locks: a single lock of any kind, or several locks acquired together.

    >>> isinstance(lock, zklock.Acquirable)
    True
    >>> isinstance(zklock.MultiLock([lock]), zklock.Acquirable)
    True

    `Lock` and `MultiLock` derive from it. Use it in type annotations: an acquire of an `Acquirable[Lease]`
    returns one lease.
    """

    def acquire(
        self, blocking: bool = True, timeout: float | None = -1, *, connect_timeout: float | None = None
    ) -> bool:
        """Acquire the lock for the calling thread. Return False only if the acquire timed out.

        >>> if lock.acquire(timeout=5):
        ...     lock.release()

        `timeout` is in seconds, and covers connecting, queueing and waiting together. With -1 or None the
        call waits without a limit, even across a connection loss. 0 is the same as `blocking=False`: the call
        does not queue for a lock that is taken.

        `connect_timeout`, in seconds, is for an acquire that does not wait: a server must answer within this
        time. It replaces the client's own `connect_timeout`.

        Other threads run while this one waits. Ctrl-C takes effect within 0.2 s, and the waiter leaves the
        queue.

        Raise:

        - `BadArgument` for any other negative timeout, for NaN, and for a timeout together with
          `blocking=False`;
        - `UpgradeRefused` for a write lock if the caller holds its read lock;
        - `LockTimeout` if the queue already has the number of waiters that `max_waiters` permits;
        - `ConnectionFailed` if no server was ever reached, or, without blocking, if none answers within
          `connect_timeout`;
        - `ClientClosed`, `AuthFailed`, `SequenceExhausted` and `Forked`.
        """

    def release(self, wait: bool = True, timeout: float | None = None) -> None:
        """Release the newest lease that the calling thread acquired through this object.

        >>> if lock.acquire(blocking=False):
        ...     lock.release()

        With `reentrant=False`, and for a semaphore, release the newest lease of this object, from any thread.

        Wait up to `timeout` seconds for the server's reply. See `Lease.release`. Raise `NotHeld` if there is
        nothing to release.
        """

    def hold(self, timeout: float | None = -1, *, connect_timeout: float | None = None) -> Hold[_T]:
        """Return a context manager that acquires within `timeout` seconds, or raises `LockTimeout`.

        >>> with lock.hold(timeout=5):
        ...     print("held")
        held

        `LockTimeout.reason` tells whether the lock was `taken` or the servers were `unreachable`. With a
        timeout of 0 the acquire does not wait: `LockTimeout` then always means that the lock is taken, and
        a server that does not answer causes `ConnectionFailed`. `connect_timeout` has the same meaning as in
        `acquire`.
        """

    def __class_getitem__(cls, item: Any, /) -> GenericAlias: ...
    def __call__(self, function: Callable[_P, _R], /) -> Callable[_P, _R]: ...
    def __enter__(self) -> _T: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

@disjoint_base
class Lock(Acquirable[Lease]):
    """A lock that can be acquired: a `Mutex`, a half of a `ReadWriteLock`, or a `Semaphore`.

    >>> with lock as lease:
    ...     write_report(lease.fencing_token)

    The *owner* of a lock is the thread that acquired it, or with gevent the greenlet. Only the owner can
    re-enter the lock. It must release the lock as often as it acquired it. Several owners can use the same
    lock object. If the object is dropped while it holds the lock, the lock is released, with a
    `ResourceWarning`. If an owner ends without releasing a lock that it acquired with `acquire()`, the lock
    stays held, and the same warning is shown.

    A lock is also a decorator: each call of the function runs in its own scope. `@lock.hold(timeout=5)`
    limits the wait.

    >>> @lock
    ... def rebuild_the_index():
    ...     return lock.owned()
    >>> rebuild_the_index()
    True

    `threading.Condition(lock)` works for the threads of one process: a notification does not reach other
    processes. A lock that was created with a hosts string can be pickled and copied: the result is another
    lock object for the same path. A lock that was created with a `Client` cannot.
    """

    def __reduce__(self) -> tuple[Any, ...]: ...
    @property
    def path(self) -> str:
        """The lock path."""

    @property
    def client(self) -> Client:
        """The client of the lock.

        >>> lock.client.state
        'connected'

        For a lock with a hosts string, this is the process's shared client for these hosts and options. It is
        created if it does not exist yet.
        """

    @property
    def lease(self) -> Lease | None:
        """The calling thread's newest unreleased lease of this object, or None.

        With `reentrant=False`, and for a semaphore, this is the newest lease that any thread acquired through
        this object.
        """

    def owned(self) -> bool:
        """Return whether the calling thread holds the lock, even through another lock object.

        >>> with lock:
        ...     lock.owned()
        True

        With `reentrant=False`, and for a semaphore, return whether any thread holds it through this object.
        The call sends no request.
        """

    def locked(self) -> bool:
        """Return whether any contender holds the lock or waits for it.

        >>> lock.locked()
        False

        For a semaphore, return whether no permit is free. This is a single read, and the state can change
        before the call returns. Raise `ConnectionFailed` if no server answers within the client's
        `connect_timeout`.
        """

    def contenders(self) -> list[Contender]:
        """Return the contenders for the lock, in queue order: holders first.

        >>> with lock:
        ...     lock.contenders()[0].language
        'python'

        The result has at most 100,000 contenders. It takes three round trips for up to 1,000 contenders, and
        two for each further 1,000. Raise the same exceptions as `locked()`.
        """

@final
class Mutex(Lock):
    """A fair, exclusive lock. Its queue is compatible with Curator's `InterProcessMutex`.

    >>> lock = zklock.Mutex(client, "/locks/report")
    >>> with lock as lease:
    ...     write_report(lease.fencing_token)

    `path` is absolute, below the client's chroot. Missing directories are created when needed. Two lock
    objects with the same client and path are the same lock. The constructor sends nothing.

    `client` can be a hosts string instead. The lock then uses the process's shared client for these hosts.
    This client is created at the first acquire and closed at the end of the process. None means the default
    hosts of `zklock.Client`. Such a lock also works after a fork. Its client has the settings in `options`,
    or else those from the environment. Locks with the same hosts and equal options share it.

    >>> options = zklock.ClientOptions(session_timeout=5)
    >>> lock = zklock.Mutex("zk1:2181,zk2:2181", "/locks/report", options=options)

    By default it works like `threading.RLock`. With `reentrant=False` it works like `threading.Lock`: even
    the thread that holds it must wait when it acquires it again, and any thread can release it:

    >>> baton = zklock.Mutex(client, "/locks/baton", reentrant=False)
    >>> baton.acquire()
    True
    >>> threading.Thread(target=baton.release).start()

    Operators can see `label` in the data of the lock nodes. `naming` sets the format of the node names:
    `"curator"`, or `"kazoo"` if the other clients are kazoo services that cannot set `extra_lock_patterns`.

    `max_hold` is the maximum time of a hold in seconds, counted from the grant. Re-entries do not extend it.
    After that the lease is lost (`loss_reason` is `"held too long"`), and the next contender gets the lock.
    Without this option, a program that hangs keeps its locks forever, because its heartbeats continue. The
    program must stop its work after this loss as after any other, because zklock cannot stop it.

    >>> lock = zklock.Mutex(client, "/locks/report", max_hold=3600)

    `grace` is a time in seconds. The loss of a lease is reported this long before another contender can get
    the lock, so that the program can stop its work first. If it releases the lease earlier, the lock is free
    earlier. The maximum is a sixth of the session timeout that the server granted. There is no grace if an
    operator breaks the lock, or if a hold exceeds `max_hold`.

    >>> lock = zklock.Mutex(client, "/locks/report", grace=1)

    `max_waiters` limits the length of the queue. If that many contenders already wait, an acquire fails
    immediately: it raises `LockTimeout` with the reason `"full"`. Use it in a service that answers 503
    instead of queueing. With 0 an acquire never waits behind another contender. Holders do not count as
    waiters, and a re-entry is never refused. Each acquire reads the queue first, which takes one more round
    trip. Acquires that arrive at the same moment read the same queue, so together they can exceed the limit.
    The limit applies only to acquires of this lock object. An acquire that does not wait (`blocking=False`)
    is not affected: it returns False, or `hold(0)` raises `LockTimeout` with the reason `"taken"`.

    >>> lock = zklock.Mutex(client, "/locks/report", max_waiters=10)

    `cohort` is the maximum number of consecutive holds by waiters of this client before the next node in the
    queue gets the lock. Use it if many threads or tasks of one process contend for the lock. They share a
    node: the thread that releases the lock hands it to the next one without a request. Waiters that share a
    node create none of their own, so other clients do not see them. A contender of another client waits for
    up to this many holds for each node ahead of it. Holds on one node have the same fencing token: compare
    the pair `(lease.fencing_token, lease.handoffs)`. This option cannot be combined with `max_waiters`, which
    counts nodes.

    >>> lock = zklock.Mutex(client, "/locks/queue", cohort=64)

    `linger` is the time in seconds for which the client keeps the lock's node after a release, while no other
    client waits for the lock. Use it for a lock that one client acquires repeatedly, such as the read lock of
    a configuration: the next acquire sends no request. The client deletes the node as soon as another
    contender waits behind it. Until then, an acquire with `blocking=False` of another client finds the lock
    taken. The time counts from the first release after a grant. As with `cohort`, holds on one node have the
    same fencing token.

    >>> settings = zklock.ReadWriteLock(client, "/locks/settings", linger=1)

    Raise `BadArgument` for a malformed argument.
    """

    def __new__(
        cls,
        client: Client | str | None,
        path: str,
        *,
        reentrant: bool = True,
        label: str | None = None,
        naming: Literal["curator", "kazoo"] = "curator",
        max_hold: float | None = None,
        grace: float | None = None,
        max_waiters: int | None = None,
        cohort: int = 0,
        linger: float = 0.0,
        options: ClientOptions | None = None,
    ) -> Self: ...
    def once(
        self,
        key: str,
        body: Callable[[Lease], _T],
        *,
        timeout: float | None = None,
        record: Literal["body", "start"] = "body",
    ) -> _T | None:
        """Call `body(lease)` under the lock, unless the slot `key` is already recorded. Then record the slot.

        >>> lock.once("2026-11-26", lambda lease: "a report")
        'a report'
        >>> lock.once("2026-11-26", lambda lease: "a report") is None
        True

        Return the result of `body`, or None if the slot was already recorded. `key` has 1 to 256 bytes, and
        no control characters. All processes share the record of a lock. It is a node next to the lock
        directory, with `.once` appended to the directory's path. Only the last slot is recorded, so the calls
        A, B, A run A twice: do not use idempotency keys as slots.

        If the body raises an exception, the process crashes, or the lock is lost, nothing is recorded, and a
        later call runs the slot again. With `record="start"` the slot is recorded before the body, which then
        runs at most once. `timeout` for the lock is in seconds; with None and -1 the call waits without a
        limit. Inside `with lock:` the call re-enters the lock. The body must not release the lease.

        Raise:

        - any exception of `body`;
        - `LockTimeout`;
        - `LockLost` if the lock was lost before the slot was recorded;
        - `AuthFailed` if the client has no permission to read the record (before the body) or to write it
          (after the body);
        - `BadArgument` for a malformed argument, or for a record that this library has not written;
        - the other exceptions of `acquire()`.
        """

    def once_per(
        self, period: float, *, timeout: float | None = None, record: Literal["body", "start"] = "body"
    ) -> Callable[[Callable[_P, _T]], Callable[_P, _T | None]]:
        """Return a decorator: a call runs the function at most once per period, across all processes.

        >>> @lock.once_per(3600)
        ... def clean_up():
        ...     return "cleaned up"
        >>> clean_up()
        'cleaned up'
        >>> clean_up() is None
        True

        A call returns the result of the function, or None if the period is already recorded. `period` is in
        seconds, at least 1. Periods are counted from the beginning of 1970 by the local clock, so a period of
        one day begins at midnight UTC. The period in which the lock is acquired counts. The function runs
        only if this period is later than the recorded one, so it does not run on a host whose clock is too
        far behind.

        In all other respects a call works like `once()`. In the function, `lock.lease` is the lease.
        """

@final
class ReadWriteLock:
    """A fair, reentrant read/write lock, compatible with Curator's `InterProcessReadWriteLock`.

    >>> catalogue = zklock.ReadWriteLock(client, "/locks/catalogue")
    >>> with catalogue.read_lock:
    ...     print("reading, with others")
    reading, with others

    Several readers can hold it together; a writer holds it alone. A reader that arrives after a waiting
    writer waits behind that writer.

    A writer can also acquire the read lock, and keep it when it releases the write lock. No other writer can
    hold the lock in between:

    >>> with catalogue.write_lock:
    ...     catalogue.read_lock.acquire()
    True
    >>> catalogue.read_lock.release()

    The reverse would be a deadlock: a reader that requests the write lock gets `UpgradeRefused` immediately.

    The arguments are the same as for `Mutex`. `max_hold`, in seconds, limits a hold of the read lock and a
    hold of the write lock separately. `max_waiters` counts the waiters of both halves. `cohort` applies only
    to the write lock, `linger` to both halves. Do not compare the fencing tokens of readers that hold the
    lock together. A mutex and a read/write lock on the same path do not exclude each other: give them
    different paths.
    """

    def __new__(
        cls,
        client: Client | str | None,
        path: str,
        *,
        label: str | None = None,
        naming: Literal["curator", "kazoo"] = "curator",
        max_hold: float | None = None,
        grace: float | None = None,
        max_waiters: int | None = None,
        cohort: int = 0,
        linger: float = 0.0,
        options: ClientOptions | None = None,
    ) -> Self: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    @property
    def path(self) -> str:
        """The lock path."""

    @property
    def read_lock(self) -> Lock:
        """The half that several readers can hold together."""

    @property
    def write_lock(self) -> Lock:
        """The half that only one writer can hold."""

@type_check_only
class _HasSession(Protocol):
    @property
    def session_id(self) -> int: ...

@final
class Server:
    """A ZooKeeper server in this process, for tests and development only.

    >>> with zklock.testing.Server() as server:
    ...     with zklock.Mutex(server.hosts, "/locks/report") as lease:
    ...         lease.state
    'held'

    The server runs on a separate thread, `zklock-server`, and keeps its nodes in memory. It listens on
    127.0.0.1, on a free port unless one is given. `docs/testing.md` lists the features that it lacks. The
    most important one is an ensemble: tests cannot show how a program behaves when some servers fail. In
    production, use Apache ZooKeeper.

    The methods can be called from any thread, greenlet or coroutine: none of them waits for a client. After
    `stop` they raise `RuntimeError`. A child process that inherits the server through fork cannot use it
    (`Forked`), and cannot harm it. Clients in the child can connect to it.

    Raise `OSError` if the port is taken, and `BadArgument` for an invalid port.
    """

    def __new__(cls, port: int = 0) -> Self: ...
    @property
    def hosts(self) -> str:
        """The connect string for a client: `127.0.0.1:` and the port. It stays the same after `stop`."""
    def expire(self, client: _HasSession | int) -> bool:
        """Expire a session now, as if its client had been silent for too long. Return False if there is none.

        >>> lock.acquire()
        True
        >>> lease = lock.lease
        >>> server.expire(lease)
        True
        >>> lease.wait_lost(timeout=5)
        True

        When this returns, the session's locks are free and its nodes are deleted. A moment later its client
        learns that the session has expired, and continues in a new session. `client` is a `Client` or a
        `Lease`, of `zklock` or `zklock.aio`, or the id of a session. Raise `BadArgument` for a client that
        has not connected yet.
        """
    def disconnect(self, client: _HasSession | int) -> bool:
        """Close a client's connection. Return False if it had none. Its session stays alive, with its locks.

        >>> server.disconnect(client)
        True

        Messages on their way to the client are lost. The client reconnects immediately. `client` is the same
        as in `expire`.
        """
    def pause(self) -> None:
        """Stop answering until `resume`, like a server that hangs or that the network cuts off.

        >>> server.pause()
        >>> lock.acquire(timeout=0.1)
        False
        >>> server.resume()

        Connections stay open, but the server reads, answers and sends nothing. It accepts new connections,
        and does not answer them either. The session clocks stop, so no session expires meanwhile. Leases are
        lost on the client's side, when their `remaining` time has elapsed. `expire`, `tree` and the other
        methods still work. If a session is expired during the pause, its client is notified after the pause.
        """
    def resume(self) -> None:
        """End a pause: process the requests received meanwhile, and send the held-back replies and events.

        >>> server.pause()
        >>> server.resume()

        Without a pause, the call does nothing.
        """
    def latency(self, seconds: float) -> None:
        """Delay every reply and event by this many seconds, in order. 0 removes the delay.

        >>> server.latency(0.05)

        A round trip then takes at least that long. Messages that are already on their way keep their delay.
        The maximum is one day. Raise `BadArgument` for a negative number.
        """
    def tree(self) -> dict[str, bytes]:
        """Return all nodes except ZooKeeper's own: a dictionary from path to data.

        >>> with lock as lease:
        ...     lease.node in server.tree()
        True
        """
    def stop(self) -> None:
        """Stop the server: close the port and all connections, and drop the nodes.

        >>> server.stop()

        A second call does nothing. Clients see that the server is gone, and try to reconnect until they are
        closed. Leaving a `with` block also stops the server, and so does dropping the last reference to it.
        """
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...

@final
class ServerReport:
    """The result of the last attempt to use a server: an element of `ConnectionFailed.servers`.

    >>> try:
    ...     zklock.Client("127.0.0.1:1", connect_timeout=0.1)
    ... except zklock.ConnectionFailed as error:
    ...     [report] = error.servers
    >>> report.server, report.problem
    ('127.0.0.1:1', 'refused')
    """

    def __new__(cls, server: str, problem: _ServerProblem, detail: str) -> Self: ...
    @property
    def server(self) -> str:
        """The server, as `host:port`."""

    @property
    def problem(self) -> _ServerProblem:
        """The kind of the problem, for use in a program.

        `unknown host`, `refused`, `unreachable`, `silent`, `closed`, `not serving` (it has no quorum),
        `read-only`, `not zookeeper`, `certificate name`, `certificate expired`, `certificate authority`,
        `tls` (any other TLS problem), `not tried`, or `answered` (it answered at first, and then stopped
        answering).
        """

    @property
    def detail(self) -> str:
        """The problem as a text for people: the message of the operating system, of TLS or of the server."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Stats:
    """The statistics of a client since it was created: a snapshot of numbers that only grow.

    >>> with lock:
    ...     client.stats().acquisitions
    1

    A *hold* begins with a grant and ends with its last release, or with its loss. A re-entry is not counted,
    because it starts no hold and sends no request. Each permit of a semaphore is a hold.
    """

    @property
    def transport(self) -> str | None:
        """The transport that the client uses: `zklock`, or `stock` (sockets and timers of other crates).

        None before the first session.
        """

    @property
    def acquisitions(self) -> int:
        """Holds that began."""

    @property
    def contended(self) -> int:
        """Acquisitions that had to wait for another contender."""

    @property
    def handoffs(self) -> int:
        """Hand-offs from one holder in this client to the next, without a request: see `cohort`."""

    @property
    def retakes(self) -> int:
        """Acquisitions that reused a node that the client had kept, without a request: see `linger`."""

    @property
    def busy(self) -> int:
        """Acquires that found the lock taken, and did not or could not wait."""

    @property
    def timeouts(self) -> int:
        """Acquires that timed out."""

    @property
    def losses(self) -> int:
        """Holds that were lost, except by closing the client."""

    @property
    def losses_by_reason(self) -> dict[str, int]:
        """Losses by reason. The keys are the values of `Lease.loss_reason`.

        Reasons with a count of 0 are included. The reasons `client closed` and `inherited through fork` are
        not counted, and not included.
        """

    @property
    def sessions(self) -> int:
        """Sessions that began. More than one means that a session was lost."""

    @property
    def reconnections(self) -> int:
        """Connections that were lost and replaced within a session."""

    @property
    def wait(self) -> Histogram:
        """Durations of the acquisitions, from the call to the grant."""

    @property
    def hold(self) -> Histogram:
        """Durations of the holds that have ended."""

    @property
    def requests(self) -> dict[str, int]:
        """Requests for locks, by purpose: `create`, `list`, `watch`, `delete` and so on.

        Every purpose is present, even if its count is 0. Requests of the session itself are not included:
        pings, opening and closing the session, and setting or removing watches on a server.
        """

    def as_dict(self) -> dict[str, Any]:
        """Return all numbers as a dictionary that `json.dumps` accepts. Times are in seconds.

        >>> with lock:
        ...     client.stats().as_dict().get("acquisitions")
        1
        """

@final
class Health:
    """The state of a client at one moment, with its waiters and holds. Immutable.

    >>> with lock:
    ...     client.health().holds[0].path
    '/locks/report'
    """

    @property
    def state(self) -> _ClientState:
        """The same as `Client.state`."""

    @property
    def session_id(self) -> int:
        """The last ZooKeeper session, or 0 if there has been none."""

    @property
    def server(self) -> str | None:
        """The server of the current connection, with its port, in the form used in `hosts`, or None."""

    @property
    def session_timeout(self) -> float:
        """The session timeout that the server granted, in seconds. Until then, the requested timeout."""

    @property
    def last_proof(self) -> float | None:
        """The time in seconds since the client sent the last write that the server has acknowledged.

        Such a write proves that the session is alive. None without a session, and before the first such
        write. A client that holds nothing and waits for nothing sends none, so this value grows.
        """

    @property
    def remaining(self) -> float:
        """The time in seconds until the leases are lost if no server answers. 0 if no lease can be valid."""

    @property
    def responsive(self) -> bool:
        """Whether the library's thread answered within 0.1 seconds.

        If not, the machine is heavily overloaded, or there is a bug. `waits` and `holds` are then empty.
        """

    @property
    def waits(self) -> list[WaitReport]:
        """The pending acquires, by path."""

    @property
    def holds(self) -> list[HoldReport]:
        """The holds, by path."""

@final
class WaitReport:
    """An acquire that has neither succeeded nor failed yet.

    >>> for wait in client.health().waits:
    ...     print(wait.path, wait.age, wait.behind)
    """

    @property
    def path(self) -> str:
        """The path of the lock."""

    @property
    def mode(self) -> _LockMode:
        """`mutex`, `read`, `write`, `permit` or `leadership`."""

    @property
    def label(self) -> str | None:
        """The label of the lock or its client, or the candidate's id in an election; or None."""

    @property
    def age(self) -> float:
        """The time that the caller has waited, in seconds."""

    @property
    def node(self) -> str | None:
        """The full path of the waiter's node, or None if it has no node, for example without a connection."""

    @property
    def in_cohort(self) -> bool:
        """Whether the caller waits in its client's local queue, for a lock with `cohort`, and so has no node.

        Other clients do not see such a waiter. One node of the client represents the whole local queue, and
        `position` and `behind` refer to that node.
        """

    @property
    def position(self) -> int | None:
        """The known number of contenders ahead of the node in the queue. None if there is no node."""

    @property
    def behind(self) -> str | None:
        """The full path of the nearest node that cannot share the lock with the waiter.

        None if no such node is known. Also None for a semaphore, where a waiter waits for any of the holders.
        """

    @property
    def owner(self) -> OwnerReport:
        """The owner that requested the lock."""

@final
class HoldReport:
    """A hold of a lock.

    >>> with lock:
    ...     for hold in client.health().holds:
    ...         print(hold.path, hold.mode, hold.levels, hold.state)
    /locks/report mutex 1 held
    """

    @property
    def path(self) -> str:
        """The path of the lock."""

    @property
    def mode(self) -> _LockMode:
        """`mutex`, `read`, `write`, `permit` or `leadership`."""

    @property
    def label(self) -> str | None:
        """The label of the lock or its client, or the candidate's id in an election; or None."""

    @property
    def age(self) -> float:
        """The age of the hold, in seconds."""

    @property
    def node(self) -> str:
        """The full path of the hold's node."""

    @property
    def fencing_token(self) -> int:
        """The fencing token of the hold."""

    @property
    def levels(self) -> int:
        """The number of leases that have not been released: one for each acquire by the owner."""

    @property
    def pinned(self) -> bool:
        """Whether an election or a kazoo lock keeps one of its leases until the lease is released or lost."""

    @property
    def state(self) -> _LeaseState:
        """The state of its leases: `held`, `suspended` or `lost`."""

    @property
    def remaining(self) -> float:
        """The time in seconds during which no other client can get the lock, unless an operator breaks it."""

    @property
    def owner(self) -> OwnerReport:
        """The owner that requested the lock."""

@final
class OwnerReport:
    """The owner of a wait or a hold, in `Client.health()`. Immutable.

    >>> with lock:
    ...     client.health().holds[0].owner.name
    'MainThread'
    """

    @property
    def number(self) -> int:
        """The number of the owner. It is unique in this process, and never reused."""

    @property
    def name(self) -> str | None:
        """The name of the thread, task or greenlet when it requested the lock, or None."""

    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...

@final
class Histogram:
    """A distribution of durations in seconds, in the form of a Prometheus histogram.

    >>> with lock:
    ...     client.stats().wait.count
    1
    """

    @property
    def count(self) -> int:
        """The number of durations."""

    @property
    def sum(self) -> float:
        """The sum of all durations."""

    @property
    def max(self) -> float:
        """The longest duration."""

    @property
    def buckets(self) -> list[tuple[float, int]]:
        """Upper bounds in ascending order, each with the number of durations that do not exceed it.

        The bounds are 1, 2 and 5 times every power of ten from 100 µs to 1,000 s. Longer durations appear
        only in `count`.
        """

    def as_dict(self) -> dict[str, Any]:
        """Return all numbers as a dictionary of plain values. Times are in seconds.

        >>> with lock:
        ...     client.stats().wait.as_dict().get("count")
        1
        """

@final
class Semaphore(Lock):
    """A fair semaphore. Its queue is compatible with Curator's `InterProcessSemaphoreV2`.

    >>> semaphore = zklock.Semaphore(client, "/locks/upstream", 5)
    >>> with semaphore as lease:
    ...     lease.state
    'held'

    A fixed number of permits can be held at the same time. Contenders queue, and only the first contender in
    the queue takes permits. So a small request cannot overtake a larger one, and two contenders cannot block
    each other by each holding some of the permits that both need.

    Permits have no owner: every acquire takes another permit, even in the same thread. `release()` returns
    the newest permit that any thread acquired through this object with `acquire()`. Unlike
    `threading.Semaphore`, it cannot return more permits than were taken. `lease` is the lease of that newest
    permit, and `owned()` returns whether there is one. A lease can also be released directly, from any
    thread. Do not compare the fencing tokens of permits that are held at the same time.

    All contenders on a path must agree on the number of permits. A contender that finds another number, when
    it first uses the path or when it has to wait, raises `PermitsMismatch`. With `shared_count` the number is
    read from the node at that path, which is a Curator `SharedCount`: four bytes, big-endian. Every acquire
    reads it, and waiters notice a change.

    With `blocking=False` or a timeout of 0, an acquire does not wait for a permit. But it can wait up to two
    seconds for another contender that is taking permits at that moment.

    `contenders()` first lists the nodes below `leases/`: one for each permit that is held, or that the first
    contender in the queue is taking. Then it lists the nodes below `locks/`, which are the queue of
    contenders that do not have their permits yet.

    `max_hold` (in seconds) and `max_waiters` work as in `Mutex`. `max_hold` limits the hold of each permit
    separately. `max_waiters` counts all contenders in the queue.

    Raise `BadArgument` for a malformed argument, and if both or neither of `permits` and `shared_count` are
    given. An acquire raises it if there is no number at `shared_count`.
    """

    def __new__(
        cls,
        client: Client | str | None,
        path: str,
        permits: int | None = None,
        *,
        shared_count: str | None = None,
        label: str | None = None,
        max_hold: float | None = None,
        grace: float | None = None,
        max_waiters: int | None = None,
        options: ClientOptions | None = None,
    ) -> Self: ...
    @property
    def permits(self) -> int | None:
        """The number of permits, or None if it is read from a node."""

    @property
    def shared_count(self) -> str | None:
        """The node from which the number of permits is read, or None if the number is fixed."""

    def acquire_many(
        self,
        count: int,
        blocking: bool = True,
        timeout: float | None = -1,
        *,
        connect_timeout: float | None = None,
    ) -> Leases:
        """Acquire `count` permits, all or none. Return a context manager with their leases.

        >>> with semaphore.acquire_many(3, timeout=10) as leases:
        ...     leases[2].state
        'held'

        See `acquire` for the arguments. Unlike `acquire`, a timeout raises `LockTimeout`. The semaphore's own
        `release()` does not release these leases. If the number at `shared_count` is smaller than `count`,
        the call waits until that number has grown.

        Raise `BadArgument` for zero permits, or for more permits than the semaphore has.
        """

@final
class MultiLock(Acquirable[Leases]):
    """Several locks that are acquired together: all of them, or none.

    >>> with zklock.MultiLock([lock, catalogue.write_lock]) as leases:
    ...     len(leases)
    2

    The locks can be of any kinds. All zklock programs acquire them in the same order, so two programs cannot
    deadlock. They sort the locks by the path from the ensemble's root, and equal paths by the names of the
    servers. The order can differ only for the same path on two ensembles, if the programs use different
    server names for these ensembles. A lock that is listed twice is acquired once. The write half of a
    read/write lock is acquired before the read half. One timeout covers all locks. If one cannot be acquired,
    the earlier ones are released. If one is lost while the call waits for another, all are released and
    acquired again.

    The owner is the thread, as for the single locks. If an owner already holds one of the locks, but not a
    lock that precedes it in the order, acquiring raises `BadArgument`, because it would break the order.

    Raise `BadArgument` for an empty list, and for a non-reentrant lock that is listed twice. Also raise it if
    the same path is listed as two kinds of lock, or through two clients of one ensemble. If two clients have
    different host names for the same ensemble, the acquire detects that and raises `BadArgument`.
    """

    def __new__(cls, locks: Iterable[Lock]) -> Self: ...
    def __reduce__(self) -> tuple[Any, ...]: ...
    @property
    def paths(self) -> list[str]:
        """The paths of the locks, in the order of acquisition."""

    @property
    def leases(self) -> Leases | None:
        """The calling thread's newest unreleased leases of this object, or None."""

@final
class Hold(Generic[_T]):
    """The result of a lock's `hold()`: a context manager, and a decorator.

    >>> five_seconds = lock.hold(timeout=5)
    >>> with five_seconds as lease:
    ...     lease.state
    'held'
    >>> @five_seconds
    ... def rebuild_the_index():
    ...     return lock.owned()
    >>> rebuild_the_index()
    True

    A `Hold` can be entered and called more than once.
    """

    def __class_getitem__(cls, item: Any, /) -> GenericAlias: ...
    def __call__(self, function: Callable[_P, _R], /) -> Callable[_P, _R]: ...
    def __enter__(self) -> _T: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

@final
class Scopes:
    """The scopes of an object of `zklock.aio` that is not a lock."""

    def push(self, owner: Owner, level: Level, scope: object, site: Site) -> None:
        """Store a scope that a task has entered."""

    def leave(self, owner: Owner | None, site: Site, raised: bool) -> Any:
        """Return the scope that an exit at this site ends."""

@final
class Slot:
    """A validated slot, with the choice to record it before or after the body."""

    @staticmethod
    def key(key: str, record: str) -> Slot:
        """Return the slot with this name."""

    @staticmethod
    def per(period: float, record: str) -> Slot:
        """Return the current slot of a period, in seconds."""

@final
class Turn:
    """One run of a slot's body while the lock is held.

    It is a context manager: the end of its block records the slot, unless the block raises an exception.
    """

    @property
    def lease(self) -> Lease:
        """The lease under which the body runs."""

    def start_record(self) -> Pending[None]:
        """Start to record the slot (unless it was recorded before the body) and to release the lock."""

    def __enter__(self) -> Lease: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...

@final
class Site:
    """The place at which a scope is entered or left.

    It consists of the Python frame and the number of the `Hold` object (0 for the lock itself).
    """

    def __new__(cls, frame: object, through: int = 0) -> Self: ...

@final
class NotifyEventLoop:
    """A callback of `zklock.aio` that only notifies an event loop. The delivery thread calls it directly."""

    def __new__(cls, callable: Callable[..., object]) -> Self: ...  # noqa: A002
    def __call__(self, argument: object) -> object: ...

@final
class SavedLevels:
    """The acquires that a condition variable undoes before it waits, and repeats afterwards."""

@final
class Tls:
    """The PEM files with which a client encrypts its connections.

    >>> tls = zklock.Tls("ca.pem", cert="cert.pem", key="key.pem")
    >>> with zklock.Client("zk1:2281", tls=tls) as client:
    ...     client.state
    'connected'

    `ca` holds the certificates of the authorities that the client trusts. The certificate of a server must be
    valid for the name or address by which the client reaches the server. The client presents `cert` and `key`
    to servers that ask for a certificate. Give both or neither. The client reads the files when it is
    created, and raises `BadArgument` if it cannot read them. It reads them again each time it reconnects, so
    you can replace them while it runs.
    """

    def __new__(
        cls,
        ca: str | PathLike[str],
        *,
        cert: str | PathLike[str] | None = None,
        key: str | PathLike[str] | None = None,
    ) -> Self: ...

@final
class Transaction:
    """Writes to ZooKeeper. The servers execute all of them together, and only while the lock's node exists.

    >>> with lock as lease:
    ...     writes = lease.transaction().set_data("/state", b"done", version=0)
    ...     writes.create("/report").commit()

    Such writes need no fencing token: if a holder is paused and another client acquires the lock meanwhile,
    the transaction of the first holder changes nothing. Paths are absolute, below the client's chroot. New
    nodes are persistent, with the client's access control list. Every method except `commit` returns the
    transaction.
    """

    def create(self, path: str, data: bytes = b"") -> Self:
        """Create a node.

        >>> with lock as lease:
        ...     lease.transaction().create("/report", b"draft").commit()
        """

    def set_data(self, path: str, data: bytes, version: int | None = None) -> Self:
        """Write a node's data if its version matches. None matches any version.

        >>> with lock as lease:
        ...     lease.transaction().set_data("/state", b"done", version=0).commit()
        """

    def delete(self, path: str, version: int | None = None) -> Self:
        """Delete a node if its version matches. None matches any version.

        >>> with lock as lease:
        ...     lease.transaction().delete("/state").commit()
        """

    def check(self, path: str, version: int) -> Self:
        """Make the whole transaction fail unless a node has this version.

        >>> with lock as lease:
        ...     lease.transaction().check("/state", 0).create("/report").commit()
        """

    def commit(self) -> None:
        """Execute all operations, or none. Wait for the answer for up to the client's `connect_timeout`.

        >>> with lock as lease:
        ...     lease.transaction().create("/report", b"draft").commit()

        Raise `LockLost` if the lock is no longer held, or `TransactionFailed` if one of the operations cannot
        be executed. In both cases nothing was written, and the message gives the reason. Raise
        `ConnectionFailed` if no answer arrived. In that case, and if the wait is interrupted, the operations
        might or might not have been executed. Raise `NotHeld` after a release, and `BadArgument` for a
        malformed path or a second commit.
        """

@final
class Notice:
    """A callback registered with a method such as `Lease.on_lost` or `Client.on_state`.

    >>> notice = client.on_state(lambda state: print("now", state))
    >>> notice.cancel()
    """

    def cancel(self) -> None:
        """Stop calling the callback. A call that has begun continues.

        >>> notice = client.on_state(lambda state: print("now", state))
        >>> notice.cancel()
        """

@final
class Leaving:
    """The exit from a scope. Created before the release, and used after it to report a loss.

    A term that ends during the release is not a loss. It is a loss if the release detects that another client
    has deleted the node.
    """

    def __new__(cls, level: Level) -> Self: ...
    def end(self, raised: BaseException | None, cancelled: bool) -> None:
        """Raise `LockLost` after a loss, unless the body raised an exception.

        `cancelled` is true if the loss cancelled the task and the body raised nothing else. `LockLost` then
        replaces the cancellation. Any other exception of the body propagates, with a note about the loss.
        """

@final
class Owner:
    """A task or greenlet that owns locks, and can re-enter them. `zklock.aio` creates one for each task.

    Python drops this object when no code can release the owner's locks any more: the task or greenlet has
    ended, and all callbacks that the task scheduled have run.
    """

    def __new__(cls, task: Callable[[], object] | None = None, *, greenlet: bool = False) -> Self: ...

@final
class Timeout:
    """The checked arguments `blocking`, `timeout` and `connect_timeout` of an acquire."""

    def __new__(cls, blocking: bool, timeout: float | None, connect_timeout: float | None = None) -> Self: ...

@final
class ReleaseTimeout:
    """The checked arguments `wait` and `timeout` of a release."""

    def __new__(cls, wait: bool, timeout: float | None) -> Self: ...

@final
class Pending(Awaitable[_T]):
    """An operation in progress. Await it once for its outcome. Or call `wait()`, and then `take()` once.

    The outcome stays on the Rust side until the task continues. So a lease is released even if its task is
    cancelled just as the lease arrives, or if the event loop has already stopped.

    It implements the part of `asyncio.Future` that a task uses. A future of asyncio would need another
    iteration of the event loop between the outcome and the task.
    """

    _asyncio_future_blocking: bool
    def __await__(self) -> Generator[Any, Any, _T]: ...
    def __next__(self) -> Self:
        """Return itself while there is no outcome: the task then calls `add_done_callback`, and waits. After
        that, end the iteration with the outcome.
        """

    def throw(self, kind: Any, value: Any = None, trace: TracebackType | None = None, /) -> None:
        """Give up the operation, and raise the exception. A task that is cancelled calls this."""

    def close(self) -> None:
        """Give up the operation. A coroutine that is closed calls this."""

    def get_loop(self) -> AbstractEventLoop:
        """Return the event loop of the task that awaits the operation."""

    def add_done_callback(self, callback: Callable[[Self], object], /, *, context: Context) -> None:
        """Store the callback that continues the task."""

    def cancel(self, msg: object = None) -> bool:
        """Give up the operation, and cancel the wait of the task. Return False if no task waits."""

    def result(self) -> None:
        """Return None, or raise `CancelledError`."""

    def done(self) -> bool:
        """Return whether no task waits any more."""

    def wait(self, timeout: float | None) -> bool:
        """Wait on this thread for up to `timeout` seconds. Return whether there is an outcome.

        Return False if the operation was abandoned or the timeout has elapsed.
        """

    def take(self) -> _T:
        """Return the outcome, or raise its exception."""
    def abandon(self) -> None:
        """Give up the operation: leave the queue, and release a lease that has not been taken."""

def close_on_signals() -> None:
    """Make SIGTERM close all clients of this process before the process ends, to free its locks early.

    >>> zklock.close_on_signals()

    The process waits for up to a second until the clients are closed. Then the signal ends the process, as
    without this call: neither `finally` blocks nor `atexit` handlers run. During that second, pending
    acquires keep waiting, and no callback runs. Without this call, the locks of the process stay taken for a
    session timeout.

    The same applies to SIGINT if it has its default action. A signal that has a handler, or that is ignored,
    is not changed: Ctrl-C still raises `KeyboardInterrupt`, because Python has a handler for SIGINT. A
    handler that is set later, for example by a server or by `loop.add_signal_handler`, replaces this one. You
    can call this on any thread. A second call does nothing. A forked child must call it too.

    On Windows, the console's events take the place of SIGTERM: Ctrl-Break, the close of the window, the
    end of the user's session and the shutdown of the machine. Ctrl-C still raises `KeyboardInterrupt`. A
    process that another one ends (`os.kill`, `taskkill /F`) closes nothing.

    Raise `OSError` if the operating system refuses a thread or a pipe.
    """

def dump() -> str:
    """Return a readable list of all waiters and holds of this process, by client.

    >>> print(zklock.dump())
    zklock ..., process ...

    Use it to find out why a program hangs. Each entry names the thread, task or greenlet that requested the
    lock, and the line that it is executing: `by owner 1 (thread MainThread at app.py:12 in main)`.

    The format of the text can change, so use `Client.health()` in a program. The call sends no request, and
    waits for no server.
    """

def dump_on(signum: int, file: _HasFileno | int | None = None) -> None:
    """Make a signal write the text of `dump()` to a file, like `faulthandler.register`.

    >>> import signal
    >>> zklock.dump_on(signal.SIGUSR1)

    `file` is an open file or a file descriptor; the default is `sys.stderr`. You can close it after this
    call. A separate thread writes the dump without the interpreter, so it works while every thread of the
    program is blocked. The dump names owners, but not the lines that they are executing: use `faulthandler`
    to see these. An existing handler for the signal still runs. A handler that is set later replaces this
    one. In a forked child the signal does nothing until you register it there too.

    Raise `BadArgument` for an unusable signal, and `OSError` for an unusable file. Windows has no signal that
    asks for a dump: raise `OSError` there.
    """

def lazy_client(
    hosts: str | None,
    session_timeout: float | None,
    connect_timeout: float,
    auth: Sequence[tuple[str, str | bytes]] | None,
    auth_file: str | PathLike[str] | None,
    acl: str | None,
    parent_acl: str | None,
    sasl: tuple[str, str] | None,
    tls: Tls | None,
    label: str | None,
    identify: bool,
    max_frame: int,
) -> Client: ...
def start_connect(client: Client) -> Pending[None]: ...
def start_close(client: Client, drain: float | None) -> Pending[None]: ...
def start_revoke(client: Client, node: str) -> Pending[None]: ...
def start_break_lock(client: Client, node: str) -> Pending[None]: ...
def start_get(client: Client, path: str) -> Pending[NodeData | None]: ...
def start_set_shared_count(client: Client, path: str, count: int) -> Pending[None]: ...
def admit() -> None:
    """Check that the calling thread can wait for a lock that it does not hold.

    Raise an error where a wait is impossible, for example in a trio task. Warn if an event loop runs on the
    thread.
    """

def start_acquire(lock: Acquirable[_T], owner: Owner, timeout: Timeout) -> _T | Pending[_T]: ...
def begin_turn(lock: Mutex, slot: Slot, timeout: Timeout) -> Turn | None: ...
def start_turn(lock: Mutex, owner: Owner, slot: Slot, timeout: Timeout) -> Pending[Turn | None]: ...
def start_acquire_many(
    semaphore: Semaphore, owner: Owner | None, count: int, timeout: Timeout
) -> Pending[Leases]: ...
def start_contenders(lock: Lock) -> Pending[list[Contender]]: ...
def start_locked(lock: Lock) -> Pending[bool]: ...
def start_campaign(election: Election, owner: Owner | None, timeout: Timeout) -> Pending[Leadership]: ...
def keep(election: Election, leadership: Leadership, handle: object) -> None: ...
def start_leader(election: Election) -> Pending[Candidate | None]: ...
def start_candidates(election: Election) -> Pending[list[Candidate]]: ...
def observe(election: Election) -> Leaders: ...
def start_next_leader(leaders: Leaders) -> Pending[Candidate | None]: ...
def start_release(level: Level, timeout: ReleaseTimeout) -> Pending[None] | None: ...
def start_commit(transaction: Transaction) -> Pending[None]: ...
def pin(lease: Lease) -> None: ...
def start_wait_lost(lease: Lease) -> Pending[bool]: ...
def push(
    lock: Acquirable[Any], owner: Owner, level: Level, handle: object, scope: tuple[Site, object] | None
) -> None: ...
def newest(lock: Acquirable[Any], owner: Owner) -> Any: ...
def release_newest(lock: Acquirable[Any], owner: Owner, timeout: ReleaseTimeout) -> Pending[None] | None: ...
def leave(lock: Acquirable[Any], owner: Owner | None, site: Site, only: bool, raised: bool) -> Any: ...
def owned_by(lock: Acquirable[Any], owner: Owner) -> bool: ...
def next_events(
    verbosity: int,
) -> tuple[list[tuple[str, str, str, int, float, str, list[tuple[str, str]]]], int] | None: ...
def next_callback() -> tuple[Callable[[object], object], object] | None: ...
def report_unraisable(error: BaseException, callback: object) -> None: ...
def shutdown() -> None: ...
