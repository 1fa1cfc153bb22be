"""`ls`, `wait`, `break` and `revoke`; and the commands that need no lock."""

from __future__ import annotations

import json
import os
import signal
import subprocess

import pytest

from harness.command import Command, run
from harness.observer import Observer
from harness.paths import COMMAND
from harness.ports import free_port
from harness.server import Standalone


def test_s565_who_is_in_the_queue(server: Standalone, observer: Observer, path: str) -> None:
    free = run(server.hosts, "ls", path)
    assert (free.status, free.out) == (0, f"nobody holds or waits for {path}\n")
    with (
        Command(server.hosts, "run", "--label", "nightly", path, "--", "sleep", "60"),
        Command(server.hosts, "run", "--slots", "2", f"{path}/deeper", "--", "sleep", "60"),
    ):
        (node,) = [node for node in observer.wait_queue(path, 1) if "lock" in node]
        observer.wait_queue(f"{path}/deeper/leases", 1)
        observer.wait_queue(f"{path}/deeper/locks", 0)
        with Command(server.hosts, "run", "-s", path, "--", "sleep", "60"):
            observer.wait_queue(path, 2)
            shown = run(server.hosts, "ls", path)
            assert shown.status == 0, shown.err
            title, first, second = shown.out.splitlines()
            assert title == path
            assert first.split()[0] == "holds"
            assert all(word in first for word in ("nightly", node, os.uname().nodename))
            assert second.split()[0] == "waits"
            assert second.endswith("reader")
            told = json.loads(run(server.hosts, "ls", "--json", "--recursive", path).out)
    assert [(one["path"], one["state"]) for one in told] == [
        (path, "holds"),
        (path, "waits"),
        (f"{path}/deeper", "holds"),
    ]
    assert told[0]["node"] == f"{path}/{node}"
    assert told[0]["label"] == "nightly"
    assert int(told[0]["token"]) > 0
    assert isinstance(told[0]["since"], int)


def test_s565_a_directory_that_is_called_locks(server: Standalone, observer: Observer, path: str) -> None:
    """As a semaphore calls one of its two."""
    with Command(server.hosts, "run", f"{path}/locks/a", "--", "sleep", "60"):
        observer.wait_queue(f"{path}/locks/a", 1)
        assert run(server.hosts, "ls", "--recursive", path).out.startswith(f"{path}/locks/a\n")
        assert run(server.hosts, "top", "--once", path).out.startswith(f"{path}/locks/a ")


def test_s565_what_others_write_is_shown_as_text(server: Standalone, observer: Observer, path: str) -> None:
    observer.create(path)
    observer.client.create(f"{path}/x-lock-", b"\x1b[2Jhost", ephemeral=True, sequence=True)
    shown = run(server.hosts, "ls", path).out
    assert "host" in shown
    assert "\x1b" not in shown


def test_s566_break_and_revoke(server: Standalone, observer: Observer, path: str) -> None:
    with Command(server.hosts, "run", path, "--", "sleep", "60") as holder:
        (node,) = observer.wait_queue(path, 1)
        # Nobody can be asked.
        assert run(server.hosts, "break", path, node).status == 64
        missing = run(server.hosts, "break", "--yes", path, "x-lock-0000000099")
        assert missing.status == 1
        assert "x-lock-0000000099" in missing.err
        assert observer.queue(path) == [node]
        assert run(server.hosts, "revoke", path, f"{path}/{node}").status == 0
        assert observer.client.get(f"{path}/{node}")[0] == b"__REVOKE__"
        assert holder.process.poll() is None, "it does not listen"
        broken = run(server.hosts, "break", "--yes", path, node)
        assert broken.status == 0
        assert holder.wait().status == 79
    observer.assert_free(path)


def test_s567_waiting_for_a_free_lock(server: Standalone, observer: Observer, path: str) -> None:
    assert run(server.hosts, "wait", path).status == 0
    with Command(server.hosts, "run", path, "--", "sleep", "60") as holder:
        observer.wait_queue(path, 1)
        still = run(server.hosts, "wait", "-w", "2.5", path)
        assert still.status == 75
        assert "sleep" in still.err
        with Command(server.hosts, "wait", path) as waiting:
            assert len(observer.queue(path)) == 1
            holder.signal(signal.SIGTERM)
            assert waiting.wait().status == 0


def test_s568_a_server_for_development(path: str) -> None:
    hosts = f"127.0.0.1:{free_port()}"
    with Command("", "dev", "--port", hosts.rpartition(":")[2]) as served:
        assert run(hosts, "run", path, "--", "true").status == 0
        taken = run("", "dev", "--port", hosts.rpartition(":")[2])
        assert taken.status == 69
        served.signal(signal.SIGTERM)
        ended = served.wait()
    assert ended.status == 0
    assert "development only" in ended.out
    assert "Apache ZooKeeper" in ended.out
    assert hosts in ended.out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_s569_completions(shell: str) -> None:
    made = run("", "completions", shell)
    assert made.status == 0
    assert "on-suspend" in made.out
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=made.out, text=True, check=True)


def test_s569_the_manual() -> None:
    assert ".TH zklock 1" in run("", "man").out
    assert "on\\-lost" in run("", "man", "run").out
    assert run("", "man", "bogus").status == 64


def test_s569_a_reader_that_has_seen_enough() -> None:
    command = f"{COMMAND} completions zsh | head -n 1; echo ${{PIPESTATUS[0]}}"
    seen = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert seen.stdout.splitlines()[-1] == "0"
    assert seen.stderr == ""
