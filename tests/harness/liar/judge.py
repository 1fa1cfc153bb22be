"""Judges clients of lying servers: each must finish in time and must not believe a lie.

The clients run in a worker. While servers lie to them, another client of the same worker holds a lock on a
real server. If the lease of that lock stays held, the lies have not blocked the process.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.answers import Line, Pending, Unanswered
from harness.liar.server import Liar, Liars, Lie
from harness.liar.truth import DIRECTORY
from harness.worker import Worker

SESSION_TIMEOUT = 3.0
"""Session timeout of the clients in seconds. They send a heartbeat every 0.5 s. The term of a lease is 1.5 s:
without an acknowledged heartbeat or write, the client gives up the lease after this time."""

PATIENCE = 3.0
"""Timeout in seconds of a client's connect, and of its acquire."""

HOLD = 2.0
"""Time in seconds for which a client holds its lock: long enough for the lease to expire."""

CLOSE_LIMIT = 2.0
"""Maximum time in seconds that a close waits for the server's reply."""

MARGIN = 2.5
"""Maximum delay of a reply in seconds. On an idle machine, a timeout is at most 0.2 s late (S7). Here, a
hundred clients and servers share two processors with other programs."""

MEMORY = 64 * 1024
"""Maximum growth of the process's peak memory, in KiB."""

RATE = 5
"""Maximum number of new connections of a client per second, after the first second."""

FIRST_SECOND = 25
"""Maximum number of new connections in the first second, when the backoff is still short."""

WINDOW = 2.0
"""Number of seconds over which `RATE` is averaged, because the random pauses differ by a factor of 3."""

HONEST_TIMEOUT = 12.0
"""Session timeout in seconds of the client that holds a lock on the honest server. It is long enough that the
lease stays `held` if a heartbeat is two seconds late. This happens when eight threads share a processor."""

LEAST_REMAINING = HONEST_TIMEOUT / 6

POLL = 0.1

TRIALS = 16
"""Maximum number of bisection steps in the search for the lies that harm the process."""

CHOSEN = re.compile(os.environ.get("ZKLOCK_LIES", ""))
"""Pattern of the lies to run, by name."""

UNTOLD = "the lie was not told"

FATAL = re.compile(
    r"panicked at|memory allocation of|stack overflow|fatal runtime error|Fatal Python error|core dumped"
)

CODES = {"CONNECTION_FAILED", "AUTH_FAILED", "LOCK_LOST", "LOCK_TIMEOUT", "SEQUENCE_EXHAUSTED"}
"""Error codes with which a call to a liar can fail."""


@dataclass
class ClientResult:
    """Result of one liar's client: its replies, and the problems found."""

    liar: Liar
    # Replies by command.
    answers: dict[str, Line] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    done: float = 0.0

    def summary(self) -> str:
        """Return the result in one line."""
        heard = ", ".join(
            f"{name}: {line.get('code') or line['event']}" for name, line in self.answers.items()
        )
        told, accepts = len(self.liar.told), len(self.liar.accepts)
        return f"{self.liar}: {told} lies, {accepts} connections, {len(self.liar.requests)} requests; {heard}"


