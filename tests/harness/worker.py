"""A worker: sends its commands, returns its replies, and converts its reports into a history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.answers import ANSWER, Line, Pending, Unanswered, WorkerError, first_answered, now
from harness.history import NEVER, Hold
from harness.ledger import Ledger, Part
from harness.pipe import Process
from harness.surfaces import ALL, Surface

__all__ = ["Line", "Pending", "Unanswered", "Worker", "WorkerError", "first_answered"]


class Worker(Process):
    """One worker process.

    The names of objects (client `c`, lock `m`) have defaults, because most tests need only one of each kind.
    """

    def __init__(self, surface: str | Surface, *, env: dict[str, str] | None = None) -> None:
        # Session ids by client, as reported at connect.
        self.sessions: dict[str, int] = {}
        # Sessions that the test closes, each with the time just before the close.
        self._doomed: dict[int, int] = {}
        self._paths: dict[str, str] = {}
        self._kinds: dict[str, str] = {}
        self._permits: dict[str, int | None] = {}
        self._members: dict[str, Sequence[str]] = {}
        super().__init__(ALL[surface] if isinstance(surface, str) else surface, env)

    # The commands.

    def connect(
        self,
        hosts: str,
        *,
        client: str = "c",
        session_timeout: float | None = None,
        connect_timeout: float | None = None,
        max_frame: int | None = None,
        auth: Sequence[tuple[str, str]] | None = None,
        acl: str | None = None,
        parent_acl: str | None = None,
        sasl: tuple[str, str] | None = None,
        tls: Mapping[str, str] | None = None,
        label: str | None = None,
        identify: bool | None = None,
        environment: bool | None = None,
        retries: int | None = None,
    ) -> int:
        """Connect a client. Return its session id.

        Without ``retries``, Curator retries forever. With ``environment``, a Rust client also reads missing
        options from environment variables.
        """
        options: Line = {"session_timeout": session_timeout, "connect_timeout": connect_timeout}
        options |= {"auth": auth, "acl": acl, "sasl": sasl, "tls": tls, "retries": retries}
        options |= {"parent_acl": parent_acl, "label": label, "identify": identify, "max_frame": max_frame}
        options["environment"] = environment
        given = {name: value for name, value in options.items() if value is not None}
        self.sessions[client] = int(self.call("connect", client=client, hosts=hosts, **given)["session"])
        return self.sessions[client]

    def lock(
        self,
        path: Any,
        *,
        lock: str = "m",
        kind: str = "mutex",
        reentrant: bool = True,
        client: str | None = "c",
        hosts: str | None = None,
        **options: Any,
    ) -> None:
        """Create a lock object on a client. With ``hosts``, the lock's first use creates a shared client.

        The other options depend on the lock's kind: ``permits``, ``shared_count``, ``label``, ``max_hold``,
        ``max_waiters``, ``cohort``, ``linger``. With ``hosts``, the client's options are allowed too.
        """
        self._paths[lock] = path
        self._kinds[lock] = kind
        self._permits[lock] = options.get("permits")
        fields: Line = {"hosts": hosts} if hosts is not None else {"client": client}
        if not reentrant:
            fields["reentrant"] = False
        self.call("lock", lock=lock, path=path, kind=kind, **fields, **options)

    def multi(self, members: Sequence[str], *, lock: str = "multi") -> None:
        """Combine several lock objects into one."""
        self.send_multi(members, lock=lock).expect("ready")

    def send_multi(self, members: Sequence[str], *, lock: str = "multi") -> Pending:
        """Combine several lock objects into one, without waiting for the reply."""
        self._members[lock] = members
        return self.send("lock", lock=lock, kind="multi", members=members)

    def acquire(
        self,
        lease: str = "l",
        *,
        lock: str = "m",
        owner: str = "a",
        timeout: Any = None,
        count: int | None = None,
    ) -> Pending:
        """Start to acquire the lock."""
        given = {"timeout": timeout, "count": count}
        given = {name: value for name, value in given.items() if value is not None}
        self.lost.discard(lease)
        return self.send("acquire", lock=lock, lease=lease, owner=owner, **given)

    def hold_many(self, path: str, first: int, count: int) -> Pending:
        """Start to acquire the mutexes `path/first` and so on, which the worker holds until its end."""
        return self.send("hold", client="c", path=path, first=first, count=count, owner="a")

    def hold(
        self,
        lease: str = "l",
        *,
        lock: str = "m",
        owner: str = "a",
        timeout: float = ANSWER,
        count: int | None = None,
    ) -> Line:
        """Acquire the lock and return the reply, which must be `acquired`."""
        return self.acquire(lease, lock=lock, owner=owner, count=count).expect("acquired", timeout)

    def try_acquire(
        self, lease: str = "l", *, lock: str = "m", owner: str = "a", count: int | None = None
    ) -> Line:
        """Try to acquire the lock without queueing. Return the reply, `acquired` or `busy`."""
        given = {} if count is None else {"count": count}
        return self.call("try", lock=lock, lease=lease, owner=owner, **given)

    def release(
        self, lease: str = "l", *, owner: str = "a", wait: bool = True, timeout: float | None = None
    ) -> Line:
        """Release a lease."""
        given = {} if timeout is None else {"timeout": timeout}
        return self.call("release", lease=lease, owner=owner, wait=wait, **given)

    def enter(self, scope: str = "s", *, lock: str = "m", owner: str = "a") -> Line:
        """Enter a scope that holds the lock."""
        return self.call("enter", lock=lock, scope=scope, owner=owner)

    def fail_to_enter(
        self,
        timeout: float,
        scope: str = "s",
        *,
        lock: str = "m",
        owner: str = "b",
        connect_timeout: float | None = None,
        within: str | None = None,
    ) -> WorkerError:
        """Assert that entering a scope fails after `timeout` seconds. `within` names the outer scope."""
        given = {"connect_timeout": connect_timeout, "within": within}
        given = {name: value for name, value in given.items() if value is not None}
        return self.send("enter", lock=lock, scope=scope, owner=owner, timeout=timeout, **given).error()

    def leave(self, scope: str = "s", *, owner: str = "a") -> Pending:
        """Start to leave a scope."""
        return self.send("leave", scope=scope, owner=owner)

    def check(self, lease: str = "l") -> Pending:
        """Start a check of whether the lease is held."""
        return self.send("check", lease=lease)

    def cancel(self, pending: Pending) -> None:
        """Cancel a pending acquire by the surface's own means."""
        if self.surface.cancels_by_signal:
            assert pending.command["owner"] == "main", "a signal reaches only the main thread"
            self.interrupt()
        else:
            self.call("cancel", target=pending.id)

    def contend(
        self,
        path: str,
        *,
        owners: int,
        rounds: int,
        kind: str = "mutex",
        permits: int | None = None,
        objects: str = "each",
        hold_ms: tuple[float, float] = (0, 0),
        cohort: int | None = None,
        client: str = "c",
    ) -> Pending:
        """Let many owners contend. The history contains every hold. The reply is `done`."""
        return self.send(
            "contend",
            client=client,
            path=path,
            kind=kind,
            owners=owners,
            rounds=rounds,
            objects=objects,
            hold_ms=list(hold_ms),
            **({} if permits is None else {"permits": permits}),
            **({} if cohort is None else {"cohort": cohort}),
        )

    # The history.

    def holds(self) -> list[Hold]:
        """Return this worker's holds. An owner's nested acquires of a lock are merged into one hold."""
        ledger = Ledger(self.name, self.command, self.sent, self.parts_of, self.uncertain_from)
        return sorted(ledger.holds(self.lines()), key=lambda hold: hold.granted)

    def presume_lost(self, lease: str = "l", at: int | None = None) -> None:
        """Record that a lease's hold is uncertain from now on, or from the time `at`.

        Call this before the test takes the lock away.
        """
        self.note({"event": "presumed lost", "lease": lease, "t": at or now()})

    def presume_ended(self, session: int) -> None:
        """Record that all current holds of a session are uncertain from now on.

        Call this before the test closes the session. Later grants to the session are not affected.
        """
        self._doomed[session] = now()

    def uncertain_from(self, granted: int, session: int) -> int:
        """Return the time from which an unreleased hold is uncertain, or `NEVER`."""
        pauses = [began for began, ended in self.pauses if ended is None or ended > granted]
        doomed = self._doomed.get(session, NEVER)
        ends = [*pauses, doomed if doomed > granted else NEVER, NEVER if self.killed is None else self.killed]
        return max(granted, min(ends))

    def parts_of(self, lock: str) -> list[Part]:
        """Return the locks that this lock object acquires. A multi lock acquires several."""
        if lock not in self._members:
            return [Part(self._paths[lock], self._kinds[lock], self._permits[lock])]
        return [part for member in self._members[lock] for part in self.parts_of(member)]
