"""A worker process: commands go in, answers come out, and what it reported becomes its history."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future
from concurrent.futures import TimeoutError as FutureTimeout
from concurrent.futures import wait as wait_for
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from harness.history import NEVER, UNKNOWN, Hold
from harness.paths import TESTS
from harness.processes import reap, spawn
from harness.surfaces import ALL, Surface

ANSWER = 20.0

Line = dict[str, Any]


class WorkerError(Exception):
    """The worker answered `error`."""

    def __init__(self, line: Line) -> None:
        super().__init__(f"{line.get('code')} {line.get('type')}: {line.get('message')}")
        self.code: str | None = line.get("code")
        self.type: str = line.get("type", "")
        self.message: str = line.get("message", "")
        self.t: int = line["t"]


class Unanswered(AssertionError):
    """No answer in time: in this suite a hang is a failure, and a loud one."""


def _now() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


class Pending:
    """A command that was sent, and its answer to come."""

    def __init__(self, worker: Worker, command: Line) -> None:
        self.worker = worker
        self.command = command
        self.sent = _now()
        self._future: Future[Line] = Future()

    @property
    def id(self) -> int:
        """The command's id."""
        return int(self.command["id"])

    @property
    def done(self) -> bool:
        """Whether the answer is there."""
        return self._future.done()

    def wait(self, timeout: float) -> bool:
        """Wait for the answer; whether it is there."""
        wait_for([self._future], timeout)
        return self._future.done()

    def resolve(self, line: Line) -> None:
        """Note the answer."""
        self._future.set_result(line)

    def abandon(self, reason: str) -> None:
        """Note that there will be no answer."""
        if not self._future.done():
            self._future.set_exception(Unanswered(f"{self.worker}: {reason}, {self.command} has no answer"))

    def line(self, timeout: float = ANSWER) -> Line:
        """The answer as it came, even if it is an error."""
        try:
            return self._future.result(timeout)
        except FutureTimeout:
            raise Unanswered(
                f"{self.worker}: no answer to {self.command} within {timeout} s\n{self.worker.last_words()}"
            ) from None

    def result(self, timeout: float = ANSWER) -> Line:
        """The answer; an error is raised."""
        line = self.line(timeout)
        if line["event"] == "error":
            raise WorkerError(line)
        if line["event"] == "unsupported":
            raise AssertionError(f"{self.worker} does not support {self.command['cmd']}")
        return line

    def expect(self, event: str, timeout: float = ANSWER) -> Line:
        """The answer, which must be this one."""
        line = self.result(timeout)
        assert line["event"] == event, f"{self.worker}: wanted {event}, got {line}"
        return line

    def error(self, timeout: float = ANSWER) -> WorkerError:
        """The error that the answer must be."""
        line = self.line(timeout)
        assert line["event"] == "error", f"{self.worker}: wanted an error for {self.command}, got {line}"
        return WorkerError(line)


def first_answered(pending: Iterable[Pending], timeout: float = ANSWER) -> list[Pending]:
    """Those whose answer is there, as soon as there is one."""
    asked = list(pending)
    wait_for([one._future for one in asked], timeout, FIRST_COMPLETED)
    if answered := [one for one in asked if one.done]:
        return answered
    raise Unanswered(f"no answer within {timeout} s to {[f'{one.worker}: {one.command}' for one in asked]}")


