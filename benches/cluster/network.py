"""The delay between a peer and its servers: one process with a proxy in front of each server."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from types import TracebackType
from typing import NamedTuple, Self

from harness.processes import reap, spawn
from locks.peers import DIST

PROGRAM = DIST / "bench-proxy"


class Bytes(NamedTuple):
    """Bytes from the clients to the servers, and from the servers to the clients."""

    sent: int
    received: int


class Network:
    """A process that delays the traffic between one peer and its servers."""

    def __init__(self, servers: Iterable[str], delay: float) -> None:
        direction = str(round(delay / 2 * 1e6))
        self._process = spawn(
            [str(PROGRAM), direction, *servers], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.hosts: list[str] = self._answer()["hosts"]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        reap(self._process)

    def _answer(self) -> dict[str, list[str]]:
        assert self._process.stdout is not None
        answer: dict[str, list[str]] = json.loads(self._process.stdout.readline())
        return answer

    def take(self) -> Bytes:
        """Return the bytes since the previous call."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        return Bytes(**self._answer())  # type: ignore[arg-type]
