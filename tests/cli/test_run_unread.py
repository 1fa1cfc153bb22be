"""`zklock run` works even if its standard error blocks, because a pipe is full or the user pressed Ctrl-S."""

from __future__ import annotations

import os
import pty
import termios
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest

from cli.lag import Lag
from cli.test_run_loss import MARGIN, SESSION, TERM
from harness.answers import now
from harness.command import Command, Log, run
from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Standalone


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Provide the log file of the test's job."""
    return Log(tmp_path)


@contextmanager
def full_pipe() -> Iterator[int]:
    """Provide the write end of a full pipe, on which every write blocks."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    for size in (4096, 1):
        with suppress(BlockingIOError):
            while True:
                os.write(writer, bytes(size))
    os.set_blocking(writer, True)
    try:
        yield writer
    finally:
        os.close(writer)
        os.close(reader)


@contextmanager
def stopped_terminal() -> Iterator[int]:
    """Provide a terminal whose output is stopped."""
    reader, writer = pty.openpty()
    termios.tcflow(writer, termios.TCOOFF)
    try:
        yield writer
    finally:
        os.close(writer)
        os.close(reader)


@contextmanager
def read() -> Iterator[None]:
    """Provide the normal standard error, for comparison."""
    yield None


FLAGS = [[], ["-v"], ["-v", "--log", "json"]]


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("errors", [read, full_pipe, stopped_terminal])
def test_s810_a_broken_lock(
    server: Standalone,
    observer: Observer,
    path: str,
    log: Log,
    flags: list[str],
    errors: Callable[[], AbstractContextManager[int | None]],
) -> None:
    words = ("run", *flags, path, "--", *log.job("tick"))
    with errors() as unread, Command(server.hosts, *words, err=unread) as command:
        log.wait("tick")
        (node,) = observer.wait_queue(path, 1)
        assert run(server.hosts, "break", "--yes", path, node).status == 0
        log.wait("SIGTERM")
        assert command.wait().status == 79


@pytest.mark.parametrize("flags", FLAGS)
def test_s810_a_request_to_give_up(
    server: Standalone, observer: Observer, path: str, log: Log, flags: list[str]
) -> None:
    words = ("run", "--on-revoke", "term", *flags, path, "--", *log.job("tick"))
    with full_pipe() as pipe, Command(server.hosts, *words, err=pipe) as command:
        log.wait("tick")
        (node,) = observer.wait_queue(path, 1)
        assert run(server.hosts, "revoke", path, node).status == 0
        log.wait("SIGTERM")
        assert command.wait().status == 3
    observer.assert_free(path)


@pytest.mark.parametrize("flags", FLAGS)
def test_s810_a_request_to_give_up_and_then_silence(
    proxy: Proxy, server: Standalone, observer: Observer, path: str, log: Log, flags: list[str]
) -> None:
    """If a command ignores SIGTERM, `zklock` kills it in time, even while no process reads the reports."""
    timeout = ("--session-timeout", f"{SESSION}")
    words = ("run", *timeout, "--on-revoke", "term", *flags, path, "--", *log.job("tick", "-SIGTERM"))
    with full_pipe() as pipe, Command(proxy.hosts, *words, err=pipe) as command:
        log.wait("tick")
        (node,) = observer.wait_queue(path, 1)
        assert run(server.hosts, "revoke", path, node).status == 0
        log.wait("SIGTERM")
        with Lag() as lag:
            proxy.black_hole()
            cut = now()
            assert command.wait().status == 79
        last = max(event.time for event in log.events("tick"))
        assert last <= cut + TERM + max(0, lag.late - MARGIN), "no tick after the end of the term"
