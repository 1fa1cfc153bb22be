"""The numbers that the command prints match the server's data, with two contenders and with hundreds."""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from harness.answers import now
from harness.command import Command, run
from harness.embedded import NewServer
from harness.observer import Observer
from harness.paths import COMMAND
from harness.proxy import Proxy
from harness.reported import Moment
from harness.server import Server, Settings, Standalone
from harness.stalls import STALL_MONITOR
from harness.steps import LATE, eventually
from harness.terminal import shell

LONG = 300
HOUR, MINUTE = 3600, 60


def wall() -> int:
    """Return the wall clock time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def shown_age(text: str) -> int:
    """Return the number of seconds in a duration as the command prints it."""
    parts = re.findall(r"(\d+)(day|h|m|s)", text)
    assert parts, text
    units = {"day": 24 * HOUR, "h": HOUR, "m": MINUTE, "s": 1}
    return sum(int(number) * units[unit] for number, unit in parts)


def about(since: int, pid: int, label: str | None = None, **more: Any) -> bytes:
    """Return the data of a contender's node."""
    outcome = {"host": f"host{pid}", "pid": pid, "language": "rust", "label": label, "since": since, **more}
    return json.dumps(outcome).encode()


@contextmanager
def others(hosts: str, number: int) -> Iterator[list[Observer]]:
    """Provide this number of further sessions."""
    with ExitStack() as stack:
        yield [stack.enter_context(Observer(hosts)) for _ in range(number)]


def rows(hosts: str, *words: str) -> list[dict[str, Any]]:
    """Return the rows of `ls --json`."""
    outcome = run(hosts, "ls", "--json", *words)
    assert outcome.status == 0, outcome.err
    found: list[dict[str, Any]] = json.loads(outcome.out)
    return found


def assert_same_node(observer: Observer, row: dict[str, Any], node: str) -> None:
    """Assert that a row's session and token match the server's data about the node."""
    assert (row["node"], row["session"], row["token"]) == (
        node,
        hex(observer.owner(node)),
        str(observer.czxid(node)),
    )


def test_s780_two_locks_of_several_processes(server: Standalone, observer: Observer, path: str) -> None:
    """Each row of `ls` has the numbers of its own contender."""
    words = {
        "first": [f"{path}/a"],
        "second": [f"{path}/a"],
        "reads": ["-s", f"{path}/b"],
        "reads too": ["-s", f"{path}/b"],
        "writes": ["-x", f"{path}/b"],
        "one": ["--slots", "2", f"{path}/c"],
        "two": ["--slots", "2", f"{path}/c"],
        "three": ["--slots", "2", f"{path}/c"],
    }
    places = {f"{path}/a": ["first", "second"], f"{path}/b": ["reads", "reads too", "writes"]}
    with ExitStack() as stack:
        pids, began, seen = {}, {}, {}
        for label, given in words.items():
            began[label] = wall()
            command = stack.enter_context(
                Command(server.hosts, "run", "--label", label, *given, "--", "sleep", "60")
            )
            pids[label] = command.process.pid
            directory = given[-1]
            if directory.endswith("/c"):
                want = ["one", "two", "three"].index(label) + 1
                observer.wait_queue(f"{directory}/leases", want)
                observer.wait_queue(f"{directory}/locks", int(label == "three"))
            else:
                observer.wait_queue(directory, places[directory].index(label) + 1)
            seen[label] = wall()
        outcome = rows(server.hosts, "--recursive", path)
        nodes = [f"{path}/{one}/{node}" for one in ("a", "b") for node in observer.queue(f"{path}/{one}")]
        nodes += [
            f"{path}/c/{part}/{node}"
            for part in ("leases", "locks")
            for node in observer.queue(f"{path}/c/{part}")
        ]
        labels = [*words, "three"]
        states = ["holds", "waits", "holds", "holds", "waits", "holds", "holds", "waits", "waits"]
        assert [row["label"] for row in outcome] == labels
        assert [row["state"] for row in outcome] == states
        assert [row["position"] for row in outcome] == [0, 1, 0, 1, 2, 0, 1, 2, 3]
        assert [row["reader"] for row in outcome] == ["reads" in label for label in labels]
        for row, node, label in zip(outcome, nodes, labels, strict=True):
            assert_same_node(observer, row, node)
            assert (row["pid"], row["host"], row["language"]) == (pids[label], os.uname().nodename, "rust")
            assert began[label] <= row["since"] <= seen[label], label
        lines = [line for line in run(server.hosts, "ls", "-r", path).out.splitlines() if line[0] == " "]
        for line, row in zip(lines, outcome, strict=True):
            assert line.split()[0] == row["state"]
            assert f" {row['label']} ({row['host']}, process {row['pid']}) " in line
            assert f" token {row['token']} " in line
            assert row["node"] in line


