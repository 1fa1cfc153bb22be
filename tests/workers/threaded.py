"""The base of workers for clients whose owners are threads."""

from __future__ import annotations

import contextlib
import json
import queue
import random
import signal
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import FrameType
from typing import Any

from workers.line import Command, answer, fail, now, ready, thread_names

MAIN = "main"
CONTROL = "control"


class Interrupts:
    """Converts SIGINT to KeyboardInterrupt only while the main thread is inside an acquire.

    At any other place, the exception would interrupt the worker's own code and lose a command.
    """

    def __init__(self) -> None:
        self._armed = False
        signal.signal(signal.SIGINT, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._armed:
            self._armed = False
            raise KeyboardInterrupt

    @contextlib.contextmanager
    def armed(self) -> Any:
        """Run the block with SIGINT enabled, if it runs on the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._armed = True
        try:
            yield
        finally:
            self._armed = False


class ThreadedWorker(ABC):
    """Reads commands and passes each to its owner's thread. Subclasses implement the lock operations."""

    surface: str

    def __init__(self) -> None:
        self.interrupts = Interrupts()
        self._queues: dict[str, queue.SimpleQueue[Command | None]] = {MAIN: queue.SimpleQueue()}

    def run(self) -> None:
        """Work until `exit` or the end of the input."""
        ready(self.surface)
        threading.Thread(target=self._read, name="reader", daemon=True).start()
        self._serve(MAIN)
        sys.exit(0)

    def _read(self) -> None:
        for line in sys.stdin:
            command: Command = json.loads(line)
            name = command["cmd"]
            if name == "exit":
                self._end(command)
                return
            if name == "threads":
                answer(command, "value", value=thread_names())
            elif name == "cancel":
                self.cancel(command)
            elif name == "contend":
                threading.Thread(target=self._do, args=(command,), daemon=True).start()
            else:
                self._hand_over(command)
        self._end(None)

    def _end(self, command: Command | None) -> None:
        with contextlib.suppress(Exception):
            self.close_all()
        if command is not None:
            answer(command, "bye")
        self._queues[MAIN].put(None)

    def _hand_over(self, command: Command) -> None:
        owner = command.get("owner", CONTROL)
        if owner not in self._queues:
            self._queues[owner] = queue.SimpleQueue()
            threading.Thread(target=self._serve, args=(owner,), name=owner, daemon=True).start()
        self._queues[owner].put(command)

    def _serve(self, owner: str) -> None:
        commands = self._queues[owner]
        while (command := commands.get()) is not None:
            self._do(command)

    def _do(self, command: Command) -> None:
        method = getattr(self, f"do_{command['cmd']}", None)
        if method is None:
            answer(command, "unsupported")
            return
        try:
            method(command)
        except KeyboardInterrupt:
            answer(command, "cancelled")
        except Exception as error:
            fail(command, error)

    def do_contend(self, command: Command) -> None:
        """Let many owners contend for one path, each with its own lock object, or all with the same one."""
        shared = self.make(command) if command["objects"] == "shared" else None
        errors: list[Exception] = []
        counts: list[int] = []

        def contend(number: int) -> None:
            try:
                lock = shared if shared is not None else self.make(command)
                for turn in range(command["rounds"]):
                    self._hold(command, lock, number, turn)
                    counts.append(1)
            except Exception as error:
                errors.append(error)

        threads = [
            threading.Thread(target=contend, args=(number,), daemon=True)
            for number in range(command["owners"])
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        answer(command, "done", count=len(counts))

    def _hold(self, command: Command, lock: Any, number: int, turn: int) -> None:
        asked = now()
        with self.scope(lock) as seen:
            granted = now()
            fields = seen()
            self.pass_time(command)
            ended = now()
        names = {"lease": f"{command['id']}-{number}-{turn}", "owner": f"{command['id']}-{number}"}
        answer(command, "held", t=granted, t_wait=asked, t_end=ended, **names, **fields)

    @staticmethod
    def pass_time(command: Command) -> None:
        """Sleep for a random time within the command's `hold_ms`."""
        low, high = command["hold_ms"]
        time.sleep(random.uniform(low, high) / 1000)

    def cancel(self, command: Command) -> None:
        """Cancel a pending acquire. Python cannot cancel a thread, so the reply is `unsupported`."""
        answer(command, "unsupported")

    @abstractmethod
    def make(self, command: Command) -> Any:
        """Create a lock object for the command's client or hosts, and its path."""

    @abstractmethod
    def scope(self, lock: Any) -> AbstractContextManager[Callable[[], dict[str, str]]]:
        """Return a context manager that holds a lock.

        It yields a function that returns `node` and `token`.
        """

    @abstractmethod
    def close_all(self) -> None:
        """Close every client."""
