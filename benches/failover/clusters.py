"""The servers whose processes are killed: an ensemble of ZooKeeper, and a cluster of etcd."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from http.client import HTTPException
from pathlib import Path
from typing import Any, Self, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from harness.ports import free_port
from harness.processes import reap, spawn
from harness.server import Ensemble, NotServing, Settings
from locks.packages import program
from locks.servers import on_disk

T = TypeVar("T")

MEMBERS = 3
STARTUP = 30.0
TICK = 500
"""Tick of the ZooKeeper servers in milliseconds. Sessions expire at multiples of it."""

# Writes wait for the disk, and the limits are those of ZooKeeper's sample configuration.
SETTINGS = Settings(
    tick=TICK,
    min_session_timeout=2 * TICK,
    init_limit=10,
    sync_limit=5,
    fsync=True,
    jvm=("-Xmx256m", "-XX:TieredStopAtLevel=4"),
)


class Cluster(ABC):
    """Three servers. Any one of them can be killed and restarted."""

    hosts: str

    @abstractmethod
    def leader(self) -> int:
        """Return the number of the leader."""

    @abstractmethod
    def kill(self, number: int) -> None:
        """Kill a server with SIGKILL."""

    @abstractmethod
    def launch(self, number: int) -> None:
        """Start a killed server without waiting for it."""

    @abstractmethod
    def wait(self) -> None:
        """Wait until all servers serve."""

    @abstractmethod
    def serves(self, number: int, session: int) -> bool | None:
        """Return whether a session is connected to a server, or None if that is not known."""

    @abstractmethod
    def nodes(self, path: str) -> list[str]:
        """Return the contenders of a lock."""

    def follower(self, turn: int) -> int:
        """Return one of the two followers, in turn."""
        leader = self.leader()
        followers = [number for number in range(MEMBERS) if number != leader]
        return followers[turn % len(followers)]


class ZooKeepers(Cluster):
    """An ensemble of Apache ZooKeeper."""

    def __init__(self) -> None:
        self._ensemble = Ensemble(MEMBERS, SETTINGS, parent=on_disk())
        self.hosts = self._ensemble.hosts

    def __enter__(self) -> Self:
        self._ensemble.__enter__()
        # The observer tries again soon, because the benchmark waits for its answers.
        soon = {"max_tries": -1, "delay": 0.05, "backoff": 1, "max_jitter": 0}
        self._observer = KazooClient(self.hosts, connection_retry=soon, command_retry=soon)
        self._observer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._observer.stop()
        self._ensemble.close()

    def leader(self) -> int:
        leader = self._ensemble.leader()
        return next(number for number, one in enumerate(self._ensemble.servers) if one is leader)

    def kill(self, number: int) -> None:
        self._ensemble.servers[number].kill()

    def launch(self, number: int) -> None:
        self._ensemble.servers[number].launch()

    def wait(self) -> None:
        self._ensemble.wait_serving()

    def serves(self, number: int, session: int) -> bool | None:
        with contextlib.suppress(NotServing):
            return f"sid=0x{session % 2**64:x}," in self._ensemble.servers[number].four_letter("cons")
        return False

    def nodes(self, path: str) -> list[str]:
        with contextlib.suppress(NoNodeError):
            return sorted(self._observer.retry(self._observer.get_children, path))
        return []

    def commit(self, times: int = 20) -> float:
        """Return the median time of a write in seconds."""
        taken = []
        for _ in range(times):
            began = time.perf_counter()
            self._observer.create("/commit-", ephemeral=True, sequence=True)
            taken.append(time.perf_counter() - began)
        return sorted(taken)[times // 2]


class Etcds(Cluster):
    """A cluster of etcd with its own defaults."""

    def __init__(self) -> None:
        self._program = program("etcd")
        self._urls = [f"http://127.0.0.1:{free_port()}" for _ in range(MEMBERS)]
        self._inner = [f"http://127.0.0.1:{free_port()}" for _ in range(MEMBERS)]
        self.hosts = ",".join(url.removeprefix("http://") for url in self._urls)
        self._directory = Path(tempfile.mkdtemp(prefix="zklock-etcd-", dir=on_disk()))
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        for number in range(MEMBERS):
            self.launch(number)
        self.wait()
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            reap(process)
        shutil.rmtree(self._directory, ignore_errors=True)

    def launch(self, number: int) -> None:
        members = ",".join(f"{member}={url}" for member, url in enumerate(self._inner))
        command = [
            *(str(self._program), "--name", str(number), "--data-dir", str(self._directory / str(number))),
            *("--listen-client-urls", self._urls[number], "--advertise-client-urls", self._urls[number]),
            *("--listen-peer-urls", self._inner[number]),
            *("--initial-advertise-peer-urls", self._inner[number]),
            *("--initial-cluster", members, "--log-level", "error"),
        ]
        self._processes[number] = spawn(command, stderr=subprocess.DEVNULL)

    def _ask(self, number: int, what: str, **fields: str) -> dict[str, Any]:
        request = urllib.request.Request(f"{self._urls[number]}/v3/{what}", json.dumps(fields).encode())
        with urllib.request.urlopen(request, timeout=5) as reply:
            answer: dict[str, Any] = json.loads(reply.read())
        return answer

    def _first(self, found: Callable[[int], T | None], among: Iterable[int] = range(MEMBERS)) -> T:
        """Ask members again and again until a function returns a result for one of them."""
        deadline = time.monotonic() + STARTUP
        while time.monotonic() < deadline:
            for number in among:
                # A member that was killed, or has no leader, cannot answer.
                with contextlib.suppress(OSError, HTTPException):
                    if (result := found(number)) is not None:
                        return result
            time.sleep(0.05)
        raise RuntimeError("etcd does not serve")

    def _leads(self, number: int) -> int | None:
        status = self._ask(number, "maintenance/status")
        return number if status.get("leader") == status["header"]["member_id"] else None

    def leader(self) -> int:
        return self._first(self._leads)

    def kill(self, number: int) -> None:
        reap(self._processes.pop(number))

    def wait(self) -> None:
        def serving(number: int) -> bool | None:
            return self._ask(number, "maintenance/status").get("leader", "0") != "0" or None

        for number in range(MEMBERS):
            self._first(serving, (number,))

    def serves(self, number: int, session: int) -> None:
        """Return None: the client spreads its requests over all servers."""

    def nodes(self, path: str) -> list[str]:
        first, end = f"{path}/", f"{path}0"
        fields = {"key": base64.b64encode(first.encode()).decode()}
        fields["range_end"] = base64.b64encode(end.encode()).decode()
        reply = self._first(lambda number: self._ask(number, "kv/range", **fields))
        return sorted(base64.b64decode(one["key"]).decode() for one in reply.get("kvs", []))
