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
from pathlib import Path
from typing import Any, Self

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from harness.ports import free_port
from harness.processes import reap, spawn
from harness.server import Ensemble, NotServing, Settings
from locks.packages import program

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
    def restart(self, number: int) -> None:
        """Start a killed server, and wait until it serves."""

    @abstractmethod
    def serves(self, number: int, session: int) -> bool:
        """Return whether a session is connected to a server. Always true if that is not known."""

    @abstractmethod
    def nodes(self, path: str) -> list[str]:
        """Return the contenders of a lock."""

    def follower(self, turn: int) -> int:
        """Return one of the two followers, in turn."""
        followers = [number for number in range(MEMBERS) if number != self.leader()]
        return followers[turn % len(followers)]


class ZooKeepers(Cluster):
    """An ensemble of Apache ZooKeeper."""

    def __init__(self) -> None:
        self._ensemble = Ensemble(MEMBERS, SETTINGS)
        self.hosts = self._ensemble.hosts
        self.directory = self._ensemble.servers[0].directory

    def __enter__(self) -> Self:
        self._ensemble.__enter__()
        self._observer = KazooClient(self.hosts)
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

    def restart(self, number: int) -> None:
        self._ensemble.servers[number].start()

    def serves(self, number: int, session: int) -> bool:
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
        self._directory = Path(tempfile.mkdtemp(prefix="zklock-etcd-"))
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        for number in range(MEMBERS):
            self._launch(number)
        for number in range(MEMBERS):
            self._await(number)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            reap(process)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _launch(self, number: int) -> None:
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

    def _await(self, number: int) -> None:
        deadline = time.monotonic() + STARTUP
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                if self._ask(number, "maintenance/status").get("leader", "0") != "0":
                    return
            time.sleep(0.05)
        raise RuntimeError("etcd does not serve")

    def leader(self) -> int:
        for number in range(MEMBERS):
            status = self._ask(number, "maintenance/status")
            if status["leader"] == status["header"]["member_id"]:
                return number
        raise RuntimeError("no member of etcd leads")

    def kill(self, number: int) -> None:
        reap(self._processes.pop(number))

    def restart(self, number: int) -> None:
        self._launch(number)
        self._await(number)

    def serves(self, number: int, session: int) -> bool:
        # Its client spreads its requests over all servers.
        return True

    def nodes(self, path: str) -> list[str]:
        first, end = f"{path}/", f"{path}0"
        fields = {"key": base64.b64encode(first.encode()).decode()}
        fields["range_end"] = base64.b64encode(end.encode()).decode()
        found = self._ask(0 if 0 in self._processes else 1, "kv/range", **fields).get("kvs", [])
        return sorted(base64.b64decode(one["key"]).decode() for one in found)
