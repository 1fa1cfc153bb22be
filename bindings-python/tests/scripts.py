"""Runs programs in separate processes, for tests in which a process exits or forks."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import textwrap
from types import TracebackType

SLOW_CALLBACK = re.compile(r"^Executing <.* took \d+\.\d+ seconds\n", re.MULTILINE)
"""The warning about a slow callback that asyncio prints in debug mode. A busy machine slows any callback."""


def environment(hosts: str, path: str) -> dict[str, str]:
    return {**os.environ, "ZKLOCK_HOSTS": hosts, "LOCK_PATH": path, "PYTHONUNBUFFERED": "1"}


HEAD = """
import asyncio, os, signal, sys, threading, time
import zklock
from zklock import aio
hosts, path = os.environ['ZKLOCK_HOSTS'], os.environ['LOCK_PATH']
"""


def program(code: str, head: str = HEAD) -> list[str]:
    """Return the command that runs `code`, with the imports that all programs need.

    It runs in development mode, in which an aborted interpreter prints the stacks of its threads.
    """
    return [sys.executable, "-X", "dev", "-c", head + textwrap.dedent(code)]


class Program(subprocess.Popen[str]):
    """A program that is killed if its test fails. Before that, it prints the stacks of its threads."""

    # The parameters have the same names as in `Popen`.
    def communicate(self, input: str | None = None, timeout: float | None = None) -> tuple[str, str]:  # noqa: A002
        """Wait until the program exits, and return its output without the warnings about slow callbacks."""
        output, errors = super().communicate(input, timeout)
        return output, SLOW_CALLBACK.sub("", errors)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._abort()
        super().__exit__(kind, value, trace)

    def _abort(self) -> None:
        """Kill the program and then its children, and print the stacks of their threads."""
        self.send_signal(signal.SIGABRT)
        # A stopped process handles no other signal before SIGCONT.
        self.send_signal(signal.SIGCONT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(20)
        self._signal_all(signal.SIGABRT)
        try:
            output, errors = self.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            self._signal_all(signal.SIGKILL)
            output, errors = self.communicate()
        print(
            f"the program ended with {self.returncode} and had written:\n{output}\n{errors}", file=sys.stderr
        )

    def _signal_all(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)


def start(code: str, hosts: str, path: str, head: str = HEAD) -> Program:
    return Program(
        program(code, head),
        env=environment(hosts, path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def run(
    code: str, hosts: str = "127.0.0.1:1", path: str = "/unused", timeout: float = 20, head: str = HEAD
) -> subprocess.CompletedProcess[str]:
    """Run a program until it exits."""
    with start(code, hosts, path, head) as running:
        output, errors = running.communicate(timeout=timeout)
    return subprocess.CompletedProcess(running.args, running.returncode, output, errors)
