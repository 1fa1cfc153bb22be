"""`zklock run` ends its command before another client can acquire the lock."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path

import pytest

from cli.lag import Lag
from harness.answers import now
from harness.command import Command, Log, is_alive, run, state
from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import eventually

SESSION = 4.0
TERM = int(SESSION / 2 * 1e9)
"""Term of the lock in nanoseconds. `zklock` must kill its command within this time after the last reply."""

MARGIN = int(0.2e9)

TRIES = 3


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Provide the log file of this test's jobs."""
    return Log(tmp_path)


def held(
    proxy: Proxy, path: str, log: Log, options: list[str], *words: str, session: float = SESSION
) -> Command:
    """Start a command with a session timeout of four seconds by default, and wait until its job runs."""
    timeout = ("--session-timeout", f"{session}")
    command = Command(proxy.hosts, "run", *timeout, *options, path, "--", *log.job("tick", *words))
    log.wait("tick")
    return command


def test_s551_a_black_hole(
    server: Standalone, proxy: Proxy, observer: Observer, path: str, log: Log, tmp_path: Path
) -> None:
    others = Log(tmp_path / "..")
    others.path = tmp_path / "others"
    # The job ignores SIGTERM, and so does its child.
    with (
        held(proxy, path, log, [], "child", "-SIGTERM") as command,
        Command(server.hosts, "run", path, "--", *others.job("0")) as other,
        Lag() as lag,
    ):
        observer.wait_queue(path, 2)
        log.wait("start", 2)
        proxy.black_hole()
        cut = now()
        ended = command.wait()
        assert ended.status == 79
        # `zklock` can have given up its connection by then.
        silent = rf"\({proxy.hosts}(: no answer| answered at first, but then stopped answering)\)"
        assert re.search(rf"no server confirmed the session for \d\.\d s {silent}", ended.err)
        last = max(event.time for event in log.events("tick"))
        # SIGKILL is due 0.2 s before the end of the term. If the machine stalls longer, `zklock` sends it too
        # late.
        assert last <= cut + TERM + max(0, lag.late - MARGIN), "no tick after the end of the term"
        output = log.events("SIGTERM")
        # A job that does not run between the two signals cannot log the first one.
        assert len(output) == 2 or lag.late >= int(SESSION / 8 * 1e9) - MARGIN
        # SIGTERM is sent at least an eighth of the session timeout before the end of the term.
        assert all(event.time <= cut + TERM - int(SESSION / 8 * 1e9) + lag.late for event in output)
        # The killed children can be reaped later than the command.
        pids = {event.pid for event in log.events("start")}
        eventually(lambda: not any(map(is_alive, pids)), "all processes of the group have exited")
        proxy.heal()
        assert other.wait().status == 0
        assert others.events("start")[0].time > last, "the next job began before the last line of this one"


def test_s551_killed_before_the_end_of_the_term(proxy: Proxy, path: str, log: Log) -> None:
    """`zklock` kills the command before the term ends, and logs how much of the term is left.

    If the machine stalls, `zklock` can kill the command too late. The test therefore fails only if this
    happens in every try.
    """
    said = []
    for _ in range(TRIES):
        with held(proxy, path, log, [], "-SIGTERM") as command, Lag() as lag:
            proxy.black_hole()
            ended = command.wait()
        proxy.heal()
        log.path.unlink()
        assert ended.status == 79
        left = re.search(r"was ended by SIGKILL, with (0\.\d{3}) s of the lock's term left", ended.err)
        if left is None:
            assert lag.late >= MARGIN, ended.err
        else:
            assert 0 < float(left[1]) <= MARGIN / 1e9, "the command was killed too early"
        said.append(left is not None)
    assert any(said), "every kill was late"


def test_s552_a_broken_lock(proxy: Proxy, observer: Observer, path: str, log: Log) -> None:
    with held(proxy, path, log, []) as command, Lag() as lag:
        (node,) = observer.wait_queue(path, 1)
        observer.delete(f"{path}/{node}")
        gone = now()
        (output,) = log.wait("SIGTERM")
        assert output.time - gone < TERM / 2 + lag.late, (
            "the command received SIGTERM only at the end of the term"
        )
        assert command.wait().status == 79
    # A command that ignores SIGTERM is killed.
    log.path.unlink()
    with held(proxy, path, log, [], "-SIGTERM", "child") as command:
        (node,) = observer.wait_queue(path, 1)
        log.wait("start", 2)
        observer.delete(f"{path}/{node}")
        assert command.wait().status == 79
        pids = {event.pid for event in log.events("start")}
        eventually(lambda: not any(map(is_alive, pids)), "all processes of the group have exited")


