"""Tests of `zklock run --grace` and `--max-waiters`."""

from __future__ import annotations

import re
from contextlib import ExitStack
from pathlib import Path

import pytest

from cli.lag import Lag
from harness.answers import now
from harness.command import Command, Log, run
from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Standalone

SESSION = 6.0
TERM = int(SESSION / 2 * 1e9)
GRACE = 1.0
"""Grace period in seconds. This is the maximum, a sixth of the session timeout."""
LEFT = re.compile(r"with (\d\.\d{3}) s of the lock's term left")


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Provide the log file of this test's jobs."""
    return Log(tmp_path)


def graceful(proxy: Proxy, path: str, log: Log, *words: str) -> Command:
    """Start a command with a grace period, and wait until its job runs."""
    options = ("-v", "--session-timeout", f"{SESSION}", "--grace", f"{GRACE}")
    command = Command(proxy.hosts, "run", *options, path, "--", *log.job("tick", *words))
    log.wait("tick")
    return command


def test_s832_a_command_that_stops_in_its_grace(
    server: Standalone, proxy: Proxy, observer: Observer, path: str, log: Log, tmp_path: Path
) -> None:
    others = Log(tmp_path)
    others.path = tmp_path / "others"
    with (
        graceful(proxy, path, log) as command,
        Command(server.hosts, "run", path, "--", *others.job("0")) as other,
        Lag() as lag,
    ):
        observer.wait_queue(path, 2)
        proxy.black_hole()
        cut = now()
        ended = command.wait()
        assert ended.status == 79
        (output,) = log.events("SIGTERM")
        assert output.time <= cut + TERM - int(GRACE * 1e9) + lag.late, (
            "the command received SIGTERM later than a grace before the end of the term"
        )
        # The loss causes the signal, so it is reported before it.
        assert ended.err.index("is lost (term ended") < ended.err.index("lost while the command ran")
        left = LEFT.search(ended.err)
        assert left is not None, ended.err
        assert float(left[1]) <= GRACE
        assert "SIGKILL" not in ended.err
        proxy.heal()
        assert other.wait().status == 0
        assert others.events("start")[0].time > output.time


def test_s832_a_command_that_does_not_stop_in_its_grace(proxy: Proxy, path: str, log: Log) -> None:
    with graceful(proxy, path, log, "-SIGTERM") as command, Lag() as lag:
        proxy.black_hole()
        ended = command.wait()
    assert ended.status == 79
    assert len(log.events("SIGTERM")) == 1
    left = LEFT.search(ended.err)
    # SIGKILL is due 0.2 s before the end of the term (half a session timeout after the last confirmed
    # heartbeat). If the machine stalls longer, `zklock` sends it too late.
    assert "was ended by SIGKILL" in ended.err
    assert left is not None or lag.late >= 0.2e9, ended.err
    assert left is None or float(left[1]) <= 0.2


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--session-timeout", "6", "--grace", "1100ms"], "--grace: must be at most 1s"),
        (["--grace", "1", "--kill-after", "1"], "cannot be used with"),
        (["--max-waiters", "1", "-n"], "cannot be used with"),
        (["--max-waiters", "-1"], "unexpected argument"),
        (["--max-waiters", "many"], "invalid value"),
    ],
)
def test_s832_invalid_options(
    server: Standalone, path: str, log: Log, options: list[str], problem: str
) -> None:
    ended = run(server.hosts, "run", *options, path, "--", *log.job("0"))
    assert ended.status == 64
    assert problem in ended.err
    assert log.events() == []


@pytest.mark.parametrize("kind", [[], ["-x"], ["--slots", "1"], ["--once", "slot"]], ids=" ".join)
def test_s833_a_queue_that_is_full(
    server: Standalone, observer: Observer, path: str, kind: list[str]
) -> None:
    queue = f"{path}/leases" if "--slots" in kind else path
    with ExitStack() as stack:
        running = [stack.enter_context(Command(server.hosts, "run", *kind, path, "--", "cat"))]
        observer.wait_queue(queue, 1)
        for waiting in range(3):
            limit = ["--max-waiters", f"{waiting}"]
            refused = run(server.hosts, "run", *kind, *limit, path, "--", "echo", "never")
            assert (refused.status, refused.out) == (75, "")
            who = [
                "it is taken, and no waiters are allowed",
                "1 contender waits for it, and no more are allowed",
                "2 contenders wait for it, and no more are allowed",
            ][waiting]
            output = f'"{path}" is full: {who} (--max-waiters); run `zklock ls` to list the contenders'
            assert refused.err == f"zklock: {output}\n"
            quiet = run(server.hosts, "run", "-E", "0", *kind, *limit, path, "--", "echo", "never")
            assert (quiet.status, quiet.out, quiet.err) == (0, "", "")
            # With a higher limit, one more command can wait.
            more = ["--max-waiters", f"{waiting + 1}"]
            running.append(stack.enter_context(Command(server.hosts, "run", *kind, *more, path, "--", "cat")))
            waits = f"{path}/locks" if "--slots" in kind else path
            observer.wait_queue(waits, waiting + 1 if "--slots" in kind else waiting + 2)
        for command in running:
            assert command.process.stdin is not None
            command.process.stdin.close()
            assert command.wait().status == 0
    observer.assert_free(queue)


def test_s833_a_path_like_the_message(server: Standalone, observer: Observer, path: str) -> None:
    path = f"{path} (max_waiters) and more"
    with Command(server.hosts, "run", path, "--", "cat") as holder:
        observer.wait_queue(path, 1)
        refused = run(server.hosts, "run", "--max-waiters", "0", path, "--", "echo", "never")
        full = f'"{path}" is full: it is taken, and no waiters are allowed'
        output = f"zklock: {full} (--max-waiters); run `zklock ls` to list the contenders\n"
        assert (refused.status, refused.err) == (75, output)
        assert holder.process.stdin is not None
        holder.process.stdin.close()
        assert holder.wait().status == 0


def test_s833_a_lock_that_is_free(server: Standalone, path: str) -> None:
    ended = run(server.hosts, "run", "--max-waiters", "0", path, "--", "echo", "done")
    assert (ended.status, ended.out) == (0, "done\n")