def test_s780_hundreds_of_contenders(server: Standalone, observer: Observer, path: str) -> None:
    """Each row has its own place, age, process, session and token."""
    step = 7 * MINUTE + 1
    began = wall()

    def since(number: int) -> int:
        return began - (LONG - number) * step * 1000

    observer.create(path)
    with others(server.hosts, 3) as sessions:
        for number in range(LONG):
            sessions[number % 3].client.create(
                f"{path}/_c_{number:032}-{'__READ__' if number < 2 else '__WRIT__'}",
                about(since(number), number + 1, f"label {number}"),
                ephemeral=True,
                sequence=True,
            )
        before = wall()
        shown = run(server.hosts, "ls", path).out.splitlines()
        after = wall()
        outcome = rows(server.hosts, path)
        stats = [observer.client.exists_async(f"{path}/{node}") for node in observer.queue(path)]
        assert shown[0] == path
        assert len(shown) == LONG + 1
        for number, (row, line, asked) in enumerate(zip(outcome, shown[1:], stats, strict=True)):
            stat = asked.get(timeout=30)
            assert (row["position"], row["pid"], row["label"]) == (number, number + 1, f"label {number}")
            assert (row["session"], row["token"]) == (hex(stat.ephemeralOwner), str(stat.czxid))
            assert (row["since"], row["host"]) == (since(number), f"host{number + 1}")
            assert (row["state"], row["reader"]) == ("holds" if number < 2 else "waits", number < 2)
            # Ages are exact to the second.
            parsed = re.fullmatch(r"  (\w+)  (.+?) +for ([0-9a-z ]+?) +token (\d+)  (\S+)(  reader)?", line)
            assert parsed is not None, line
            state, who, age, token, node, reader = parsed.groups()
            assert (state, token, node) == (row["state"], row["token"], row["node"])
            assert who == f"label {number} (host{number + 1}, process {number + 1})"
            assert (before - since(number)) // 1000 <= shown_age(age) <= (after - since(number)) // 1000
            assert (reader is not None) == row["reader"]
    observer.wait_queue(path, 0, timeout=30)


