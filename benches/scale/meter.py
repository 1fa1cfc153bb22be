"""Reads the server's counters, the sockets' byte counts, and the processes' memory at one moment."""

from __future__ import annotations

import re
import subprocess
import time
from dataclasses import dataclass

from harness.server import Server
from locks.processor import status, used


@dataclass(frozen=True)
class Moment:
    """Counters since the start, and current sizes."""

    at: float
    requests: int
    replies: int
    writes: int
    received: int
    sent: int
    client_seconds: float
    server_seconds: float
    client_kib: int
    server_kib: int
    client_threads: int
    nodes: int
    watches: int
    connections: int


def _socket_bytes(port: int) -> tuple[int, int]:
    """Return the numbers of payload bytes that the server has received and sent on its open connections."""
    command = ["ss", "-tinH", "state", "established", "sport", "=", f":{port}"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def total(field: str) -> int:
        return sum(int(count) for count in re.findall(rf"\b{field}:(\d+)", told))

    return total("bytes_received"), total("bytes_acked")


def look(server: Server, pids: list[int]) -> Moment:
    """Measure the current moment."""
    told = dict(line.split("\t", 1) for line in server.four_letter("mntr").splitlines() if "\t" in line)
    zxid = re.search(r"Zxid: 0x([0-9a-f]+)", server.four_letter("srvr"))
    assert zxid is not None
    received, sent = _socket_bytes(server.port)
    return Moment(
        at=time.monotonic(),
        requests=int(told["zk_packets_received"]),
        replies=int(told["zk_packets_sent"]),
        writes=int(zxid[1], 16),
        received=received,
        sent=sent,
        client_seconds=sum(used(pid) for pid in pids),
        server_seconds=used(server.pid),
        client_kib=sum(status(pid, "VmRSS") for pid in pids),
        server_kib=status(server.pid, "VmRSS"),
        client_threads=sum(status(pid, "Threads") for pid in pids),
        nodes=int(told["zk_znode_count"]),
        watches=int(told["zk_watch_count"]),
        connections=int(told["zk_num_alive_connections"]),
    )


def between(before: Moment, after: Moment) -> dict[str, float | int]:
    """Return the figures of a phase: counts, rates per second, and sizes at its end."""
    seconds = after.at - before.at or 1.0
    counted = {
        name: getattr(after, name) - getattr(before, name)
        for name in ("requests", "replies", "writes", "received", "sent", "client_seconds", "server_seconds")
    }
    rates = {f"{name}_per_second": round(count / seconds, 3) for name, count in counted.items()}
    sizes = {
        name: getattr(after, name)
        for name in ("client_kib", "server_kib", "client_threads", "nodes", "watches", "connections")
    }
    return {"seconds": round(seconds, 2), **{n: round(c, 2) for n, c in counted.items()}, **rates, **sizes}