class LiarConversation:
    """The conversation of one client with one liar."""

    def __init__(self, worker: Worker, liar: Liar, name: str) -> None:
        self._worker = worker
        self._liar = liar
        self._name = name
        self.account = ClientResult(liar)

    def _ask(self, command: str, limit: float, **fields: object) -> Line | None:
        """Send a command. Return its reply, or None if there is none after `limit` plus `MARGIN` seconds."""
        pending = self._worker.send(command, owner=self._name, **fields)
        return self._await(command, pending, limit)

    def _await(self, command: str, pending: Pending, limit: float) -> Line | None:
        try:
            line = pending.line(limit + MARGIN)
        except Unanswered:
            self.account.wrong.append(f"{command}: no answer within {limit} s and {MARGIN} s more")
            return None
        self.account.answers[command] = line
        if line["event"] == "error":
            self._check_error(command, line)
        return line

    def _check_error(self, command: str, line: Line) -> None:
        message = line["message"]
        too_large = self._liar.lie.large and line.get("code") == "BAD_ARGUMENT"
        if line.get("code") not in CODES and not too_large:
            self.account.wrong.append(f"{command}: {line.get('type')} {line.get('code')}: {message[:300]!r}")
        if not message.isprintable() or len(message) > 2000:
            self.account.wrong.append(
                f"{command}: the message is too long or not printable: {message[:300]!r}"
            )

    def run(self) -> ClientResult:
        """Connect, acquire, hold, release and close."""
        name, lie = self._name, self._liar.lie
        options = {"session_timeout": SESSION_TIMEOUT, "connect_timeout": PATIENCE, **lie.options}
        connected = self._ask("connect", PATIENCE, client=name, hosts=self._liar.hosts, **options)
        if connected is not None and connected["event"] == "connected":
            self._worker.send("lock", owner=name, lock=name, path=DIRECTORY, client=name)
            acquired = self._ask("acquire", PATIENCE, lock=name, lease=name, timeout=PATIENCE)
            if acquired is not None and acquired["event"] == "acquired":
                self._hold(acquired)
            elif lie.harmless:
                self.account.wrong.append("the reply is true, but the lock was not granted")
            if lie.curious:
                contenders = self._ask("contenders", PATIENCE, lock=name)
                if lie.harmless and (contenders is None or contenders["event"] != "value"):
                    self.account.wrong.append("the reply is harmless, but the listing failed")
            self._ask("close", CLOSE_LIMIT, client=name)
        elif lie.harmless:
            self.account.wrong.append("the reply is true, but the client did not connect")
        self.account.done = time.monotonic()
        return self.account

    def _hold(self, acquired: Line) -> None:
        right = check_hold(self.account, acquired)
        ends = time.monotonic() + HOLD
        while right and (time.monotonic() < ends or self._is_told_late(ends)):
            state = self._await("state", self._worker.send("state", owner=self._name, lease=self._name), 0)
            if state is None:
                return
            if state.get("value") == "lost":
                break
            check_term(self.account, state["t0"] / 1e9, state["value"])
            time.sleep(POLL)
        self._ask("release", SESSION_TIMEOUT / 2, lease=self._name)

    def _is_told_late(self, ends: float) -> bool:
        """Return whether to wait for the server's lie, which can be late on a busy machine."""
        to_come = self._liar.lie.step == "beat" and not self._liar.told
        return to_come and time.monotonic() < ends + MARGIN


def check_hold(account: ClientResult, acquired: Line) -> bool:
    """Check that the server's true replies granted the lock. Return whether they did."""
    right = acquired["node"] in account.liar.truth.granted
    if not right:
        account.wrong.append(f"held wrongly: {acquired['node']} was not granted")
    if int(acquired["token"]) <= 0:
        account.wrong.append(f"a fencing token of {acquired['token']}")
    return right


def check_term(account: ClientResult, at: float, state: str) -> None:
    """Check that the lease was lost at most half a session timeout after the last acknowledged write."""
    proofs = list(account.liar.truth.proofs)
    ends = max((proof.asked + proof.timeout / 2 for proof in proofs), default=0.0)
    if at > ends:
        account.wrong.append(f"{state} {at - ends:.3f} s after the end of its proven term")


def check_record(account: ClientResult) -> None:
    """Check the liar's record of the client's connections."""
    liar, wrong = account.liar, account.wrong
    if not liar.told:
        wrong.append(UNTOLD)
    if not liar.accepts:
        return
    later = [at for at in liar.accepts if at > liar.accepts[0] + 1]
    for start in later:
        count = sum(start <= at < start + WINDOW for at in later)
        if count > RATE * WINDOW:
            wrong.append(f"{count} connections in {WINDOW} s")
            break
    if len(liar.accepts) - len(later) > FIRST_SECOND:
        wrong.append(f"{len(liar.accepts) - len(later)} connections in the first second")
    if late := [at for at in liar.accepts if at > account.done + MARGIN]:
        wrong.append(f"{len(late)} connections after the client was closed")


