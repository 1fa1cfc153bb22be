"""Tests of `zklock top`, which shows all locks below a path on a terminal and for programs."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from harness.command import Command, run
from harness.observer import Observer
from harness.paths import COMMAND
from harness.ports import free_port
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import eventually
from harness.terminal import CTRL_C, CTRL_Z, Shell, shell

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")

HIDDEN_CURSOR, SHOWN_CURSOR = b"\x1b[?25l", b"\x1b[?25h"
OTHER_SCREEN, FIRST_SCREEN = b"\x1b[?1049h", b"\x1b[?1049l"


@contextmanager
def top(hosts: str, *words: str) -> Iterator[Shell]:
    """Provide a shell in which a user runs `zklock top`."""
    with shell(hosts) as user:
        typed = shlex.join([str(COMMAND), "top", "-i", "0.2", *words])
        user.type(f"echo modes $(stty -g); {typed}; echo status $((100+$?)) modes $(stty -g)\n".encode())
        user.see(lambda lines: any(line.startswith("PATH") for line in lines), "the view is there")
        yield user


def row(lines: list[str], path: str) -> str:
    """Return the line of a lock, or an empty string."""
    return next((line for line in lines if line.startswith(f"{path} ")), "")


def test_s570_the_view(server: Standalone, observer: Observer, path: str) -> None:
    held, busy = f"{path}/held", f"{path}/busy"
    with (
        Command(server.hosts, "run", "--label", "nightly", held, "--", "sleep", "60") as holder,
        top(server.hosts, path) as user,
    ):
        (node,) = observer.wait_queue(held, 1)
        seen = user.see(lambda lines: "nightly" in row(lines, held), "who holds")
        assert f"process {holder.process.pid})" in row(seen, held)
        assert hex(observer.owner(f"{held}/{node}")) in row(seen, held)
        with (
            Command(server.hosts, "run", held, "--", "true"),
            Command(server.hosts, "run", "-s", f"{path}/read", "--", "sleep", "60"),
        ):
            seen = user.see(lambda lines: bool(re.search(r"mutex +1 ", row(lines, held))), "one waits")
            assert seen[0].startswith(f"{path} on {server.hosts}: ")
            assert re.search(r"HELD FOR", seen[2])
            user.see(lambda lines: "read" in row(lines, f"{path}/read"), "a reader holds")
            # Rows are sorted by the length of the queue until the user selects another order.
            user.see(lambda lines: lines[3].startswith(held), "sorted by waiting")
            user.type(b"pr")
            user.see(lambda lines: lines[3].startswith(f"{path}/read"), "sorted by path, from the end")
            user.type(b"/held\r")
            user.see(lambda lines: row(lines, held) != "" and row(lines, f"{path}/read") == "", "filtered")
            user.type(b"/\x1b")
        # The lock is acquired more often than `top` lists it. `top` computes a rate from two listings, so
        # repeat until the rate appears.
        rate = re.compile(r"free +0 +0\.\d|free +0 +[1-9]")

        def goes_on(lines: list[str]) -> bool:
            assert run(server.hosts, "run", busy, "--", "true").status == 0
            return bool(rate.search(row(lines, busy)))

        user.see(goes_on, "a rate")
        # Wait until the whole screen is redrawn. Otherwise `top` could read the next key together with the
        # previous one.
        before = len(user.shown)
        user.resize(60, 10)
        user.see(lambda _: b"PATH" in user.shown[before:], "the screen is redrawn")
        user.see(
            lambda lines: len(lines) == 10 and "HELD FOR" not in lines[2], "the view fits into the window"
        )
        user.type(b"q")
        user.wait("status 100")


def test_s571_the_terminal_is_restored(server: Standalone, path: str) -> None:
    ends: list[tuple[bytes | str, int]] = [(b"q", 100), (b"\x1b", 100), (CTRL_C, 100)]
    ends += [("SIGTERM", 243), ("SIGINT", 230), ("SIGHUP", 229)]
    for end, status in ends:
        with top(server.hosts, path) as user:
            if isinstance(end, bytes):
                user.type(end)
            else:
                user.send_signal(getattr(signal, end))
            user.wait(f"status {status}")
            assert user.shown.rfind(FIRST_SCREEN) > user.shown.rfind(OTHER_SCREEN)
            assert user.shown.rfind(SHOWN_CURSOR) > user.shown.rfind(HIDDEN_CURSOR)
            user.type(b"echo again $((40+2))\n")
            user.wait("again 42")
            before, after = re.findall(rb"modes ([0-9a-f:]{20,})", user.shown)
            assert before == after, "the terminal modes are not restored"


def test_s571_what_is_typed_after_the_end_is_for_the_shell(proxy: Proxy, path: str) -> None:
    with top(proxy.hosts, path) as user:
        proxy.black_hole("down")
        user.type(b"q")
        # `top` has read the key and waits for its session to be closed.
        eventually(lambda: proxy.snapshot().requests["closeSession"] == 1, "top is closing its session")
        user.type(b"echo after $((40+2))\r")
        user.wait("after 42")


@pytest.mark.parametrize("how", ["key", "SIGTSTP", "SIGSTOP"])
def test_s571_top_is_stopped_and_continues(server: Standalone, path: str, how: str) -> None:
    with top(server.hosts, path) as user:
        if how == "key":
            user.type(CTRL_Z)
        else:
            user.send_signal(getattr(signal, how))
        user.wait("Stopped")
        if how != "SIGSTOP":
            # No program can restore the screen before SIGSTOP.
            assert user.shown.rfind(FIRST_SCREEN) > user.shown.rfind(OTHER_SCREEN)
        user.type(b"echo between $((40+2))\n")
        user.wait("between 42")
        taken = user.shown.count(OTHER_SCREEN)
        user.type(b"fg\n")
        eventually(lambda: user.shown.count(OTHER_SCREEN) > taken, "it draws again")
        user.see(lambda lines: lines[0].startswith(f"{path} on "), "all of it")
        user.type(b"q")
        eventually(lambda: user.shown.rfind(FIRST_SCREEN) > user.shown.rfind(OTHER_SCREEN), "it has ended")
        user.type(b"echo after $((40+2))\n")
        user.wait("after 42")


def test_s572_a_lost_connection(proxy: Proxy, server: Standalone, observer: Observer, path: str) -> None:
    held = f"{path}/held"
    with Command(server.hosts, "run", held, "--", "sleep", "60"), top(proxy.hosts, path) as user:
        observer.wait_queue(held, 1)
        user.see(lambda lines: "sleep" in row(lines, held), "who holds")
        proxy.refuse()
        lost = user.see(lambda lines: "NO SERVER HAS ANSWERED" in lines[1], "it says so")
        assert "sleep" in row(lost, held), "the known values are gone"
        proxy.accept()
        with Command(server.hosts, "run", held, "--", "true"):
            user.see(lambda lines: bool(re.search(r"mutex +1 ", row(lines, held))), "it goes on")
        assert "NO SERVER" not in "".join(user.screen())
        user.type(b"q")
        user.wait("status 100")


def test_s572_a_hold_that_starts_in_an_outage_has_an_upper_bound(
    proxy: Proxy, server: Standalone, observer: Observer, path: str
) -> None:
    held = f"{path}/held"

    def age(lines: list[str]) -> str:
        found = re.search(r"mutex +0 +\S+ +((?:<=)?[0-9][0-9a-z ]*s) ", row(lines, held))
        return found[1] if found else ""

    with top(proxy.hosts, path) as user:
        with Command(server.hosts, "run", held, "--", "sh", "-c", "read end") as first:
            observer.wait_queue(held, 1)
            user.see(lambda lines: "mutex" in row(lines, held), "the first holds")
            with Command(
                server.hosts, "run", "--label", "seen", held, "--", "sh", "-c", "read end"
            ) as second:
                observer.wait_queue(held, 2)
                user.see(lambda lines: bool(re.search(r"mutex +1 ", row(lines, held))), "the second waits")
                first.type("\n")
                first.wait()
                shown = user.see(lambda lines: "seen" in row(lines, held), "the second holds")
                assert not age(shown).startswith("<="), "the start of the hold was not observed"
                proxy.refuse()
                user.see(lambda lines: "NO SERVER HAS ANSWERED FOR 2 s" in lines[1], "top reports the outage")
                second.type("\n")
                second.wait()
        with Command(server.hosts, "run", "--label", "later", held, "--", "sleep", "60"):
            observer.wait_queue(held, 1)
            proxy.accept()
            shown = user.see(lambda lines: "later" in row(lines, held), "the third holds")
            assert age(shown).startswith("<="), shown
        user.type(b"q")
        user.wait("status 100")


def test_s570_a_long_path_is_shortened_in_the_middle(
    server: Standalone, observer: Observer, path: str
) -> None:
    held = f"{path}/{'tenant-' * 20}/nightly"
    with Command(server.hosts, "run", held, "--", "sleep", "60"), top(server.hosts, path) as user:
        observer.wait_queue(held, 1)
        seen = user.see(lambda lines: "sleep" in "".join(lines), "who holds")
        (line,) = [line for line in seen if "sleep" in line]
        shown = line.split()[0]
        assert "…" in shown
        assert held.startswith(shown.partition("…")[0])
        assert shown.endswith("/nightly")
        user.type(b"q")
        user.wait("status 100")


def test_s573_the_request_rate_of_top(
    proxy: Proxy, server: Standalone, observer: Observer, path: str
) -> None:
    """With many directories and a long queue, `top` limits its request rate and reads every directory."""
    for number in range(400):
        observer.create(f"{path}/many/{number}")
    for _ in range(300):
        observer.client.create(f"{path}/long/x-lock-", b"", ephemeral=True, sequence=True, makepath=True)
    before = proxy.snapshot()
    began = time.monotonic()
    with Command(proxy.hosts, "top", "--json", "-i", "0.2", "--requests", "50", path) as command:
        last = eventually_complete(command, path)
        sent = proxy.snapshot().total - before.total
        took = time.monotonic() - began
        command.signal(signal.SIGTERM)
        assert command.wait().status == 128 + signal.SIGTERM
    assert sent <= 50 * (took + 1) + 20, f"{sent} requests in {took:.1f} s"
    long = next(lock for lock in last["locks"] if lock["path"] == f"{path}/long")
    assert (long["holding"], long["waiting"]) == (1, 299)


def test_s745_one_pass_and_no_more(proxy: Proxy, server: Standalone, observer: Observer, path: str) -> None:
    """With `--once`, `top` lists each directory once, and reads the data of each holder once."""
    locks, ids, low = 100, 20, 10
    for number in range(locks):
        lock = f"{path}/many/{number}/_c_{uuid.uuid4()}-lock-"
        observer.client.create(lock, b"", ephemeral=True, sequence=True, makepath=True)
    for number in range(ids):
        observer.create(f"{path}/orders/{4711004711 + number}")
    for number in range(low):
        observer.create(f"{path}/orders/1{number:010}")
    with Command(server.hosts, "run", "--slots", "2", f"{path}/gpu", "--", "sleep", "60"):
        observer.wait_queue(f"{path}/gpu/leases", 1)
        observer.wait_queue(f"{path}/gpu/locks", 0)
        before = proxy.snapshot()
        # At 60 requests per second, this takes several seconds.
        outcome = run(proxy.hosts, "top", "--once", "--json", "--requests", "60", path)
        sent = proxy.snapshot()
    shown = json.loads(outcome.out)
    assert sum(lock["state"] == "held" for lock in shown["locks"]) == locks + 1
    # The path, its three children, the locks, the ID directories, and the two directories of the semaphore.
    directories = 1 + 3 + locks + ids + low + 2
    assert shown["directories"] == directories

    def asked(*kinds: str) -> int:
        return sum(sent.requests[kind] - before.requests[kind] for kind in kinds)

    assert asked("getChildren2", "getChildren") == directories
    # The nodes with low IDs are read too, because these IDs could be sequence numbers.
    assert asked("getData") == locks + 1 + low


def eventually_complete(command: Command, path: str) -> Any:
    """Return the first line that contains every directory."""
    deadline = time.monotonic() + 60
    while True:
        lines = command.read_until("").splitlines()
        outcome = json.loads(lines[-2]) if len(lines) > 1 else {"directories": 0, "locks": []}
        if outcome["directories"] == 403:
            return outcome
        assert time.monotonic() < deadline, outcome
        time.sleep(0.1)


def test_s574_top_for_programs(server: Standalone, observer: Observer, path: str) -> None:
    without = run(server.hosts, "top", path)
    assert (without.status, without.out) == (64, "")
    assert "--once" in without.err
    assert "--json" in without.err
    empty = run(server.hosts, "top", "--once", path)
    assert empty.status == 0
    assert empty.out.startswith(f"no locks below {path}: this path does not exist")
    with (
        Command(server.hosts, "run", "--label", "nightly", f"{path}/a", "--", "sleep", "60"),
        Command(server.hosts, "run", "--slots", "2", f"{path}/s", "--", "sleep", "60"),
    ):
        (node,) = observer.wait_queue(f"{path}/a", 1)
        observer.wait_queue(f"{path}/s/leases", 1)
        observer.wait_queue(f"{path}/s/locks", 0)
        table = run(server.hosts, "top", "--once", "--sort", "path", path).out.splitlines()
        assert [line.split()[0] for line in table] == [f"{path}/a", f"{path}/s"]
        assert "nightly" in table[0]
        assert "1 of 2" in table[1]
        outcome = json.loads(run(server.hosts, "top", "--once", "--json", "--filter", "nightly", path).out)
        (lock,) = outcome["locks"]
        assert (lock["path"], lock["state"], lock["mode"], lock["waiting"]) == (
            f"{path}/a",
            "held",
            "mutex",
            0,
        )
        assert lock["holder"]["node"] == node
        assert int(lock["holder"]["token"]) == observer.czxid(f"{path}/a/{node}")
        assert lock["held_for_at_most"] is True
        assert 0 <= lock["held_for_ms"] < 60_000
        assert outcome["connection"] == "connected"
    assert run(f"127.0.0.1:{free_port()}", "top", "--once", "--connect-timeout", "0.3", path).status == 69


def test_s574_top_escapes_text_of_other_clients(server: Standalone, observer: Observer, path: str) -> None:
    observer.create(path)
    observer.client.create(f"{path}/x-lock-", b"\x1b[2Jhost", ephemeral=True, sequence=True)
    shown = run(server.hosts, "top", "--once", path).out
    assert "host" in shown
    assert "\x1b" not in shown
