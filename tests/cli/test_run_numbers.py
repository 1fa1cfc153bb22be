"""Tests of the numbers that `zklock run` reports, and of the duration of its waits."""

from __future__ import annotations

import json
import re
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from cli.test_metrics import metrics_of
from cli.test_numbers import about, shown_age, wall
from harness.answers import now
from harness.command import Command, run
from harness.observer import Observer
from harness.proxy import Proxy
from harness.reported import Moment
from harness.server import Standalone
from harness.stalls import STALL_MONITOR
from harness.steps import LATE, assert_within, eventually

WRITES = {"create", "create2", "multi", "delete", "createContainer"}


def milliseconds(text: str) -> int:
    """Return the time of a report in milliseconds since 1970."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def events(command: Command) -> list[dict[str, str]]:
    """Return all reports in the JSON log so far."""
    return [json.loads(line) for line in command.errors().splitlines()]


def event(command: Command, name: str) -> dict[str, str]:
    """Wait for an event and return it."""
    eventually(lambda: any(one["event"] == name for one in events(command)), f"zklock reports {name}")
    return next(one for one in events(command) if one["event"] == name)


@contextmanager
def running(hosts: str, *words: str) -> Iterator[Command]:
    """Run the block while a command runs under a lock."""
    with Command(
        hosts, "run", "--log", "json", "-v", *words, "--", "sh", "-c", "echo in; exec sleep 60"
    ) as one:
        one.read_until("in")
        yield one


def last_proof(proxy: Proxy, before: int) -> float:
    """Return the time at which the proxy forwarded the last acknowledged write before `before`."""
    flights = [
        flight for flight in proxy.snapshot().flights if WRITES & set(flight.requests) and flight.closed
    ]
    return max(flight.opened for flight in flights if flight.opened < before / 1e9)


LEFT = {
    "continue": ("suspended", r"held for at least another (\d+\.\d{3}) s"),
    "term": ("terminated", r"SIGTERM; (\d+\.\d{3}) s of the lock's term are left"),
}


@pytest.mark.parametrize("then", LEFT)
@pytest.mark.parametrize("session", [8, 24])
def test_s785_what_is_left_of_the_term(proxy: Proxy, path: str, session: int, then: str) -> None:
    """After `zklock` has lost the connection, it reports correctly how much of the term is left.

    The term begins when the last acknowledged write is sent.
    """
    name, pattern = LEFT[then]
    words = ("--session-timeout", str(session), "--on-suspend", then, path)
    with running(proxy.hosts, *words) as command:
        # Wait half the time to the next heartbeat, so that the last acknowledged write is older than the
        # tolerance.
        time.sleep(session / 12)
        # Offset between the two clocks in milliseconds.
        offset = time.time_ns() // 1_000_000 - now() // 1_000_000
        asked, began = now(), wall()
        proxy.refuse()
        told_of = event(command, name)
        found = re.search(pattern, told_of["message"])
        assert found is not None, told_of
        moment = milliseconds(told_of["time"])
        assert began <= moment <= wall()
        left = session / 2 - ((moment - offset) / 1000 - last_proof(proxy, asked))
        late = 0.05 + STALL_MONITOR.stalled_seconds(asked, now())
        assert left - LATE - late <= float(found[1]) <= left + late, told_of


@pytest.mark.parametrize("session", [4, 8])
def test_s785_how_long_no_server_confirmed_the_session(proxy: Proxy, path: str, session: int) -> None:
    with running(proxy.hosts, "--session-timeout", str(session), path) as command:
        asked = now()
        proxy.black_hole()
        assert command.wait().status == 79
        last = next(one for one in events(command) if one["event"] == "ended")
        found = re.search(
            r"confirmed the session for (\d+\.\d) s .*, with (\d+\.\d{3}) s of the lock's term left",
            last["message"],
        )
        assert found is not None, last
        unproven, left = float(found[1]), float(found[2])
        assert unproven + left == pytest.approx(session / 2, abs=0.06)
        assert unproven <= (now() / 1e9 - last_proof(proxy, asked)) + 0.1


def test_s785_each_loss_has_its_own_token(server: Standalone, observer: Observer, path: str) -> None:
    with ExitStack() as stack:
        commands = {
            name: stack.enter_context(running(server.hosts, "--on-lost", "ignore", f"{path}/{name}"))
            for name in ("one", "two")
        }
        for name in reversed(commands):
            (node,) = observer.queue(f"{path}/{name}")
            token = observer.czxid(f"{path}/{name}/{node}")
            before = wall()
            observer.delete(f"{path}/{name}/{node}")
            lost = event(commands[name], "lost")
            said = f'the lock "{path}/{name}" is lost (node deleted, token {token}); the command continues'
            assert lost["message"].startswith(said)
            assert before <= milliseconds(lost["time"]) <= wall()


def test_s786_the_times_of_two_jobs(
    server: Standalone, observer: Observer, path: str, tmp_path: Path
) -> None:
    """Each file states when and how long its own job waited and held."""
    with ExitStack() as stack:
        files = {name: tmp_path / f"{name}.prom" for name in ("one", "two")}
        holders = {
            name: stack.enter_context(
                Command(server.hosts, "run", f"{path}/{name}", "--", "sh", "-c", "read end")
            )
            for name in files
        }
        jobs, began, seen = {}, {}, {}
        for name, file in files.items():
            observer.wait_queue(f"{path}/{name}", 1)
            started, clock = now(), time.time()
            jobs[name] = stack.enter_context(
                Command(
                    server.hosts,
                    "run",
                    "--metrics",
                    str(file),
                    f"{path}/{name}",
                    "--",
                    "sh",
                    "-c",
                    "echo in; read end",
                )
            )
            observer.wait_queue(f"{path}/{name}", 2)
            began[name] = (Moment(started, now()), clock, time.time())
            time.sleep(0.4)
        for name, pause in (("two", 0.1), ("one", 0.7)):
            asked, clock = now(), time.time()
            holders[name].type("\n")
            jobs[name].read_until("in")
            granted = (Moment(asked, now()), clock, time.time())
            time.sleep(pause)
            asked, clock = now(), time.time()
            jobs[name].type("\n")
            assert jobs[name].wait().status == 0
            seen[name] = (granted, (Moment(asked, now()), clock, time.time()))
        for name, file in files.items():
            values = metrics_of(file, f"{path}/{name}")
            start, (grant, end) = began[name], seen[name]
            assert values["waited_seconds"] in start[0].until(grant[0]), name
            assert values["held_seconds"] in grant[0].until(end[0]), name
            for key, (_, least, most) in {
                "start": start,
                "grant": grant,
                "end": end,
                "success": end,
            }.items():
                assert least - 0.002 <= values[f"{key}_timestamp_seconds"] <= most + 0.002, (name, key)
        # The next run replaces all values except the losses. A run on another path starts at zero.
        clock = time.time()
        words = ("run", "--metrics", str(files["one"]))
        assert run(server.hosts, *words, f"{path}/one", "--", "sh", "-c", "exit 3").status == 3
        again = metrics_of(files["one"], f"{path}/one")
        assert clock <= again["start_timestamp_seconds"] <= again["grant_timestamp_seconds"]
        assert again["grant_timestamp_seconds"] <= again["end_timestamp_seconds"] <= time.time()
        assert again["success_timestamp_seconds"] < clock
        assert again["held_seconds"] <= time.time() - clock
        assert run(server.hosts, *words, f"{path}/new", "--", "sh", "-c", "exit 3").status == 3
        assert "success_timestamp_seconds" not in metrics_of(files["one"], f"{path}/new")


def test_s787_who_has_a_lock_that_is_taken(server: Standalone, observer: Observer, path: str) -> None:
    """The message contains the first of several holders, the age of its hold, and the number of others."""
    began = wall()
    ages = {21: 5 * 60, 22: 3 * 3600 + 7, 23: 60}

    def occupy(directory: str, kind: str, number: int, **more: Any) -> list[str]:
        made = []
        for pid in list(ages)[:number]:
            data = about(began - ages[pid] * 1000, pid, None, **more)
            node = f"{directory}/_c_{pid:032}-{kind}"
            made.append(observer.client.create(node, data, ephemeral=True, sequence=True, makepath=True))
        return made

    for name, kind, number, words, more in [
        ("alone", "lock-", 1, [], ""),
        ("queue", "lock-", 3, [], ""),
        ("readers", "__READ__", 2, ["-x"], ", and 1 more"),
        ("slots", "lease-", 3, ["--slots", "3"], ", and 2 more"),
    ]:
        directory = f"{path}/{name}" + ("/leases" if name == "slots" else "")
        occupy(directory, kind, number, **({"permits": 3} if name == "slots" else {}))
        refused = run(server.hosts, "run", "-n", *words, f"{path}/{name}", "--", "echo", "ran")
        assert (refused.status, refused.out) == (75, "")
        first = rf'zklock: "{path}/{name}" is taken by rust \(host21, process 21\)'
        said = re.fullmatch(rf"{first}, in the queue for ([0-9a-z ]+?)({more})\n", refused.err)
        assert said is not None, refused.err
        assert ages[21] <= shown_age(said[1]) <= (wall() - began) // 1000 + ages[21] + 1


@pytest.mark.parametrize("flags", [[], ["-x"], ["-s"]])
def test_s816_only_one_contender_of_a_long_queue_is_read(
    proxy: Proxy, observer: Observer, path: str, flags: list[str]
) -> None:
    """A job that finds the lock taken sends no more requests in a long queue than in a short one.

    Many jobs can find a lock taken at the same time.
    """
    sent = []
    for name, number in (("short", 1), ("long", 30)):
        for pid in range(number):
            node = f"{path}/{name}/_c_{pid:032}-{'__WRIT__' if flags else 'lock-'}"
            data = about(wall(), pid + 21, None)
            observer.client.create(node, data, ephemeral=True, sequence=True, makepath=True)
        proxy.reset()
        refused = run(proxy.hosts, "run", "-n", *flags, f"{path}/{name}", "--", "echo", "ran")
        assert (refused.status, refused.out) == (75, "")
        assert f'"{path}/{name}" is taken by rust (host21, process 21), in the queue for ' in refused.err
        assert "more" not in refused.err
        requests = proxy.snapshot().requests
        sent.append({kind: count for kind, count in requests.items() if kind != "ping"})
    assert sent[0] == sent[1]


def test_s788_the_times_of_the_demo() -> None:
    began = time.monotonic()
    with Command("", "demo", "--plain") as demo:
        out = demo.wait(40).out
    took = time.monotonic() - began
    grants = [
        (float(at), number, float(waited))
        for at, number, waited in re.findall(
            r"^ *([\d.]+) s  process (\d) holds the lock, with fencing token \d+, after ([\d.]+) s$",
            out,
            re.MULTILINE,
        )
    ]
    assert len(grants) == int(re.findall(r"^(\d+) grants", out, re.MULTILINE)[0]) == 11
    times = [at for at, *_ in grants]
    assert times == sorted(times)
    assert times[-1] <= took
    kill = float(re.findall(r"^ *([\d.]+) s  process 2 is killed", out, re.MULTILINE)[0])
    following = min(at for at in times if at > kill)
    freed = float(re.findall(r"the next process got the lock after ([\d.]+) s", out)[0])
    assert freed == pytest.approx(following - kill, abs=0.11)
    # Each command begins to wait at the start of the demo, or when it has released the lock. It holds the
    # lock for 0.4 seconds.
    before = dict.fromkeys("1234", -0.4)
    for at, number, waited in grants:
        assert waited <= at - before[number] - 0.4 + 0.11, (at, number, waited)
        if before[number] < 0:
            assert waited == pytest.approx(at, abs=0.11)
        before[number] = at


# Arguments of each command that waits for a server.
COMMANDS = {
    "run": ["run", "/a", "--", "true"],
    "run with a wait": ["run", "-w", "30", "/a", "--", "true"],
    "ls": ["ls", "/a"],
    "top": ["top", "--once", "/a"],
    "wait": ["wait", "/a"],
    "break": ["break", "--yes", "/a", "x-lock-0000000001"],
    "revoke": ["revoke", "/a", "x-lock-0000000001"],
    "doctor": ["doctor", "/a"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_s789_how_long_a_command_waits_for_a_server(name: str) -> None:
    first, *words = COMMANDS[name]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        hosts = f"127.0.0.1:{silent.getsockname()[1]}"
        for asked, said in (("700ms", "700ms"), ("1.3", "1.3s")):
            began = now()
            gone = run(hosts, first, "--connect-timeout", asked, *words)
            assert gone.status == 69
            output = gone.out if name == "doctor" else gone.err
            assert f"within {said}" in output, output
            seconds = float(said.removesuffix("ms")) / 1000 if said.endswith("ms") else float(said[:-1])
            assert (now() - began) / 1e9 >= seconds
            if name != "doctor":
                # The doctor takes longer, because it also queries the server's own data.
                assert_within({"t": now()}, began, seconds, late=1.0)


@pytest.mark.parametrize("words", [["run", "-n"], ["run"], ["wait"]], ids=["try", "run", "wait"])
def test_s789_how_long_a_command_waits_for_a_lock(
    server: Standalone, observer: Observer, path: str, words: list[str]
) -> None:
    observer.client.create(f"{path}/x-lock-", b"other", ephemeral=True, sequence=True, makepath=True)
    program = [] if words == ["wait"] else ["--", "echo", "ran"]
    for seconds in (0.6, 1.9):
        given = [] if "-n" in words else ["-w", str(seconds)]
        began = now()
        late = run(server.hosts, *words, *given, path, *program)
        ended = now()
        assert (late.status, late.out) == (75, "")
        least = 0 if "-n" in words else seconds
        assert (ended - began) / 1e9 >= least
        assert_within({"t": ended}, began, least, late=1.0)


def test_s789_the_requested_session_timeout_is_used(
    server: Standalone, observer: Observer, path: str
) -> None:
    with ExitStack() as stack:
        for number, session in enumerate((3, 7)):
            lock = f"{path}/{number}"
            stack.enter_context(
                Command(server.hosts, "run", "--session-timeout", str(session), lock, "--", "sleep", "60")
            )
            (node,) = observer.wait_queue(lock, 1)
            owner = observer.owner(f"{lock}/{node}")
            line = next(line for line in server.four_letter("cons").splitlines() if f"sid={owner:#x}" in line)
            assert f"to={session}000," in line


def test_s789_how_often_wait_and_top_poll(proxy: Proxy, observer: Observer, path: str) -> None:
    observer.client.create(f"{path}/x-lock-", b"other", ephemeral=True, sequence=True, makepath=True)
    with Command(proxy.hosts, "wait", path) as waiting:
        eventually(lambda: lists(proxy) > 0, "wait has listed the queue")
        began, before = now(), lists(proxy)
        time.sleep(2.2)
        looks, took = lists(proxy) - before, (now() - began) / 1e9
        assert 2 <= looks <= took * 2 + 1, "twice a second"
        waiting.signal(signal.SIGTERM)
        waiting.wait()
    for interval in (0.2, 0.6):
        with Command(proxy.hosts, "top", "--json", "-i", str(interval), path) as command:
            eventually(lambda command=command: len(lines(command)) >= 5, "five lines")  # type: ignore[misc]
            began = now()
            times = [json.loads(line)["time"] for line in lines(command)[:5]]
        mean = (times[-1] - times[0]) / 4000
        assert (
            interval - 0.02 <= mean <= interval + LATE + STALL_MONITOR.stalled_seconds(began - 10**10, began)
        )


def lists(proxy: Proxy) -> int:
    """Return the number of listings that passed through the proxy."""
    seen = proxy.snapshot().requests
    return seen["getChildren"] + seen["getChildren2"]


def lines(command: Command) -> list[str]:
    """Return the complete lines that the command has printed."""
    return [line for line in command.read_until("").splitlines(keepends=True) if line.endswith("\n")]
