"""Apache ZooKeeper for tests: one server, or an ensemble."""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from harness.built import require
from harness.links import Links
from harness.paths import JARS, JAVA
from harness.ports import free_port
from harness.processes import reap, spawn

STARTUP = 60.0
POLL = 0.02

SOON = 500
"""Value for `Settings.container_check` with which the server deletes an empty container during a test."""

JVM = [
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Dzookeeper.jmx.log4j.disable=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Djava.awt.headless=true",
    "-Dzookeeper.preAllocSize=1024",
    # Servers repeat their votes after a second at most. By default, they double the pause each time, and
    # three servers that start on a busy machine can take half a minute to elect a leader.
    "-Dzookeeper.fastleader.maxNotificationInterval=1000",
]


@dataclass(frozen=True)
class Settings:
    """Settings of a server that tests can change. Times are in milliseconds."""

    tick: int = 200
    min_session_timeout: int = 400
    max_session_timeout: int = 60_000
    # Interval at which the leader deletes empty containers. The default is longer than any test, because a
    # lock directory can be empty for a moment between two holds. If the server deleted it then, sequence
    # numbers would restart, and the checker would report overtaking.
    container_check: int = 3_600_000
    # Number of ticks for which a server that has lost its leader keeps replying to its clients.
    sync_limit: int = 10
    # Number of ticks that the servers have to complete an election before the next one starts.
    init_limit: int = 50
    # Maximum request size in bytes; None for the server's own limit.
    max_frame: int | None = None
    # True if the test needs nodes and sessions that survive a restart, as Apache ZooKeeper's do.
    durable: bool = False
    # True if the server waits for its disk before it confirms a write. The tests kill processes but do not
    # crash the machine, so the page cache is durable enough for them. fsync would take most of the time.
    fsync: bool = False
    # True if the server has an additional TLS port, which the `config` lines set up.
    secure: bool = False
    # Additional lines of the configuration, and additional JVM arguments.
    config: tuple[str, ...] = ()
    jvm: tuple[str, ...] = ()

    def needs_the_real_one(self) -> str:
        """Return the feature for which these settings need Apache ZooKeeper, or an empty string."""
        if self.secure or any("sasl" in line.lower() for line in (*self.config, *self.jvm)):
            return "TLS and SASL"
        if self.config or self.jvm:
            return "a configuration"
        return "data that survives a restart" if self.durable or self.fsync else ""


class NotServing(Exception):
    """The server did not reply, or replied that it does not serve."""


class Server:
    """One server process on a fixed port. Its data directory survives restarts."""

    # Name in tools/parts.py of the part that must be built before the server can start.
    part = "jars"

    def __init__(
        self,
        directory: Path,
        settings: Settings | None = None,
        *,
        server_id: int = 1,
        peers: str = "",
        port: int | None = None,
    ) -> None:
        self.settings = settings or Settings()
        require(self.part, self._what_for())
        self.port = port or free_port()
        self._secure_port = free_port() if self.settings.secure else None
        self.directory = directory
        self.server_id = server_id
        self._peers = peers
        self._process: subprocess.Popen[bytes] | None = None
        self._write_config()

    def _what_for(self) -> str:
        return self.settings.needs_the_real_one()

    def _write_config(self) -> None:
        data = self.directory / "data"
        data.mkdir(parents=True, exist_ok=True)
        (data / "myid").write_text(f"{self.server_id}\n")
        self._config = self.directory / "zoo.cfg"
        self._config.write_text(
            f"tickTime={self.settings.tick}\n"
            f"dataDir={data}\n"
            "clientPortAddress=127.0.0.1\n"
            f"clientPort={self.port}\n"
            f"minSessionTimeout={self.settings.min_session_timeout}\n"
            f"maxSessionTimeout={self.settings.max_session_timeout}\n"
            "maxClientCnxns=0\n"
            "admin.enableServer=false\n"
            "4lw.commands.whitelist=*\n"
            f"initLimit={self.settings.init_limit}\n"
            f"syncLimit={self.settings.sync_limit}\n"
            + self._secure_lines()
            + "".join(f"{line}\n" for line in self.settings.config)
            + self._peers
        )

    def _secure_lines(self) -> str:
        if self._secure_port is None:
            return ""
        return f"secureClientPort={self._secure_port}\nsecureClientPortAddress=127.0.0.1\n"

    @property
    def hosts(self) -> str:
        """Connect string of this server alone."""
        return f"127.0.0.1:{self.port}"

    @property
    def secure_hosts(self) -> str:
        """Connect string of this server's TLS port."""
        return f"127.0.0.1:{self._secure_port}"

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        if self._process is None:
            raise NotServing("the server is not running")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Return whether the test has started the server and not stopped it since."""
        return self._process is not None

    def launch(self) -> None:
        """Start the process without waiting for it."""
        if self._process is not None:
            raise RuntimeError("the server is already running")
        with (self.directory / "server.log").open("ab") as log:
            self._process = spawn(self._command(), stdout=log, stderr=log)

    def _command(self) -> list[str]:
        force = "yes" if self.settings.fsync else "no"
        command = [JAVA, *JVM, f"-Dzookeeper.forceSync={force}"]
        command.append(f"-Dznode.container.checkIntervalMs={self.settings.container_check}")
        if self.settings.max_frame is not None:
            command.append(f"-Djute.maxbuffer={self.settings.max_frame}")
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        return [*command, *self.settings.jvm, "-cp", f"{JARS}/*", main, str(self._config)]

    def start(self) -> None:
        """Start the process and wait until it serves."""
        self.launch()
        self.wait_serving()

    def wait_serving(self, timeout: float = STARTUP) -> None:
        """Wait until the server accepts clients. This polls the server, because no event reports it."""
        deadline = time.monotonic() + timeout
        while True:
            if self._process is None or self._process.poll() is not None:
                raise NotServing(f"the server ended while starting:\n{self.log_tail()}")
            with contextlib.suppress(NotServing):
                self.mode()
                return
            if time.monotonic() > deadline:
                raise NotServing(f"not serving after {timeout} s:\n{self.log_tail()}")
            time.sleep(POLL)

    def log_tail(self) -> str:
        """Return the last lines of the server's log."""
        log = self.directory / "server.log"
        return "\n".join(log.read_text(errors="replace").splitlines()[-20:]) if log.exists() else ""

    def four_letter(self, word: str) -> str:
        """Return the reply to one of ZooKeeper's four-letter words."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2) as connection:
                connection.sendall(word.encode())
                chunks = []
                while chunk := connection.recv(65536):
                    chunks.append(chunk)
        except OSError as error:
            raise NotServing(f"{word}: {error}") from error
        return b"".join(chunks).decode()

    def mode(self) -> str:
        """Return the mode, such as `standalone` or `leader`. Raise `NotServing` while the server has none."""
        for line in self.four_letter("srvr").splitlines():
            if line.startswith("Mode: "):
                return line.removeprefix("Mode: ")
        raise NotServing("the server runs, but serves no requests")

    def epoch(self) -> int:
        """Return the epoch of this server's leader."""
        for line in self.four_letter("srvr").splitlines():
            if line.startswith("Zxid: "):
                return int(line.removeprefix("Zxid: "), 16) >> 32
        raise NotServing("the server runs, but serves no requests")

    def stop(self) -> None:
        """Stop the process in an orderly way."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
            reap(self._process, grace=5)
            self._process = None

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        if self._process is not None:
            reap(self._process)
            self._process = None

    def restart(self) -> None:
        """Kill the process, then start it again on the same port and data."""
        self.kill()
        self.start()

    def pause(self) -> None:
        """Pause the process with SIGSTOP: its connections stay open and silent."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue a paused process."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)


