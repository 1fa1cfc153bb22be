"""The processes of the fleet. Each process has several hundred clients and follows the driver's commands."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parent.parent.parent
WORKER = ROOT / "target" / "release" / "bench-scale"

Told = dict[str, int]


class Fleet:
    """Clients that are spread evenly over several processes."""

    def __init__(self, hosts: str, clients: int, processes: int, session_timeout: int) -> None:
        self._workers = []
        each = clients // processes
        for number in range(processes):
            task = {
                "hosts": hosts,
                "path": f"/scale-{session_timeout}",
                "clients": each,
                "first": number * each,
                "session_timeout": session_timeout,
            }
            self._workers.append(
                subprocess.Popen(
                    [WORKER, json.dumps(task)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.kill()
            worker.wait()

    @property
    def pids(self) -> list[int]:
        """Return the process ids."""
        return [worker.pid for worker in self._workers]

    def do(self, command: str) -> tuple[float, Told]:
        """Let all processes run a command at the same time. Return the time of the slowest process, and the
        sums of the results of all processes.
        """
        for worker in self._workers:
            assert worker.stdin is not None
            worker.stdin.write(f"{command}\n")
            worker.stdin.flush()
        seconds, told = 0.0, dict[str, int]()
        for worker in self._workers:
            assert worker.stdout is not None
            line = worker.stdout.readline()
            if not line:
                raise RuntimeError(f"a process of the fleet has exited during {command!r}")
            answer = json.loads(line)
            seconds = max(seconds, answer["seconds"])
            for name, count in answer["told"].items():
                told[name] = told.get(name, 0) + count
        return seconds, told