def test_s555_a_suspended_command_is_stopped(proxy: Proxy, observer: Observer, path: str, log: Log) -> None:
    # Long enough to find a server again.
    with held(proxy, path, log, ["--on-suspend", "stop"], "60", session=20) as command:
        (started,) = log.wait("start")
        # `refuse` cuts the connection and refuses new ones in one step. If these were two steps, the client
        # would reconnect between them.
        proxy.refuse()
        eventually(lambda: state(started.pid) == "T", "the command is stopped", 8)
        during = len(log.events("tick"))
        assert state(started.pid) == "T"
        assert len(log.events("tick")) == during
        proxy.accept()
        log.wait("tick", during + 10)
        assert log.events("SIGTERM") == []
        command.signal(signal.SIGTERM)
        assert command.wait().status == 3
    observer.assert_free(path)


def test_s555_a_late_heartbeat_stops_the_command(proxy: Proxy, path: str, log: Log) -> None:
    """The command is stopped when no replies arrive on a connection that seems to work.

    The library suspends the lease only when a sixth of the session timeout is left of the term. `zklock` must
    stop the command earlier, with at least a quarter left.
    """
    flags = ["-v", "--log", "json", "--on-suspend", "stop"]
    with held(proxy, path, log, flags, "60", session=20) as command, Lag() as lag:
        (started,) = log.wait("start")
        proxy.black_hole()
        eventually(lambda: state(started.pid) == "T", "the command is stopped", 12)
        proxy.heal()
        command.signal(signal.SIGTERM)
        ended = command.wait()
    said = next(message for event, message in events(ended.err) if event == "stopped")
    left = re.search(r"(\d+\.\d{3}) s of the lock's term are left", said)
    assert left is not None
    assert float(left[1]) > 20 / 4 - lag.late / 1e9


def test_s556_a_suspended_command_is_terminated(proxy: Proxy, path: str, log: Log) -> None:
    with held(proxy, path, log, ["--on-suspend", "term"]) as command, Lag() as lag:
        proxy.refuse()
        cut = now()
        (output,) = log.wait("SIGTERM")
        assert output.time - cut < TERM / 2 + lag.late
        proxy.accept()
        assert command.wait().status == 79


def test_s557_what_a_loss_does(proxy: Proxy, observer: Observer, path: str, log: Log) -> None:
    with held(proxy, path, log, ["--on-lost", "kill"]) as command, Lag() as lag:
        proxy.black_hole()
        cut = now()
        assert command.wait().status == 79
        assert log.events("SIGTERM") == []
        last = max(event.time for event in log.events("tick"))
        assert last <= cut + TERM + max(0, lag.late - MARGIN)
        proxy.heal()
    log.path.unlink()
    with held(proxy, path, log, ["--on-lost", "ignore"], "2") as command:
        (node,) = observer.queue(path)[-1:]
        observer.delete(f"{path}/{node}")
        ended = command.wait()
        assert ended.status == 0
        assert "lost" in ended.err, "the loss is not reported"
        assert len(log.events("end")) == 1


def events(err: str) -> list[tuple[str, str]]:
    """Return each event of the JSON log with its message."""
    reports = [json.loads(line) for line in err.splitlines()]
    assert all(set(report) == {"time", "event", "message"} for report in reports)
    return [(report["event"], report["message"]) for report in reports]


def test_s690_a_loss_is_reported_when_it_happens(
    proxy: Proxy, observer: Observer, path: str, log: Log
) -> None:
    with held(proxy, path, log, ["--on-lost", "ignore", "--log", "json"], "2") as command:
        (node,) = observer.queue(path)[-1:]
        observer.delete(f"{path}/{node}")
        ended = command.wait()
    assert ended.status == 0
    (lost, message), (last, _) = events(ended.err)
    assert (lost, last) == ("lost", "ended")
    assert re.search(r"is lost \(node deleted, token \d+\); the command continues without it", message)
    times = [json.loads(line)["time"] for line in ended.err.splitlines()]
    assert times == sorted(times)
    assert times[0] < times[1], "the loss was reported only at the end of the command"


def test_s690_connections_and_stops_are_reported_on_request(
    proxy: Proxy, observer: Observer, path: str, log: Log
) -> None:
    flags = ["-v", "--log", "json", "--on-suspend", "stop"]
    with held(proxy, path, log, flags, "60", session=20) as command:
        (started,) = log.wait("start")
        proxy.refuse()
        eventually(lambda: state(started.pid) == "T", "the command is stopped", 8)
        during = len(log.events("tick"))
        proxy.accept()
        log.wait("tick", during + 10)
        command.signal(signal.SIGTERM)
        ended = command.wait()
    output = events(ended.err)
    names = [name for name, _ in output]
    # The connection and the lease are watched independently, so their events can be in either order.
    assert sorted(names) == ["connected", "continued", "stopped", "suspended"], output
    assert names.index("stopped") < names.index("continued")
    assert names.index("suspended") < names.index("connected")
    said = dict(output)
    assert re.search(r"held for at least another \d\.\d{3} s", said["suspended"])
    assert said["connected"] == f"reconnected to {proxy.hosts}"
    assert "is stopped" in said["stopped"]
    observer.assert_free(path)


