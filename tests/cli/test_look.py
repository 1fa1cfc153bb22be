"""Tests of `ls`, `wait`, `break` and `revoke`, and of the commands that need no lock."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import uuid

import pytest

from harness.command import Command, run
from harness.embedded import NewServer
from harness.observer import Observer
from harness.paths import COMMAND
from harness.ports import free_port
from harness.server import Standalone
from harness.steps import eventually


def test_s565_ls_shows_the_queue(server: Standalone, observer: Observer, path: str) -> None:
    free = run(server.hosts, "ls", path)
    assert free.status == 0
    assert free.out.startswith(f"nobody holds or waits for {path}: this path does not exist; ")
    observer.create(path)
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
            reported = json.loads(run(server.hosts, "ls", "--json", "--recursive", path).out)
    assert [(one["path"], one["state"]) for one in reported] == [
        (path, "holds"),
        (path, "waits"),
        (f"{path}/deeper", "holds"),
    ]
    assert reported[0]["node"] == f"{path}/{node}"
    assert reported[0]["label"] == "nightly"
    assert int(reported[0]["token"]) > 0
    assert isinstance(reported[0]["since"], int)


def test_s565_a_directory_named_locks(server: Standalone, observer: Observer, path: str) -> None:
    """`ls` and `top` do not mistake a directory named `locks` for a part of a semaphore."""
    with Command(server.hosts, "run", f"{path}/locks/a", "--", "sleep", "60"):
        observer.wait_queue(f"{path}/locks/a", 1)
        assert run(server.hosts, "ls", "--recursive", path).out.startswith(f"{path}/locks/a\n")
        assert run(server.hosts, "top", "--once", path).out.startswith(f"{path}/locks/a ")


def test_s742_a_lock_directory_that_is_named_by_an_id(
    server: Standalone, observer: Observer, path: str
) -> None:
    orders = f"{path}/orders"
    # These creates raise the directory's sequence number above 42, so the lock's name could be the name of
    # one of its sequential nodes.
    for _ in range(50):
        observer.client.delete(observer.client.create(f"{orders}/x-", b"", sequence=True, makepath=True))
    named = f"{orders}/10000000042"
    with Command(server.hosts, "run", "--label", "ship", named, "--", "sleep", "60"):
        observer.wait_queue(named, 1)
        for hosts, below in ((server.hosts, path), (server.hosts, named), (f"{server.hosts}{path}", "/")):
            shown = run(hosts, "ls", "--recursive", below)
            assert shown.status == 0, shown.err
            lines = shown.out.splitlines()
            assert lines[0] == named.removeprefix(path if below == "/" else "")
            assert len(lines) == 2, "no other lock is here"
            assert "ship" in lines[1]
            (row,) = run(hosts, "top", "--once", below).out.splitlines()
            assert row.split()[:3] == [lines[0], "held", "mutex"]
            assert " 0 waiting " in row
        # Another client locks `orders` itself. The persistent node in `orders` does not block it, because it
        # is behind this client's node in the queue.
        with Command(server.hosts, "run", "--label", "all", orders, "--", "sleep", "60"):
            observer.wait(orders, lambda queue: len(queue) == 2, "the directory and the contender")
            lines = run(server.hosts, "ls", "--recursive", path).out.splitlines()
            assert [line for line in lines if line.startswith("/")] == [orders, named]
            rows = run(server.hosts, "top", "--once", "--sort", "path", path).out.splitlines()
            assert [row.split()[0] for row in rows] == [orders, named]
        # In the queue of the lock `orders`, the persistent node counts as a contender.
        assert run(server.hosts, "ls", orders).out.splitlines()[1].endswith(f"{named}  persistent")


def test_s742_contenders_of_other_programs_are_found(
    server: Standalone, observer: Observer, path: str
) -> None:
    """`ls` and `top` recognize other programs' contenders by their ephemeral nodes, with any name."""
    for _ in range(3):
        observer.client.create(f"{path}/mine-", b"host", ephemeral=True, sequence=True, makepath=True)
    shown = run(server.hosts, "ls", "--recursive", path).out.splitlines()
    assert [line.split()[0] for line in shown] == [path, "holds", "waits", "waits"]
    (row,) = run(server.hosts, "top", "--once", path).out.splitlines()
    assert " 2 waiting " in row
    assert "host" in row


