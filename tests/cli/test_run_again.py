"""Suspending, stopping and signalling `zklock` works repeatedly, and so do `revoke` and `break`."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest

from cli.lag import Lag
from harness.command import Command, Log, is_alive, run, state
from harness.observer import Observer
from harness.ports import free_port
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import eventually

SESSION = "20"
"""Session timeout in seconds. Half of it (the term of the lock) is long enough to reconnect twice."""


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Provide the log file of this test's jobs."""
    return Log(tmp_path)


def event_names(err: str) -> list[str]:
    """Return the events of a JSON log."""
    return [json.loads(line)["event"] for line in err.splitlines()]


@pytest.mark.parametrize("how", ["refused", "silent"])
def test_s800_suspended_twice(proxy: Proxy, observer: Observer, path: str, log: Log, how: str) -> None:
    flags = ["--session-timeout", SESSION, "-v", "--log", "json", "--on-suspend", "stop"]
    with Command(proxy.hosts, "run", *flags, path, "--", *log.job("tick", "120")) as command:
        (started,) = log.wait("start")
        for _ in range(2):
            log.wait("tick", len(log.events("tick")) + 10)
            if how == "refused":
                proxy.refuse()
            else:
                proxy.black_hole()
            eventually(lambda: state(started.pid) == "T", "the command is stopped", 12)
            during = len(log.events("tick"))
            assert len(log.events("tick")) == during
            if how == "refused":
                proxy.accept()
            else:
                proxy.heal()
            log.wait("tick", during + 10)
        assert log.events("SIGTERM") == []
        command.signal(signal.SIGTERM)
        ended = command.wait()
    assert ended.status == 3
    stops = [event for event in event_names(ended.err) if event in ("stopped", "continued")]
    assert stops == ["stopped", "continued"] * 2
    observer.assert_free(path)


def test_s801_paused_twice(server: Standalone, observer: Observer, path: str, log: Log) -> None:
    flags = ["run", "--session-timeout", SESSION]
    with Command(server.hosts, *flags, path, "--", *log.job("tick", "120")) as command:
        (node,) = observer.wait_queue(path, 1)
        for _ in range(2):
            log.wait("tick", len(log.events("tick")) + 10)
            for _ in range(2):
                command.signal(signal.SIGSTOP)
            eventually(lambda: state(command.process.pid) == "T", "zklock is stopped")
            time.sleep(0.5)  # the pause
            for _ in range(2):
                command.signal(signal.SIGCONT)
        log.wait("tick", len(log.events("tick")) + 10)
        assert observer.queue(path) == [node]
        command.signal(signal.SIGTERM)
        assert command.wait().status == 3
    assert len(log.events("SIGTERM")) == 1
    observer.assert_free(path)


def test_s802_signalled_twice(server: Standalone, observer: Observer, path: str, log: Log) -> None:
    words = ["run", path, "--", *log.job("tick", "-SIGTERM", "-SIGUSR1", "child")]
    with Command(server.hosts, *words) as command:
        pids = {event.pid for event in log.wait("start", 2)}
        for number, name in enumerate(["SIGTERM", "SIGUSR1", "SIGTERM", "SIGUSR1"]):
            command.signal(getattr(signal, name))
            log.wait(name, 2 * (number // 2 + 1))
        # A job that ignores the request keeps its lock.
        assert len(observer.queue(path)) == 1
        assert command.process.poll() is None
        command.signal(signal.SIGINT)
        assert command.wait().status == 3
    for name, count in (("SIGTERM", 4), ("SIGUSR1", 4), ("SIGINT", 2)):
        assert len(log.events(name)) == count, name
    eventually(lambda: not any(map(is_alive, pids)), "all processes of the group have exited")
    observer.assert_free(path)


def test_s802_signalled_twice_while_waiting(server: Standalone, observer: Observer, path: str) -> None:
    with Command(server.hosts, "run", path, "--", "sleep", "60") as holder:
        (first,) = observer.wait_queue(path, 1)
        with Command(server.hosts, "run", path, "--", "echo", "ran") as waiter:
            observer.wait_queue(path, 2)
            for number in (signal.SIGTERM, signal.SIGTERM):
                # The waiter can have exited before the second signal.
                waiter.process.send_signal(number)
            ended = waiter.wait()
        assert (ended.status, ended.out) == (128 + signal.SIGTERM, "")
        assert observer.queue(path) == [first]
        assert holder.process.poll() is None


def test_s802_signalled_while_no_server_answers(proxy: Proxy, path: str, log: Log) -> None:
    """`zklock` exits although it cannot reach a server, and a second signal does no harm."""
    proxy.black_hole()
    with Command(proxy.hosts, "run", path, "--", *log.job("0")) as waiter, Lag() as lag:
        time.sleep(0.3)  # a silence
        began = time.monotonic()
        for _ in range(2):
            waiter.process.send_signal(signal.SIGTERM)
        assert waiter.wait().status == 128 + signal.SIGTERM
        # `zklock` waits up to 2 s for the reply to the close of its session.
        assert time.monotonic() - began < 6 + lag.late / 1e9
    proxy.heal()
    assert log.events("start") == []


def test_s803_revoked_and_broken_twice(server: Standalone, observer: Observer, path: str, log: Log) -> None:
    flags = ["run", "--log", "json", path, "--", *log.job("tick")]
    with Command(server.hosts, *flags) as command:
        (node,) = observer.wait_queue(path, 1)
        log.wait("tick")
        for _ in range(2):
            assert run(server.hosts, "revoke", path, node).status == 0
        eventually(lambda: "revoked" in command.errors(), "the request is reported")
        assert log.events("SIGTERM") == []
        assert run(server.hosts, "break", "--yes", path, node).status == 0
        assert command.wait().status == 79
        for words in (("break", "--yes"), ("revoke",)):
            again = run(server.hosts, *words, path, node)
            assert (again.status, node in again.err) == (1, True), words
    observer.assert_free(path)
    # The path can be used again like a new one.
    assert run(server.hosts, "run", "-n", path, "--", "true").status == 0


def test_s804_a_server_for_development_again(path: str) -> None:
    port = str(free_port())
    hosts = f"127.0.0.1:{port}"
    for _ in range(2):
        with Command("", "dev", "--port", port) as served:
            served.read_until("listening")
            # No data of the previous server is left.
            assert run(hosts, "run", "-n", path, "--", "true").status == 0
            for _ in range(2):
                served.process.send_signal(signal.SIGTERM)
            assert served.wait().status == 0
        assert run(hosts, "run", "-w", "0.5", path, "--", "true").status == 69