class Standalone(Server):
    """A single server with its data in a temporary directory, which `close` deletes."""

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(Path(tempfile.mkdtemp(prefix="zklock-server-")), settings)

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Kill the server and delete its data."""
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


class Ensemble:
    """An ensemble of voting servers and observers. With `links`, tests can partition it."""

    def __init__(
        self,
        size: int = 3,
        settings: Settings | None = None,
        links: Links | None = None,
        *,
        observers: int = 0,
    ) -> None:
        self._directory = Path(tempfile.mkdtemp(prefix="zklock-ensemble-"))
        numbers = range(1, size + observers + 1)
        # Ports for clients, for followers, and for elections.
        ports = {number: (free_port(), free_port(), free_port()) for number in numbers}

        # Ports for traffic between servers.
        self.inner_ports = {port for _, *inner in ports.values() for port in inner}

        def peer(server: int, other: int) -> str:
            client, quorum, election = ports[other]
            if links is not None and other != server:
                quorum = links.forward(quorum, server, other)
                election = links.forward(election, server, other, elects=True)
            suffix = ":observer" if other > size else ""
            return f"server.{other}=127.0.0.1:{quorum}:{election}{suffix};127.0.0.1:{client}\n"

        def role(number: int) -> str:
            return "peerType=observer\n" if number > size else ""

        self.servers = [
            _Member(
                self._directory / str(number),
                settings,
                server_id=number,
                peers=role(number) + "".join(peer(number, other) for other in numbers),
                port=ports[number][0],
            )
            for number in numbers
        ]

    def __enter__(self) -> Self:
        try:
            for server in self.servers:
                server.launch()
            self.wait_serving()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def hosts(self) -> str:
        """Connect string of all servers."""
        return ",".join(server.hosts for server in self.servers)

    def wait_serving(self) -> None:
        """Wait until every running server serves."""
        for server in self.servers:
            server.wait_serving()

    def others(self, server: Server) -> list[Server]:
        """Return all servers except this one."""
        return [other for other in self.servers if other is not server]

    def leader(self, timeout: float = STARTUP) -> Server:
        """Wait for a leader and return it."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            for server in self.servers:
                with contextlib.suppress(NotServing):
                    if server.mode() == "leader":
                        return server
            time.sleep(POLL)
        raise NotServing("no server leads")

    def close(self) -> None:
        """Kill all servers and delete their data."""
        for server in self.servers:
            server.kill()
        shutil.rmtree(self._directory, ignore_errors=True)


class _Member(Server):
    """A member of an ensemble. The ensemble's part of the configuration replaces the line `clientPort`."""

    def _what_for(self) -> str:
        return "an ensemble"

    def _write_config(self) -> None:
        super()._write_config()
        lines = self._config.read_text().splitlines(keepends=True)
        self._config.write_text("".join(line for line in lines if not line.startswith("clientPort")))
