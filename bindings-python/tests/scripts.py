"""Programs of their own, for what ends or forks a process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from types import TracebackType


def environment(hosts: str, path: str) -> dict[str, str]:
    """What a program finds its server and its lock by."""
    return {**os.environ, "ZKLOCK_HOSTS": hosts, "LOCK_PATH": path, "PYTHONUNBUFFERED": "1"}


def program(code: str) -> list[str]:
    """The command that runs `code`, with what all programs import."""
    head = "import asyncio, os, signal, sys, threading, time\nimport zklock\nfrom zklock import aio\n"
    head += "hosts, path = os.environ['ZKLOCK_HOSTS'], os.environ['LOCK_PATH']\n"
    return [sys.executable, "-X", "dev", "-c", head + textwrap.dedent(code)]


def run(
    code: str, hosts: str = "127.0.0.1:1", path: str = "/unused", timeout: float = 20
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    return subprocess.run(
        program(code),
        env=environment(hosts, path),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


class Program(subprocess.Popen[str]):
    """A program that does not outlive a test that fails: left to itself it may wait for ever."""

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.kill()
        super().__exit__(kind, value, trace)


def start(code: str, hosts: str, path: str) -> Program:
    """Start a program; it is talked to through its standard streams."""
    return Program(
        program(code),
        env=environment(hosts, path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
