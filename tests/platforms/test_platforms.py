"""The command, the wheel and the addon on platforms that this machine emulates."""

from __future__ import annotations

import re
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.observer import Observer
from harness.security import secured_server
from harness.server import Standalone
from harness.terminal import CTRL_C, terminal
from platforms.emulated import LIMIT, Platform

HERE = Path(__file__).parent


@pytest.fixture
def path() -> str:
    return f"/t-{uuid.uuid4().hex[:8]}/lock"


@contextmanager
def dev(platform: Platform) -> Iterator[str]:
    """Run `zklock dev`. Yields its address."""
    with platform.running(platform.command, "dev", "--port", "0") as output:
        for line in output:
            if found := re.search(r"127\.0\.0\.1:\d+", line.decode()):
                yield found[0]
                return
        pytest.fail("zklock dev ended without an address")


def zklock(platform: Platform, *words: str) -> tuple[int, str]:
    """Run the command. Return its exit status and its output."""
    ran = platform.run(platform.command, *words)
    return ran.returncode, ran.stdout + ran.stderr


def test_the_command_prints_its_version(platform: Platform) -> None:
    assert zklock(platform, "--version") == (0, "zklock 0.1.0\n")


def test_unit_tests_of_core(platform: Platform) -> None:
    if not platform.suffix:
        pytest.skip("only Windows has system calls of its own")
    ran = platform.run(str(platform.built / "units.exe"), "--test-threads", "2")
    assert (ran.returncode, "test result: ok" in ran.stdout) == (0, True), ran.stdout + ran.stderr


def test_the_commands_own_server(platform: Platform, path: str) -> None:
    with dev(platform) as hosts:
        status, shown = zklock(platform, "doctor", "-z", hosts)
        assert (status, "connected to" in shown) == (0, True), shown
        assert zklock(platform, "wait", "-z", hosts, "-w", "30", path)[0] == 0
        assert zklock(platform, "ls", "-z", hosts, path)[0] == 0


def test_the_command_on_a_real_server(platform: Platform, server: Standalone, path: str) -> None:
    status, shown = zklock(platform, "doctor", "-z", server.hosts, "--session-timeout", "10s", path)
    assert (status, "connected to" in shown) == (0, True), shown
    status, shown = zklock(platform, "top", "--once", "-z", server.hosts, "/")
    assert status == 0, shown


def test_ctrl_c_ends_the_command(platform: Platform) -> None:
    # wine shows the terminal to the program as a console.
    with terminal(*platform.runner, platform.command, "dev", "--port", "0", env=platform.env) as shown:
        shown.wait("127.0.0.1:", LIMIT)
        shown.type(CTRL_C)
        # The default action of the signal would give another status, except under wine, which always gives 0.
        # There, only `test_ctrl_c_frees_the_lock` shows that the event reaches the library.
        assert shown.ended(LIMIT) == 0


def test_run(platform: Platform, server: Standalone, path: str) -> None:
    words = ("run", "-z", server.hosts, path, "--", "sh", "-c", 'echo "$ZKLOCK_PATH"; exit 3')
    status, shown = zklock(platform, *words)
    if platform.suffix:
        assert (status, "Windows" in shown) == (70, True), shown
        pytest.skip("`zklock run` is refused on Windows")
    assert (status, shown) == (3, f"{path}\n")


def test_tls_with_a_real_server(platform: Platform, path: str) -> None:
    with secured_server() as secured:
        files = [
            word for name, file in secured.tls.items() for word in (f"--tls-{name}", platform.file(file))
        ]
        status, shown = zklock(platform, "doctor", "-z", secured.hosts, *files, path)
        assert (status, "connected to" in shown) == (0, True), shown
        # The server requires a client certificate.
        assert zklock(platform, "ls", "-z", secured.hosts, *files[:2], "-w", "5", path)[0] != 0


def check_cycle(ran: subprocess.CompletedProcess[str], server: Standalone) -> None:
    """Check a program that has lost a lease, and has then ended while it held a lock of the server."""
    shown = ran.stdout + ran.stderr
    assert ran.returncode == 0, shown
    assert "lost: session expired" in ran.stdout, shown
    assert (held := re.search(r"^holding (/\S+)", ran.stdout, re.MULTILINE)), shown
    with Observer(server.hosts) as observer:
        # The session's timeout is longer, so the program itself has freed the lock.
        assert not observer.exists(held[1]), "the program left its node behind"


def test_a_lock_in_python(platform: Platform, python: list[str], server: Standalone, path: str) -> None:
    interpreter, packages = python
    program = platform.file(HERE / "cycle.py")
    env = {"PYTHONPATH": packages, "PYTHONDONTWRITEBYTECODE": "1"}
    check_cycle(platform.run(interpreter, program, server.hosts, path, env=env), server)


def test_ctrl_c_frees_the_lock(platform: Platform, python: list[str], server: Standalone, path: str) -> None:
    interpreter, packages = python
    env = {**platform.env, "PYTHONPATH": packages, "PYTHONDONTWRITEBYTECODE": "1"}
    program = (interpreter, platform.file(HERE / "ends.py"), server.hosts, path)
    with terminal(*platform.runner, *program, env=env) as shown, Observer(server.hosts) as observer:
        shown.wait("holding", LIMIT)
        shown.type(CTRL_C)
        assert shown.ended(LIMIT) is not None
        # The session's timeout is longer, so the library has freed the lock.
        assert observer.queue(path) == []


def test_a_lock_in_node(platform: Platform, node: list[str], server: Standalone, path: str) -> None:
    interpreter, directory = node
    program = Path(directory, "cycle.mjs")
    program.write_text((HERE / "cycle.mjs").read_text())
    check_cycle(platform.run(interpreter, platform.file(program), server.hosts, path, files=True), server)
