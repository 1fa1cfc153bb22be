"""What the locks guard: numbers that holders read, think about, and write back incremented.

Writing back a number that has changed since it was read undoes an update. Each register exists twice.
The plain one accepts every write. The fenced one refuses a token that is smaller than the largest it has
seen, whether with a read or with a write.
"""

from __future__ import annotations

import json
import socketserver
import threading
import time
from collections import defaultdict
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self


@dataclass(frozen=True)
class Write:
    """A write, and what it did."""

    name: str
    writer: str
    token: int
    # CLOCK_MONOTONIC in nanoseconds.
    t: int
    # Another owner had written since the writer read: one of the two updates is lost.
    spoilt_plain: bool
    spoilt_fenced: bool
    # The fenced register refused it: another owner with a newer token had read or written.
    refused: bool


@dataclass
class _Cell:
    plain: int = 0
    fenced: int = 0
    newest: int = 0


class Registers:
    """Serves registers by name. Each line is a JSON object, in both directions."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self._cells: dict[str, _Cell] = defaultdict(_Cell)
        self._lock = threading.Lock()
        registers = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                for line in self.rfile:
                    self.wfile.write(json.dumps(registers.answer(json.loads(line))).encode() + b"\n")

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="registers", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def address(self) -> str:
        """The address on which it listens."""
        host, port = self._server.server_address[:2]
        return f"{host!s}:{port}"

    def answer(self, line: dict[str, Any]) -> dict[str, Any]:
        """Carry out a request."""
        with self._lock:
            cell = self._cells[line["name"]]
            token = int(line["token"])
            stale = token < cell.newest
            cell.newest = max(cell.newest, token)
            if line["do"] == "read":
                return {"plain": cell.plain, "fenced": cell.fenced}
            write = Write(
                name=line["name"],
                writer=line["writer"],
                token=token,
                t=time.clock_gettime_ns(time.CLOCK_MONOTONIC),
                spoilt_plain=line["plain"] != cell.plain,
                spoilt_fenced=not stale and line["fenced"] != cell.fenced,
                refused=stale,
            )
            cell.plain = line["plain"] + 1
            if not stale:
                cell.fenced = line["fenced"] + 1
            self.writes.append(write)
            return {"refused": stale}

    def lost_updates(self) -> dict[str, int]:
        """How many writes each plain register does not show because they were undone."""
        with self._lock:
            counted: dict[str, int] = defaultdict(int)
            for write in self.writes:
                counted[write.name] += 1
            return {name: count - self._cells[name].plain for name, count in counted.items()}
