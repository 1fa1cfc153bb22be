"""When a program exits or a scope ends, its locks are released immediately."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.built import NotBuilt, require
from harness.observer import Observer
from harness.paths import NODE, RUST_ENDS
from harness.processes import reap, spawn
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import in_time

# Each way to end `main` without a signal, and its exit status.
ENDS = {
    "return": 0,
    "forget": 0,
    "exit": 7,
    "exit in a thread": 7,
    "error": 1,
    "panic": 101,
    "panic in a task": 0,
    "blocking": 0,
}
ROUNDS = 5


@contextmanager
def program(manner: str, hosts: str, path: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program that holds the lock and ends in this manner."""
    require("worker")
    command = [str(RUST_ENDS), manner, hosts, path]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "holding\n"
            yield process
        finally:
            process.kill()


def test_s390_every_end_of_main(surface: str, server: Standalone, observer: Observer, path: str) -> None:
    left = []
    for number in range(ROUNDS):
        for manner, status in ENDS.items():
            directory = f"{path}/{number}-{manner.replace(' ', '-')}"
            with program(manner, server.hosts, directory) as process:
                assert len(observer.queue(directory)) == 1
                _, said = process.communicate("\n", timeout=20)
                assert process.returncode == status, said
                # A panic in an exit hook would print this.
                assert "local data" not in said, said
            if observer.queue(directory):
                left.append(directory)
    assert left == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_s391_signals(
    surface: str, number: signal.Signals, server: Standalone, observer: Observer, path: str
) -> None:
    with program("handled signal", server.hosts, path) as process:
        process.send_signal(number)
        assert process.wait(timeout=20) == -number
        observer.assert_free(path)
    # A signal ends a program that does not handle it. As documented, the program's node then stays for a
    # while.
    with program("signal", server.hosts, path) as process:
        process.send_signal(number)
        assert process.wait(timeout=20) == -number
        (node,) = observer.queue(path)
    observer.delete(f"{path}/{node}")


NODE_PROGRAM = """
import { Client, Mutex } from 'zklock';

const client = await Client.connect(undefined, { sessionTimeout: 30_000 });
client.closeOnSignals();
const lease = await new Mutex(client, process.argv[2]).acquire();
console.log('holding');
setInterval(() => lease.check(), 1000);
"""


def as_first_process(*command: str) -> list[str]:
    """Return a command line that runs as process 1, as in a container.

    In process 1, a signal without a handler has no effect.
    """
    rights = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    unshare = ["unshare", *rights, "--pid", "--fork", "--kill-child"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode != 0:
        raise NotBuilt("this system does not let us make a process namespace (unshare --pid)")
    return [*unshare, *command]


def test_s611_a_signal_to_the_first_process_of_a_container(
    surface: str, server: Standalone, observer: Observer, path: str, node_project: Path
) -> None:
    require("worker")
    file = node_project / "first.mjs"
    file.write_text(NODE_PROGRAM)
    programs = {
        "rust": [
            [str(RUST_ENDS), "handled signal", server.hosts, path],
            [str(RUST_ENDS), "handled signal, blocked by the main thread", server.hosts, path],
        ],
        "node": [[NODE, str(file), path]],
    }
    for command in programs[surface]:
        process = spawn(
            as_first_process(*command),
            env={"ZKLOCK_HOSTS": server.hosts},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"holding\n"
            (first,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            os.kill(int(first), signal.SIGTERM)
            assert process.wait(timeout=20) == 128 + signal.SIGTERM
            observer.assert_free(path)
        finally:
            reap(process)


def test_s392_a_silent_server_does_not_delay_an_exit(surface: str, proxy: Proxy, path: str) -> None:
    with program("return", proxy.hosts, path) as process:
        proxy.black_hole()
        # Closing the session takes up to two seconds. The rest of the limit is for the exit of the process.
        with in_time(2.8):
            began = time.monotonic()
            process.communicate("\n", timeout=20)
            assert time.monotonic() - began > 0.5
    assert process.returncode == 0


def test_s393_a_child_that_ends(surface: str, server: Standalone, observer: Observer, path: str) -> None:
    with program("fork", server.hosts, path) as process:
        said, problem = process.communicate("\n", timeout=20)
        assert (process.returncode, said) == (0, "1 contender\n"), problem
    observer.assert_free(path)


def test_s394_scopes_end_with_the_lock(
    surface: str, server: Standalone, observer: Observer, path: str
) -> None:
    with program("scope that is lost", server.hosts, path) as process:
        (node,) = observer.queue(path)
        observer.delete(f"{path}/{node}")
        said, problem = process.communicate(timeout=20)
        assert (process.returncode, said) == (0, "dropped\nLOCK_LOST\n"), problem
    # The next two programs wait for a line of input before they exit. Their locks must be released earlier.
    with program("scope that is dropped", server.hosts, path) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["dropped\n", "holding\n"]
        observer.wait_queue(path, 0)
        process.communicate("\n", timeout=20)
    command = [str(RUST_ENDS), "scope that returns", server.hosts, path]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as returned:
        assert returned.stdout is not None
        assert [returned.stdout.readline() for _ in range(2)] == ["42\n", "holding\n"]
        observer.assert_free(path)
        returned.communicate("\n", timeout=20)