def test_s558_kill_after(proxy: Proxy, path: str, log: Log) -> None:
    with held(proxy, path, log, ["--kill-after", "0.9"], "-SIGTERM") as command, Lag() as lag:
        proxy.black_hole()
        cut = now()
        assert command.wait().status == 79
        output = log.events("SIGTERM")
        # A job that does not run between the two signals cannot log the first one.
        assert len(output) == 1 or lag.late >= int(0.9e9) - MARGIN
        last = max(event.time for event in log.events("tick"))
        for event in output:
            assert event.time <= cut + TERM - int(0.9e9) + lag.late
            assert last - event.time > 0.9e9 - MARGIN - lag.late, "the command was killed too early"
        proxy.heal()


def test_s563_a_paused_zklock(server: Standalone, observer: Observer, path: str, log: Log) -> None:
    """A `zklock` that is stopped (SIGSTOP) cannot end its command. It ends the command after SIGCONT."""
    with held_by(server, path, log) as command, Lag() as lag:
        command.signal(signal.SIGSTOP)
        observer.wait_queue(path, 0, timeout=SESSION * 3)
        command.signal(signal.SIGCONT)
        woken = now()
        assert command.wait().status == 79
        last = max(event.time for event in log.events("tick"))
        assert last < woken + TERM / 4 + lag.late
    assert run(server.hosts, "run", "-n", path, "--", "true").status == 0


def test_s691_a_pause_in_which_the_lock_can_still_be_proven(
    proxy: Proxy, observer: Observer, path: str, log: Log
) -> None:
    """After a pause, the command continues if a server confirms the lock before the term ends."""
    flags = ["run", "--session-timeout", "20", "--kill-after", "5", "-v", "--log", "json"]
    with Command(proxy.hosts, *flags, path, "--", *log.job("tick", "60")) as command:
        log.wait("tick")
        command.signal(signal.SIGSTOP)
        # Without the delay, a server could confirm the lock before `zklock` notices that it was paused.
        proxy.black_hole()
        time.sleep(5.2)  # the pause
        command.signal(signal.SIGCONT)
        eventually(lambda: '"stopped"' in command.errors(), "the job is stopped")
        proxy.heal()
        log.wait("tick", len(log.events("tick")) + 10)
        assert log.events("SIGTERM") == []
        command.signal(signal.SIGTERM)
        ended = command.wait()
        assert ended.status == 3
    assert [event for event, _ in events(ended.err)] == ["stopped", "continued"]
    observer.assert_free(path)


def test_s692_a_client_asks_for_the_lock(server: Standalone, observer: Observer, path: str, log: Log) -> None:
    ours = ["run", "--label", "ours", "--log", "json", path, "--", *log.job("tick")]
    for flags, status, then in (
        (["--on-revoke", "term"], 3, "the command receives SIGTERM"),
        ([], 0, "the command continues to run (--on-revoke term would end it)"),
    ):
        with Command(server.hosts, ours[0], *flags, *ours[1:]) as command:
            log.wait("tick")
            # `revoke` takes a node or the holder's label.
            which = [observer.queue(path)[0]] if flags else ["--holder", "ours"]
            assert run(server.hosts, "revoke", path, *which).status == 0
            if flags:
                log.wait("SIGTERM")
            else:
                eventually(lambda: "requests the lock" in command.errors(), "the request is reported")
                assert log.events("SIGTERM") == []
                shown = run(server.hosts, "ls", path).out
                assert "ours (" in shown, "the holder's node has lost its description"
                command.signal(signal.SIGKILL)
                command.process.wait()
                break
            ended = command.wait()
        assert ended.status == status
        assert events(ended.err) == [("revoked", f'another client requests the lock "{path}"; {then}')]
        log.path.unlink()


def test_s693_the_holder_is_named_by_its_label(
    server: Standalone, observer: Observer, path: str, log: Log
) -> None:
    words = ["run", "--label", "ours", "-s", path, "--", *log.job("tick")]
    with Command(server.hosts, *words) as one, Command(server.hosts, *words) as other:
        observer.wait_queue(path, 2)
        several = run(server.hosts, "break", "--yes", path, "--holder", "ours")
        assert several.status == 1
        assert "2 holders" in several.err
        assert all(f"{path}/{node}" in several.err for node in observer.queue(path))
        other.signal(signal.SIGTERM)
        other.wait()
        refused = run(server.hosts, "break", "--yes", path, "--holder", "theirs")
        assert refused.status == 1
        assert "no holder with the label theirs" in refused.err
        assert run(server.hosts, "break", "--yes", path, "--holder", "ours").status == 0
        assert one.wait().status == 79
    both = run(server.hosts, "break", path, "a-0000000001", "--holder", "ours")
    assert both.status == 64


def held_by(server: Standalone, path: str, log: Log) -> Command:
    """Like `held`, but without a proxy."""
    words = ("run", "--session-timeout", f"{SESSION}", path, "--", *log.job("tick", "-SIGTERM"))
    command = Command(server.hosts, *words)
    log.wait("tick")
    return command