def top_rows(hosts: str, *words: str) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return the object that `top --once --json` prints, and its rows by path."""
    outcome = run(hosts, "top", "--once", "--json", *words)
    assert outcome.status == 0, outcome.err
    line = json.loads(outcome.out)
    return line, {row["path"]: row for row in line["locks"]}


def test_s781_top_with_two_holds(server: Standalone, proxy: Proxy, observer: Observer, path: str) -> None:
    with others(server.hosts, 2) as (one, other):

        def make(who: Observer, name: str, kind: str, data: bytes) -> str:
            node = f"{path}/{name}/_c_00000000-0000-0000-0000-000000000000-{kind}"
            made: str = who.client.create(node, data, ephemeral=True, sequence=True, makepath=True)
            return made

        held = {
            "a": make(one, "a", "lock-", about(5, 11, "of a")),
            "b": make(other, "b", "__READ__", about(7, 12)),
            "s": make(other, "s/leases", "lease-", about(9, 13, "of s", permits=2)),
            "e": make(one, "e", "latch-", b"candidate"),
        }
        for _ in range(LONG):
            one.client.create_async(f"{path}/a/x-lock-", b"", ephemeral=True, sequence=True)
        make(one, "b", "__READ__", about(7, 14))
        make(one, "b", "__WRIT__", about(7, 15))
        make(one, "b", "__READ__", about(7, 16))
        for number in range(3):
            # Two holders have both permits. A third contender has the first node in `locks`, so it has its
            # turn, and waits for a permit.
            if number < 2:
                make(one, "s/leases", "lease-", about(9, 17 + number, permits=2))
            make(one, "s/locks", "lock-", about(9, 18 + number, permits=2))
        observer.wait_queue(f"{path}/a", LONG + 1)
        time.sleep(0.3)
        before, sent = wall(), proxy.snapshot().total
        line, found = top_rows(proxy.hosts, path)
        asked, after = proxy.snapshot().requests, wall()
        counts = {
            "a": ("mutex", 1, LONG),
            "b": ("read", 2, 2),
            "s": ("2 of 2", 2, 3),
            "e": ("leader", 1, 0),
        }
        for name, (mode, holding, waiting) in counts.items():
            row = found[f"{path}/{name}"]
            assert (row["mode"], row["holding"], row["waiting"]) == (mode, holding, waiting), name
            assert (row["state"], row["grants_per_second"]) == ("held", None)
            holder, node = row["holder"], held[name]
            assert holder["node"] == node.rpartition("/")[2]
            assert (holder["session"], holder["token"]) == (
                hex(observer.owner(node)),
                str(observer.czxid(node)),
            )
            created = observer.client.exists(node).created * 1000
            assert row["held_for_at_most"] is True
            assert before - created - 2 <= row["held_for_ms"] <= after - created + 2, name
            assert 0 <= row["seen_ms_ago"] <= after - before
        assert [found[f"{path}/{name}"]["holder"]["pid"] for name in "abse"] == [11, 12, 13, None]
        assert [found[f"{path}/{name}"]["holder"]["label"] for name in "abse"] == ["of a", None, "of s", None]
        assert [found[f"{path}/{name}"]["holder"]["host"] for name in "abs"] == ["host11", "host12", "host13"]
        assert found[f"{path}/e"]["holder"]["data"] == "candidate"
        assert before <= line["time"] <= after
        assert (line["hosts"], line["connection"], line["silent_for_ms"]) == (proxy.hosts, "connected", None)
        looks = sum(asked[kind] for kind in ("getChildren2", "getChildren", "getData"))
        assert sent == 0
        # The rate is the average over five seconds.
        assert line["requests_per_second"] == pytest.approx(looks / 5)
        for shown_row, (name, (mode, _, waiting)) in zip(
            run(server.hosts, "top", "--once", "--sort", "path", path).out.splitlines(),
            sorted(counts.items()),
            strict=True,
        ):
            outcome = re.fullmatch(
                r"(\S+) +held +(.+?) +(\d+) waiting  (\S.*?) {2,}(.*?)  (0x[0-9a-f]+)", shown_row
            )
            assert outcome is not None, shown_row
            assert (outcome[1], outcome[2], int(outcome[3])) == (f"{path}/{name}", mode, waiting)
            assert outcome[6] == hex(observer.owner(held[name]))
            assert outcome[4].startswith("<=")
            created = observer.client.exists(held[name]).created * 1000
            assert (before - created) // 1000 <= shown_age(outcome[4]) <= (wall() - created) // 1000 + 1


def last_line(command: Command) -> dict[str, Any]:
    """Return the newest object that `top --json` has printed."""
    lines = command.read_until("\n").splitlines(keepends=True)
    whole = [line for line in lines if line.endswith("\n")]
    found: dict[str, Any] = json.loads(whole[-1])
    return found


def row_of(outcome: dict[str, Any], path: str) -> dict[str, Any]:
    """Return the row of a lock, or an empty one if there is none."""
    return next((row for row in outcome["locks"] if row["path"] == path), {})


def test_s782_rates_and_ages_over_time(server: Standalone, observer: Observer, path: str) -> None:
    """`top` reports each lock's grants per second, and the exact age of a hold that began while `top` ran."""
    turns = {"busy": 40, "calm": 10}
    for name in turns:
        observer.create(f"{path}/{name}")
        # These three nodes are deleted immediately, so that the sequence numbers start above zero.
        for _ in range(3):
            observer.delete(observer.client.create(f"{path}/{name}/x-lock-", b"", sequence=True))
    began = wall()
    with Command(server.hosts, "top", "--json", "-i", "0.3", path) as command:
        eventually(
            lambda: all(row_of(last_line(command), f"{path}/{name}") for name in turns),
            "top shows every lock",
        )
        first = last_line(command)
        for name, number in turns.items():
            for _ in range(number):
                node = observer.client.create(f"{path}/{name}/x-lock-", b"", ephemeral=True, sequence=True)
                observer.delete(node)
        done = wall()
        asked = now()
        node = observer.client.create(f"{path}/busy/x-lock-", about(1, 2), ephemeral=True, sequence=True)
        created = Moment(asked, now())
        eventually(lambda: row_of(last_line(command), f"{path}/busy")["holding"] == 1, "top shows the holder")
        line = last_line(command)
        while (ended := line)["time"] - row_of(line, f"{path}/calm")["seen_ms_ago"] < done:
            line = last_line(command)
        for name, number in turns.items():
            before, after = row_of(first, f"{path}/{name}"), row_of(ended, f"{path}/{name}")
            # `top` first listed the lock after the command's start and before it printed the first line.
            latest = first["time"] - before["seen_ms_ago"] + 10
            last = ended["time"] - after["seen_ms_ago"]
            assert last - began < 10_000, "the counted grants are all within top's averaging time"
            rates = [number * 1000 / (last - since) for since in (began - 10, latest)]
            assert rates[0] * 0.98 <= after["grants_per_second"] <= rates[1] * 1.02, (name, rates)
        row = row_of(ended, f"{path}/busy")
        outcome = now()
        assert row["held_for_at_most"] is False
        # `top` notices a new hold within one interval, unless the machine stalls.
        late = 0.3 + LATE + STALL_MONITOR.stalled_seconds(created.first, outcome)
        span = created.ago(asked, outcome)
        assert span.least - late <= row["held_for_ms"] / 1000 <= span.most
        assert row["holder"]["token"] == str(observer.czxid(node))
        observer.delete(node)


