"""Starts a program that runs a job once in each numbered slot, and derives holds from its output."""

from __future__ import annotations

import subprocess
import threading
from types import TracebackType
from typing import Self

from harness.history import Hold
from harness.paths import RUST_SLOTS
from harness.processes import reap, spawn


class SlotRunner:
    """A process that runs the job of each slot in turn, under a lock, until `slots` slots are recorded."""

    def __init__(self, hosts: str, path: str, slots: int, *, long: bool = False) -> None:
        """Start the process.

        With `long`, the bodies of some slots take longer than the term of their lease.
        """
        self.path = path
        self._lines: list[list[str]] = []
        self.said: list[str] = []
        """The first two words of each line that the process printed: `runs` or `ends`, and the slot."""
        command = [str(RUST_SLOTS), hosts, path, str(slots), *(["long"] if long else [])]
        self.process = spawn(command, stdout=subprocess.PIPE)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            words = line.decode().split()
            self._lines.append(words)
            self.said.append(" ".join(words[:2]))
            if words[0] in ("runs", "ends"):
                self.on_line(words[0], int(words[1]))

    def on_line(self, word: str, slot: int) -> None:
        """Handle the start or end of a slot's job. This runs on the thread that reads the output."""

    def kill(self) -> list[str]:
        """Kill the process. Return the words that it has printed."""
        reap(self.process, readers=[self._reader])
        return self.said

    def wait(self, timeout: float) -> None:
        """Wait until the process has run all slots."""
        assert self.process.wait(timeout) == 0
        self._reader.join(timeout)

    def holds(self) -> list[Hold]:
        """Return the completed bodies, each as a hold of the lock."""
        found = []
        begun: list[str] = []
        for words in self._lines:
            if words[0] == "runs":
                begun = words
            elif words[0] == "ends" and begun[1] == words[1]:
                _, slot, node, token, since = begun
                found.append(
                    Hold(
                        path=self.path,
                        worker=f"slots-{self.process.pid}",
                        owner=slot,
                        granted=int(since),
                        ended=int(words[2]),
                        node=node,
                        token=int(token),
                    )
                )
        return found
