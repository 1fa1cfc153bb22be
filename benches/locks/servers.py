"""The servers of the peers: ZooKeeper and other systems. Without `disk`, they keep their data in memory, or
do not sync it.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from harness.ports import free_port
from harness.processes import reap, spawn
from harness.server import Settings, Standalone
from locks.packages import LIBRARIES, Unavailable, program

STARTUP = 20.0

Command = list[str | Path]


class Serving(NamedTuple):
    """A running server. `pid` is its process, if one process does all the work."""

    hosts: str
    pid: int | None = None


# ZooKeeper's usual tick, and the JVM's optimizing compiler. The tests use neither.
ZOOKEEPER = Settings(
    tick=2_000,
    min_session_timeout=4_000,
    jvm=("-Xmx1g", "-XX:TieredStopAtLevel=4", "-Djute.maxbuffer=4194304"),
)


@contextlib.contextmanager
def zookeeper() -> Iterator[Serving]:
    """Run the block with one server of Apache ZooKeeper."""
    with Standalone(ZOOKEEPER) as server:
        yield Serving(server.hosts, server.pid)


@contextlib.contextmanager
def _serving(command: Command, port: int, user: str | None = None) -> Iterator[int]:
    """Run the block with a server that listens on this port. The result is its process id."""
    env = {"LD_LIBRARY_PATH": f"{LIBRARIES}:{os.environ.get('LD_LIBRARY_PATH', '')}"}
    words = [str(word) for word in command]
    if user is not None:
        words = [
            "setpriv",
            f"--reuid={user}",
            f"--regid={pwd.getpwnam(user).pw_gid}",
            "--clear-groups",
            *words,
        ]
    process = spawn(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
    try:
        deadline = time.monotonic() + STARTUP
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[0]} does not accept connections")
            time.sleep(0.05)
        yield process.pid
    finally:
        process.terminate()
        reap(process, grace=5)


def on_disk() -> Path:
    """Return a directory for temporary files that is not in memory."""
    places = [Path(tempfile.gettempdir()), Path("/var/tmp")]
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    memory = {Path(where) for where, kind in mounts if kind in ("tmpfs", "ramfs")}
    for place in places:
        above = (place.resolve(), *place.resolve().parents)
        where = next(one for one in above if one.is_mount())
        if where not in memory:
            return place
    raise Unavailable(f"{places[0]} and {places[1]} are in memory: set TMPDIR")


@contextlib.contextmanager
def _directory(disk: bool = False) -> Iterator[Path]:
    memory = Path("/dev/shm")
    parent = on_disk() if disk else memory if memory.is_dir() else None
    made = tempfile.mkdtemp(prefix="zklock-bench-", dir=parent)
    try:
        yield Path(made)
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextlib.contextmanager
def redis() -> Iterator[Serving]:
    """Run the block with Redis without persistence."""
    port = free_port()
    with _directory() as data:
        command: Command = [
            program("redis-server"),
            "--port",
            str(port),
            "--bind",
            "127.0.0.1",
            "--dir",
            data,
        ]
        with _serving([*command, "--save", "", "--appendonly", "no"], port):
            yield Serving(f"127.0.0.1:{port}")


@contextlib.contextmanager
def etcd() -> Iterator[Serving]:
    """Run the block with one etcd server."""
    with etcds(1) as (server,):
        yield server._replace(pid=None)


@contextlib.contextmanager
def etcds(members: int, disk: bool = False) -> Iterator[list[Serving]]:
    """Run the block with the members of an etcd cluster."""
    ports = [(free_port(), free_port()) for _ in range(members)]
    cluster = ",".join(f"m{number}=http://127.0.0.1:{peer}" for number, (_, peer) in enumerate(ports))
    with contextlib.ExitStack() as stack:
        serving = []
        for number, (port, peer_port) in enumerate(ports):
            client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
            data = stack.enter_context(_directory(disk))
            command: Command = [program("etcd"), "--name", f"m{number}", "--data-dir", data]
            command += ["--log-level", "error"]
            command += ["--listen-client-urls", client, "--advertise-client-urls", client]
            command += ["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer]
            # A member listens before it has found the others.
            pid = stack.enter_context(_serving([*command, "--initial-cluster", cluster], port))
            serving.append(Serving(f"127.0.0.1:{port}", pid))
        yield serving


@contextlib.contextmanager
def postgres(disk: bool = False) -> Iterator[Serving]:
    """Run the block with PostgreSQL, as a user other than root. It calls fsync only if its data is on a disk,
    and then `pid` is the parent of the processes that do the work.
    """
    port, binary = free_port(), program("postgres").resolve()
    user = None
    if os.geteuid() == 0:
        names = {entry.pw_name for entry in pwd.getpwall()}
        user = "postgres" if "postgres" in names else "nobody"
    with _directory(disk) as data:
        if user is not None:
            shutil.chown(data, user)
        prefix = [] if user is None else ["setpriv", f"--reuid={user}", "--clear-groups"]
        prefix += [] if user is None else [f"--regid={pwd.getpwnam(user).pw_gid}"]
        initdb: Command = [
            *prefix,
            binary.parent / "initdb",
            "-D",
            data / "db",
            "-U",
            "bench",
            "-A",
            "trust",
            "-N",
        ]
        env = {**os.environ, "USER": user or getpass.getuser(), "HOME": str(data)}
        subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, env=env, cwd=data)
        command: Command = [binary, "-D", data / "db", "-p", str(port), "-h", "127.0.0.1", "-k", data]
        command += ["-c", f"fsync={'on' if disk else 'off'}", "-c", "max_connections=2200"]
        with _serving(command, port, user) as pid:
            yield Serving(f"127.0.0.1:{port}", pid if disk else None)


SERVERS: dict[str, Callable[[], contextlib.AbstractContextManager[Serving]]] = {
    "zookeeper": zookeeper,
    "postgres": postgres,
    "redis": redis,
    "etcd": etcd,
}