def test_s841_owners_of_a_queue(server: Standalone, observer: Observer, path: str) -> None:
    owner = {"number": 3, "name": "worker-2\x1b", "process": 9}
    unnamed = {**owner, "number": 4, "name": None}
    contender = {"host": "web-1", "pid": 7, "language": "python", "label": "mail", "since": 1}
    reported = [{**contender, "owner": owner}, {**contender, "owner": unnamed}, contender]
    for number, data in enumerate(reported):
        node = f"{path}/_c_{uuid.UUID(int=number)}-lock-"
        text = json.dumps(data).encode()
        observer.client.create(node, text, ephemeral=True, sequence=True, makepath=True)
    with Command(server.hosts, "run", path, "--", "sleep", "60"):
        observer.wait_queue(path, 4)
        plain = run(server.hosts, "ls", path).out.splitlines()[1:]
        assert all("owner" not in line for line in plain)
        lines = run(server.hosts, "ls", "--verbose", path).out.splitlines()[1:]
        for line, expected in zip(lines, (", owner 3 worker-2\\u{1b})", ", owner 4)", ")"), strict=False):
            assert f"mail (web-1, process 7{expected}" in line
        # The command has a single, unnamed owner.
        assert re.search(r", owner [0-9]+\) +for ", lines[3])
        entries = json.loads(run(server.hosts, "ls", "--json", path).out)
        assert [entry["owner"] for entry in entries[:3]] == [owner, unnamed, None]
        assert set(entries[3]["owner"]) == {"number", "name", "process"}


def test_s743_all_locks_of_the_servers(new_server: NewServer) -> None:
    with new_server() as own, Observer(own.hosts) as watcher:
        assert run(own.hosts, "top", "--once", "/").out == "no locks below /\n"
        empty = "nobody holds or waits for /, or for locks below it\n"
        assert run(own.hosts, "ls", "-r", "/").out == empty
        with Command(own.hosts, "run", "/a/b", "--", "sleep", "60"):
            watcher.wait_queue("/a/b", 1)
            assert run(own.hosts, "ls", "-r", "/").out.splitlines()[0] == "/a/b"
            assert run(own.hosts, "top", "--once", "/").out.startswith("/a/b ")
        alone = run(own.hosts, "ls", "/")
        assert (alone.status, alone.out) == (64, "")
        assert "zklock ls --recursive /" in alone.err


def test_s744_a_path_that_does_not_exist(server: Standalone, observer: Observer, path: str) -> None:
    observer.create(f"{path}/nightly")
    meant = f"this path does not exist; the nearest existing path is {path}; did you mean {path}/nightly?"
    far = f"this path does not exist; the nearest existing path is {path}"
    for typed, reported in ((f"{path}/nigthly", meant), (f"{path}/other/deeper", far)):
        shown = run(server.hosts, "ls", typed)
        assert (shown.status, shown.out) == (0, f"nobody holds or waits for {typed}: {reported}\n")
        shown = run(server.hosts, "ls", "-r", typed)
        assert shown.out == f"nobody holds or waits for {typed}, or for locks below it: {reported}\n"
        shown = run(server.hosts, "top", "--once", typed)
        assert (shown.status, shown.out) == (0, f"no locks below {typed}: {reported}\n")
        shown = run(server.hosts, "ls", "--json", typed)
        assert (shown.status, json.loads(shown.out)) == (0, [])
        assert shown.err == f"zklock: {typed}: {reported}\n"
    there = run(server.hosts, "ls", "--json", f"{path}/nightly")
    assert (json.loads(there.out), there.err) == ([], "")
    nowhere = run(f"{server.hosts}{path}/none", "ls", "/a")
    assert (nowhere.status, nowhere.out) == (0, "nobody holds or waits for /a\n"), (
        "the server has no such root node"
    )


def test_s565_ls_escapes_text_of_other_clients(server: Standalone, observer: Observer, path: str) -> None:
    observer.create(path)
    observer.client.create(f"{path}/x-lock-", b"\x1b[2Jhost", ephemeral=True, sequence=True)
    shown = run(server.hosts, "ls", path).out
    assert "host" in shown
    assert "\x1b" not in shown


def test_s566_break_and_revoke(server: Standalone, observer: Observer, path: str) -> None:
    with Command(server.hosts, "run", path, "--", "sleep", "60") as holder:
        (node,) = observer.wait_queue(path, 1)
        # There is no terminal for the confirmation.
        assert run(server.hosts, "break", path, node).status == 64
        missing = run(server.hosts, "break", "--yes", path, "x-lock-0000000099")
        assert missing.status == 1
        assert "x-lock-0000000099" in missing.err
        assert observer.queue(path) == [node]
        assert run(server.hosts, "revoke", path, f"{path}/{node}").status == 0
        eventually(lambda: "requests the lock" in holder.errors(), "the holder is asked to give up")
        assert holder.process.poll() is None, "the holder keeps running"
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


def test_s569_a_closed_pipe() -> None:
    command = f"{COMMAND} completions zsh | head -n 1; echo ${{PIPESTATUS[0]}}"
    seen = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert seen.stdout.splitlines()[-1] == "0"
    assert seen.stderr == ""
