"""A worker's process, and its line protocol."""

from __future__ import annotations

import contextlib
import json
import queue
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.processes import reap, spawn
from locks.peers import Peer
from locks.workloads import Workload


class WorkerFailed(Exception):
    """A worker exited, or did not reply in time."""


@dataclass(frozen=True)
class Counted:
    """The result of one worker's turn."""

    count: int
    seconds: float
    # Histograms by name, in the compressed format of these libraries.
    latencies: Mapping[str, str] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Return the rate per second."""
        return self.count / self.seconds


class Worker:
    """One peer at one workload, as a process."""

    def __init__(self, peer: Peer, workload: Workload, hosts: str, path: str) -> None:
        self.peer = peer
        task = json.dumps(workload.task(hosts, path))
        command = [task if part == "{task}" else part for part in peer.command]
        if "{task}" not in peer.command:
            command.append(task)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = spawn(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, env=peer.env
        )
        self._lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(b"")

    def _answer(self, timeout: float) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=timeout)
        except queue.Empty:
            raise WorkerFailed(f"no reply within {timeout:.0f} s{self._last_words()}") from None
        if not line:
            raise WorkerFailed(f"the worker exited{self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        return f": {lines[-1]}" if lines else ""

    @property
    def pid(self) -> int:
        """Return the process id."""
        return self._process.pid

    def ready(self, timeout: float) -> str:
        """Wait until the worker is ready. Return the version that it reports."""
        return str(self._answer(timeout)["ready"])

    def count(self, seconds: float) -> Counted:
        """Let the worker run for this many seconds."""
        self._write(f"count {seconds}")
        answer = self._answer(seconds + 30)
        return Counted(answer["count"], answer["seconds"], answer.get("latencies", {}))

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()
        except OSError:
            raise WorkerFailed(f"the worker exited{self._last_words()}") from None

    def stop(self, grace: float = 10.0) -> None:
        """Stop the worker, in an orderly way if it still replies."""
        with contextlib.suppress(WorkerFailed):
            self._write("stop")
        reap(self._process, grace=grace, readers=[self._reader])
        self._errors.close()
