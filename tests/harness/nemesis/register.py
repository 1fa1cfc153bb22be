"""The data that the locks guard: registers and rooms.

A register is a number. A holder reads it, waits, and writes it back incremented. If the number has changed
since the read, the write undoes another update. Each register exists twice. The plain one accepts every
write. The fenced one refuses a token smaller than the largest token that it has seen in a read or a write.

A reader reads a number at the start and at the end of its hold, because the number must not change in
between. Holders of a semaphore's permits enter a room, which has space for as many holders as there are
permits.
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

from harness.nemesis.record import Entry, Held, Reading, Write


@dataclass
class _Cell:
    plain: int = 0
    fenced: int = 0
    newest: int = 0


class Registers:
    """Serves registers by name. Requests and replies are lines with one JSON object each."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.readings: list[Reading] = []
        self.entries: list[Entry] = []
        self._rooms: dict[str, dict[str, Held]] = defaultdict(dict)
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
        """Address of the server."""
        host, port = self._server.server_address[:2]
        return f"{host!s}:{port}"

    def answer(self, line: dict[str, Any]) -> dict[str, Any]:
        """Execute a request and return the reply."""
        held = Held(**line["held"])
        with self._lock:
            t = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
            carry_out = {
                "read": self._read,
                "write": self._write,
                "first read": self._read_first,
                "read again": self._read_again,
                "enter": self._enter,
                "leave": self._leave,
            }[line["do"]]
            return carry_out(line, held, t)

    def _read(self, line: dict[str, Any], held: Held, _t: int) -> dict[str, Any]:
        cell = self._cells[line["name"]]
        cell.newest = max(cell.newest, held.token)
        return {"plain": cell.plain, "fenced": cell.fenced}

    def _write(self, line: dict[str, Any], held: Held, t: int) -> dict[str, Any]:
        cell = self._cells[line["name"]]
        stale = held.token < cell.newest
        cell.newest = max(cell.newest, held.token)
        self.writes.append(
            Write(
                name=line["name"],
                writer=held.worker,
                token=held.token,
                t=t,
                undid_plain=line["plain"] != cell.plain,
                undid_fenced=not stale and line["fenced"] != cell.fenced,
                refused=stale,
                held=held,
            )
        )
        cell.plain = line["plain"] + 1
        if not stale:
            cell.fenced = line["fenced"] + 1
        return {"refused": stale}

    def _read_first(self, line: dict[str, Any], held: Held, t: int) -> dict[str, Any]:
        return {**self._read(line, held, t), "began": t}

    def _read_again(self, line: dict[str, Any], held: Held, t: int) -> dict[str, Any]:
        cell = self._cells[line["name"]]
        changed = line["plain"] != cell.plain, line["fenced"] != cell.fenced
        self.readings.append(Reading(line["name"], held, line["began"], t, *changed))
        return {}

    def _enter(self, line: dict[str, Any], held: Held, t: int) -> dict[str, Any]:
        room = self._rooms[line["name"]]
        self.entries.append(Entry(line["name"], line["room_for"], held, t, tuple(room.values())))
        room[held.node] = held
        return {}

    def _leave(self, line: dict[str, Any], held: Held, _t: int) -> dict[str, Any]:
        self._rooms[line["name"]].pop(held.node, None)
        return {}

    def lost_updates(self) -> dict[str, int]:
        """Return the number of undone writes of each plain register."""
        with self._lock:
            counted: dict[str, int] = defaultdict(int)
            for write in self.writes:
                counted[write.name] += 1
            return {name: count - self._cells[name].plain for name, count in counted.items()}