def test_s782_for_how_long_no_server_has_answered(proxy: Proxy, observer: Observer, path: str) -> None:
    observer.create(path)
    with Command(proxy.hosts, "top", "--json", "-i", "0.2", path) as command:
        eventually(lambda: last_line(command)["connection"] == "connected", "top is connected")
        asked = now()
        proxy.refuse()
        cut = Moment(asked, now())
        eventually(
            lambda: (last_line(command)["silent_for_ms"] or 0) > 1200, "no server has answered for a while"
        )
        since = now()
        outcome = last_line(command)["silent_for_ms"] / 1000
        answered = now()
        late = 0.4 + LATE + STALL_MONITOR.stalled_seconds(cut.first, answered)
        span = cut.ago(since, answered)
        assert span.least - late <= outcome <= span.most


def read_latency(hosts: str, times: int = 5) -> float:
    """Return the time of a read by another client in milliseconds."""
    with Observer(hosts) as other:
        began = time.monotonic()
        for _ in range(times):
            other.client.exists("/zookeeper")
        return (time.monotonic() - began) * 1000 / times


def number_in(pattern: str, text: str) -> float:
    """Return the only number that the pattern finds."""
    (found,) = re.findall(pattern, text)
    return float(found)


@pytest.mark.parametrize("delay", [0.03, 0.09])
def test_s783_what_the_doctor_measures(proxy: Proxy, observer: Observer, path: str, delay: float) -> None:
    mark = f"{path}-mark"
    observer.create(path)
    before = observer.czxid(observer.client.create(mark, b""))
    proxy.delay = delay
    began = time.monotonic()
    outcome = run(proxy.hosts, "doctor", "--session-timeout", "20s", path).out
    took = (time.monotonic() - began) * 1000
    observer.delete(mark)
    after = observer.czxid(observer.client.create(mark, b""))
    there_and_back = 2 * delay * 1000
    reads = number_in(r"a read takes ([\d.]+) ms", outcome)
    connects = number_in(r"connected to \S+ in ([\d.]+) ms", outcome)
    locks = number_in(rf"acquired and released {path} in ([\d.]+) ms", outcome)
    theirs = read_latency(proxy.hosts)
    assert there_and_back <= reads <= 3 * theirs, "one read, although the doctor makes five"
    assert there_and_back <= connects
    # Two round trips: the create and the delete.
    assert 2 * there_and_back <= locks
    assert connects + 5 * reads + locks <= took
    assert before < number_in(r"with fencing token (\d+)", outcome) < after
    assert f"connected to {proxy.hosts} in" in outcome
    assert re.search(r"clocks of this machine and of the servers differ by at most \d+ ms", outcome)
    # The client and the server use the same clock, so the measured difference is at most the round trip.
    assert (
        number_in(r"clocks of this machine and of the servers differ by at most (\d+) ms", outcome)
        <= locks + 2
    )