def peak_memory(pid: int) -> int:
    """Return the peak memory of a process in KiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"^VmHWM:\s+(\d+) kB", status, re.MULTILINE).group(1))  # type: ignore[union-attr]


@dataclass
class Verdict:
    """Results of one run: the result of each client, and the problems of the process as a whole."""

    accounts: list[ClientResult]
    # Problems of the whole process.
    wrong: list[str] = field(default_factory=list)
    growth: int = 0
    least: float = HONEST_TIMEOUT

    def problems(self) -> list[str]:
        """All problems, those of the clients first."""
        return [f"{account.liar}: {what}" for account in self.accounts for what in account.wrong] + self.wrong


def run_lies(worker: Worker, honest: str, path: str, lies: Sequence[Lie]) -> Verdict:
    """Run one client for each lie, all at the same time in one worker.

    Meanwhile the worker holds a lock on an honest server.
    """
    worker.connect(honest, client="honest", session_timeout=HONEST_TIMEOUT)
    worker.lock(path, lock="honest", client="honest")
    worker.hold("honest", lock="honest", owner="honest")
    before = peak_memory(worker.pid)
    with Liars() as liars, ThreadPoolExecutor(len(lies)) as pool:
        conversations = [LiarConversation(worker, liars.start(lie), f"l{n}") for n, lie in enumerate(lies)]
        pending = [pool.submit(conversation.run) for conversation in conversations]
        verdict = Verdict([conversation.account for conversation in conversations])
        _watch(worker, verdict, lambda: all(one.done() for one in pending))
        for one, conversation in zip(pending, conversations, strict=True):
            if (error := one.exception()) is not None:
                conversation.account.wrong.append(f"{type(error).__name__}: {str(error)[:300]}")
            check_record(conversation.account)
        if worker.alive:
            verdict.growth = peak_memory(worker.pid) - before
            if verdict.growth > MEMORY:
                verdict.wrong.append(f"the worker's memory grew by {verdict.growth // 1024} MiB")
            _leave(worker, verdict)
        verdict.wrong += _crashes_and_unprintable(worker.errors())
    return verdict


def _crashes_and_unprintable(lines: Sequence[str]) -> list[str]:
    """Report crashes and unprintable text in the lines of standard error."""
    fatal = [line for line in lines if FATAL.search(line)]
    unfit = [line for line in lines if not line.replace("\t", "").isprintable()]
    return [f"standard error, {len(found)} times: {found[0][:300]!r}" for found in (fatal, unfit) if found]


def _watch(worker: Worker, verdict: Verdict, done: Callable[[], bool]) -> None:
    """Watch the honest lease until all clients are done."""
    while not done():
        try:
            state = worker.send("state", lease="honest").line(2 * MARGIN)
        except Unanswered as error:
            verdict.wrong.append(f"the worker does not answer: {str(error)[:600]}")
            return
        verdict.least = min(verdict.least, state["remaining"])
        if state["value"] != "held" or state["remaining"] < LEAST_REMAINING:
            verdict.wrong.append(f"the honest lease is {state['value']}, {state['remaining']:.2f} s remain")
            return
        time.sleep(POLL / 2)


def _leave(worker: Worker, verdict: Verdict) -> None:
    """Check that the worker can still release the lock on the honest server, and exits by itself."""
    try:
        worker.release("honest", owner="honest")
        worker.exit()
    except Exception as error:
        verdict.wrong.append(f"at the end: {type(error).__name__}: {str(error)[:600]}")


def judge(start: Callable[[], Worker], honest: str, path: str, lies: Sequence[Lie]) -> Verdict:
    """Run one worker against all lies. If the process as a whole is harmed, find the lies that cause it.

    On a busy machine some clients do not reach their lies in time. They run once more.
    """
    verdict = run_lies(start(), honest, path, lies)
    untold = [account.liar.lie for account in verdict.accounts if account.wrong == [UNTOLD]]
    if untold and not verdict.wrong:
        second = run_lies(start(), honest, f"{path}-again", untold)
        told = [account for account in verdict.accounts if account.wrong != [UNTOLD]]
        verdict = Verdict(told + second.accounts, second.wrong)
    suspects = [list(lies)] if verdict.wrong and len(lies) > 1 else []
    for number in range(TRIALS):
        if not suspects:
            break
        some = suspects.pop(0)
        for half in (some[: len(some) // 2], some[len(some) // 2 :]):
            again = run_lies(start(), honest, f"{path}-{number}", half)
            if again.wrong and len(half) > 1:
                suspects.append(half)
            elif again.wrong:
                verdict.wrong.append(f"{half[0].name} alone: {'; '.join(again.wrong)[:600]}")
    return verdict


def assert_unharmed(start: Callable[[], Worker], honest: str, path: str, lies: Sequence[Lie]) -> None:
    """Run the lies that `ZKLOCK_LIES` selects, by default all. Fail with a list of all problems."""
    chosen = [lie for lie in lies if CHOSEN.search(lie.name)]
    if not chosen:
        pytest.skip("ZKLOCK_LIES selects none of these lies")
    problems = judge(start, honest, path, chosen).problems()
    assert not problems, f"{len(problems)} problems with {len(chosen)} liars:\n" + "\n".join(problems)