class Worker:
    """One process.

    Names (client `c`, lock `m`) have defaults, because most tests need only one of each.
    """

    _numbers = itertools.count(1)

    def __init__(self, surface: str | Surface, *, env: dict[str, str] | None = None) -> None:
        self.surface = ALL[surface] if isinstance(surface, str) else surface
        self.surface.require()
        self.name = f"{self.surface.name}#{next(self._numbers)}"
        self.history: list[Line] = []
        self.killed: int | None = None
        # Leases that the worker has reported lost, by the names of their latest acquires.
        self.lost: set[str] = set()
        # When the process was stopped, and when it resumed.
        self.pauses: list[tuple[int, int | None]] = []
        # Sessions that another client ended, and when that began.
        self._doomed: dict[int, int] = {}
        # Session ids by client, as reported when it connected.
        self.sessions: dict[str, int] = {}
        self._commands: dict[int, Pending] = {}
        self._paths: dict[str, str] = {}
        self._kinds: dict[str, str] = {}
        self._permits: dict[str, int | None] = {}
        self._members: dict[str, Sequence[str]] = {}
        self._ids = itertools.count(1)
        self._lock = threading.Lock()
        self._errors: deque[str] = deque(maxlen=40)
        self._news = threading.Condition()
        self._process = spawn(
            self.surface.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=TESTS,
            env=env,
        )
        self._readers = [
            threading.Thread(target=self._read_lines, daemon=True),
            threading.Thread(target=self._read_errors, daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def __str__(self) -> str:
        return self.name

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    # The pipe.

    def _read_lines(self) -> None:
        assert self._process.stdout is not None
        for raw in self._process.stdout:
            try:
                line: Line = json.loads(raw)
            except ValueError:
                self._errors.append(f"not JSON: {raw!r}")
                continue
            with self._news:
                self.history.append(line)
                if line["event"] == "lost":
                    self.lost.add(line["lease"])
                self._news.notify_all()
            pending = self._commands.get(line.get("id", -1))
            if pending is not None and line["event"] != "held" and not pending.done:
                pending.resolve(line)
        for pending in list(self._commands.values()):
            pending.abandon(f"the worker ended\n{self.last_words()}\n")
        with self._news:
            self._news.notify_all()

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        for raw in self._process.stderr:
            self._errors.append(raw.decode(errors="replace").rstrip())

    def last_words(self) -> str:
        """What the worker last wrote to its standard error."""
        return "\n".join(self._errors)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def send(self, cmd: str, **fields: Any) -> Pending:
        """Send a command and do not wait for its answer."""
        command = {"id": next(self._ids), "cmd": cmd, **fields}
        pending = Pending(self, command)
        self._commands[pending.id] = pending
        assert self._process.stdin is not None
        try:
            with self._lock:
                self._process.stdin.write(json.dumps(command).encode() + b"\n")
                self._process.stdin.flush()
        except (
            OSError,
            ValueError,
        ) as error:  # ValueError: it was killed, and the pipe is closed at our end too
            raise Unanswered(f"{self}: {error}; {self.last_words()}") from error
        return pending

    def call(self, cmd: str, *, answer_within: float = ANSWER, **fields: Any) -> Line:
        """Send a command and return its answer; an error is raised."""
        return self.send(cmd, **fields).result(answer_within)

    def wait_line(self, event: str, timeout: float = ANSWER, **fields: Any) -> Line:
        """Wait until a line like this is in the history."""
        deadline = time.monotonic() + timeout
        with self._news:
            while True:
                for line in self.history:
                    if line["event"] == event and all(
                        line.get(key) == value for key, value in fields.items()
                    ):
                        return line
                if not self._news.wait(max(0.0, deadline - time.monotonic())):
                    raise Unanswered(f"{self}: no {event} {fields} within {timeout} s\n{self.last_words()}")

    # The commands.

    def connect(
        self,
        hosts: str,
        *,
        client: str = "c",
        session_timeout: float | None = None,
        connect_timeout: float | None = None,
        auth: Sequence[tuple[str, str]] | None = None,
        acl: str | None = None,
        sasl: tuple[str, str] | None = None,
        tls: Mapping[str, str] | None = None,
        retries: int | None = None,
    ) -> int:
        """Connect a client; returns its session id. ``retries`` is for Curator, which else tries for ever."""
        options: Line = {"session_timeout": session_timeout, "connect_timeout": connect_timeout}
        options |= {"auth": auth, "acl": acl, "sasl": sasl, "tls": tls, "retries": retries}
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
        """Create a lock object, on a client or (with ``hosts``) on a shared one that its first use creates.

        The other options depend on its kind: ``permits``, ``shared_count``, ``label``.
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
        """Ask for that, and do not wait for the answer."""
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
        """Ask for the lock."""
        given = {"timeout": timeout, "count": count}
        given = {name: value for name, value in given.items() if value is not None}
        self.lost.discard(lease)
        return self.send("acquire", lock=lock, lease=lease, owner=owner, **given)

    def hold(
        self,
        lease: str = "l",
        *,
        lock: str = "m",
        owner: str = "a",
        timeout: float = ANSWER,
        count: int | None = None,
    ) -> Line:
        """Acquire and return the answer, which must be `acquired`."""
        return self.acquire(lease, lock=lock, owner=owner, count=count).expect("acquired", timeout)

    def try_acquire(
        self, lease: str = "l", *, lock: str = "m", owner: str = "a", count: int | None = None
    ) -> Line:
        """Ask for the lock without queueing; `acquired` or `busy`."""
        given = {} if count is None else {"count": count}
        return self.call("try", lock=lock, lease=lease, owner=owner, **given)

    def release(self, lease: str = "l", *, owner: str = "a", wait: bool = True) -> Line:
        """Release a lease."""
        return self.call("release", lease=lease, owner=owner, wait=wait)

    def check(self, lease: str = "l") -> Pending:
        """Ask whether the lease is held."""
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
        client: str = "c",
    ) -> Pending:
        """Let many owners contend; every hold is in the history, the answer is `done`."""
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
        )

    # The process.

    def interrupt(self) -> None:
        """SIGINT, as Ctrl-C sends it."""
        self._process.send_signal(signal.SIGINT)

    def pause(self) -> None:
        """SIGSTOP: the process stands still without knowing. What it holds is no longer certain."""
        self.pauses.append((_now(), None))
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._process.send_signal(signal.SIGCONT)
        if self.pauses:
            began, _ = self.pauses.pop()
            self.pauses.append((began, _now()))

    def kill(self) -> None:
        """Kill -9. As far as certainty goes, its holds end at this moment."""
        if self._process.poll() is None and self.killed is None:
            self.killed = _now()
        reap(self._process)
        for reader in self._readers:
            reader.join(5)

    def exit(self, timeout: float = ANSWER) -> None:
        """Let the worker end by itself; it must do so with status 0."""
        self.send("exit").expect("bye", timeout)
        try:
            status = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise Unanswered(f"{self} said bye and did not end within {timeout} s") from None
        for reader in self._readers:
            reader.join(5)
        assert status == 0, f"{self} ended with status {status}\n{self.last_words()}"
        reap(self._process)

    # The history.

    def holds(self) -> list[Hold]:
        """What this worker held for certain. Levels of re-entry are one hold."""
        return sorted(_Ledger(self).holds(), key=lambda hold: hold.granted)

    def presume_lost(self, lease: str = "l", at: int | None = None) -> None:
        """End a lease's certain hold, now or at a given time: the test is about to take the lock away."""
        with self._news:
            self.history.append({"event": "presumed lost", "lease": lease, "t": at or _now()})

    def presume_ended(self, session: int) -> None:
        """End all certain holds of a session now: the test is about to end the session."""
        self._doomed[session] = _now()

    def uncertain_from(self, granted: int, session: int) -> int:
        """When a hold granted then that still lasts ceases to be certain. Far in the future: never."""
        pauses = [began for began, ended in self.pauses if ended is None or ended > granted]
        ends = [*pauses, self._doomed.get(session, NEVER), NEVER if self.killed is None else self.killed]
        return max(granted, min(ends))

    def parts_of(self, lock: str) -> list[_Part]:
        """What an acquire of this lock object holds."""
        if lock not in self._members:
            return [_Part(self._paths[lock], self._kinds[lock], self._permits[lock])]
        return [part for member in self._members[lock] for part in self.parts_of(member)]

    def command(self, number: int) -> Line:
        """The command with this id."""
        return self._commands[number].command


@dataclass(frozen=True)
class _Part:
    """One lock as the history sees it."""

    path: str
    kind: str
    permits: int | None

    def holds_node(self, node: str) -> bool:
        """Whether a node, as reported by a lease, is one of this lock."""
        return node.startswith(self.path + "/") and ("__READ__" in node) == (self.kind == "read")

    @property
    def facts(self) -> dict[str, Any]:
        """How a hold of it differs from a mutex's."""
        if self.kind == "semaphore":
            return {"permits": UNKNOWN if self.permits is None else self.permits}
        return {"shared": self.kind == "read"}


class _Level:
    """One lease: a level of an owner's hold."""

    def __init__(self, part: _Part, owner: str, lock: str, line: Line) -> None:
        self.part = part
        self.owner = owner
        self.lock = lock
        self.line = line
        self.ended: int | None = None


class _Ledger:
    """Turns a worker's lines into holds."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._levels: list[_Level] = []
        self._leases: dict[str, _Level] = {}
        self._holds: list[Hold] = []

    def holds(self) -> list[Hold]:
        with self._worker._news:
            lines = list(self._worker.history)
        for line in lines:
            self._take(line)
        for level in self._levels:
            session = int(level.line.get("session", 0))
            self._end(level, self._worker.uncertain_from(level.line["t"], session))
        return self._holds + self._merged()

    def _take(self, line: Line) -> None:
        event = line["event"]
        if event in {"lost", "presumed lost"}:
            self._end(self._leases.get(line["lease"]), line["t"])
        elif event == "held":
            self._holds.append(self._held(line))
        elif event == "acquired":
            command = self._worker.command(line["id"])
            lock = command["lock"]
            parts = self._worker.parts_of(lock)
            for lease in line.get("leases", [{**line, "lease": command["lease"]}]):
                # A single lock's lease is its own; each of several locks has the lease whose node is its own.
                part = parts[0] if len(parts) == 1 else next(p for p in parts if p.holds_node(lease["node"]))
                level = _Level(part, command["owner"], lock, {**lease, "t": line["t"]})
                self._levels.append(level)
                self._leases[lease["lease"]] = level
        elif event == "released":
            command = self._worker.command(line["id"])
            if command["cmd"] == "unlock":
                mine = [
                    level
                    for level in self._levels
                    if level.ended is None
                    and (level.lock, level.owner) == (command["lock"], command["owner"])
                ]
                self._end(mine[-1] if mine else None, line["t0"])
            else:
                lease = command["lease"]
                for name, level in self._leases.items():
                    if name == lease or name.startswith(lease + "/"):
                        self._end(level, line["t0"])

    @staticmethod
    def _end(level: _Level | None, at: int) -> None:
        if level is not None and at < (NEVER if level.ended is None else level.ended):
            level.ended = at

    def _held(self, line: Line) -> Hold:
        command = self._worker.command(line["id"])
        return Hold(
            path=command["path"],
            **_Part(command["path"], command.get("kind", "mutex"), command.get("permits")).facts,
            worker=self._worker.name,
            owner=line["owner"],
            granted=line["t"],
            ended=line["t_end"],
            asked=line["t_wait"],
            **_node(line),
        )

    def _merged(self) -> list[Hold]:
        # One owner's levels on one node are one hold; levels of different owners never are, even on one node.
        groups: dict[tuple[_Part, str, str | None], list[_Level]] = {}
        for index, level in enumerate(self._levels):
            node = level.line.get("node") or f"unknown-{index}"
            groups.setdefault((level.part, level.owner, node), []).append(level)
        holds = []
        for (part, owner, _node_name), levels in groups.items():
            ends = [level.ended for level in levels]
            holds.append(
                Hold(
                    path=part.path,
                    worker=self._worker.name,
                    owner=owner,
                    **part.facts,
                    granted=min(level.line["t"] for level in levels),
                    ended=None if None in ends else max(end for end in ends if end is not None),
                    **_node(levels[0].line),
                )
            )
        return holds


def _node(line: Line) -> dict[str, Any]:
    name = line.get("node")
    token = line.get("token")
    return {
        "node": None if name is None else str(name).rsplit("/", 1)[-1],
        "token": None if token is None else int(token),
    }