def test_s783_what_the_doctor_reads(server: Standalone, new_server: NewServer, path: str) -> None:
    """The doctor reports the numbers of two servers with different settings."""
    with new_server(Settings(tick=700, config=("maxClientCnxns=17",))) as other:
        hosts = f"{server.hosts},{other.hosts}"
        outcome = run(hosts, "doctor", path).out
        for one, tick in ((server, server.settings.tick), (other, 700)):
            version, mode = of_server(one)
            assert f"{one.hosts} runs ZooKeeper {version} ({mode})" in outcome
            assert f"{one.hosts} has a tickTime of {tick}ms" in outcome
        assert f"{other.hosts} accepts only 17 connections per host" in outcome
        assert f"{server.hosts} takes " not in outcome
        for asked, granted in (("4s", "4s"), ("1h", longest(other))):
            outcome = run(other.hosts, "doctor", "--session-timeout", asked).out
            assert re.search(rf"the session timeout is {granted},", outcome), outcome
        short = run(other.hosts, "doctor", "--session-timeout", "2s").out
        assert "the session timeout of 2s is shorter than four ticks" in short
        assert "request at least 2.8s" in short


def of_server(server: Server) -> tuple[str, str]:
    """Return the server's version and mode as the server reports them."""
    outcome = server.four_letter("srvr")
    found = re.search(r"version: (\d+\.\d+\.\d+)", outcome)
    assert found is not None, outcome
    return found[1], server.mode()


def longest(server: Server) -> str:
    """Return the longest session timeout that a server grants, as the doctor prints it."""
    outcome = int(number_in(r"maxSessionTimeout=(\d+)", server.four_letter("conf"))) // 1000
    return f"{outcome}s"


def test_s784_break_asks_with_the_numbers_of_the_one_that_it_breaks(
    server: Standalone, observer: Observer, path: str
) -> None:
    ages = {11: 2 * HOUR + MINUTE + 5, 12: 3 * MINUTE, 13: 9 * HOUR}
    nodes = {}
    began = wall()
    for pid, age in ages.items():
        nodes[pid] = observer.client.create(
            f"{path}/x-lock-", about(began - age * 1000, pid), ephemeral=True, sequence=True, makepath=True
        )
    for pid, role in ((12, "waits"), (11, "holds")):
        with shell(server.hosts) as user:
            user.type(f"{COMMAND} break {path} {nodes[pid]}; echo status $((100+$?))\n".encode())
            user.wait("[y/N]")
            shown = " ".join(user.screen())
            asked = re.search(
                rf"rust \(host{pid}, process {pid}\) {role}, in the queue for ([0-9a-z ]+)\.", shown
            )
            assert asked is not None, shown
            assert ages[pid] <= shown_age(asked[1]) <= (wall() - began) // 1000 + 1 + ages[pid]
            user.type(b"n\n")
            user.wait("status 101")
    assert len(observer.queue(path)) == len(ages)
    broken = run(server.hosts, "break", "--yes", path, nodes[12])
    assert broken.out == "broken: rust (host12, process 12)\n"
    assert [f"{path}/{node}" for node in observer.queue(path)] == [nodes[11], nodes[13]]
    revoked = run(server.hosts, "revoke", path, nodes[13])
    assert revoked.out == "requested a release from: rust (host13, process 13)\n"
    assert [observer.client.get(nodes[pid])[0] == b"__REVOKE__" for pid in (11, 13)] == [False, True]
    for pid in (11, 13):
        observer.delete(nodes[pid])
