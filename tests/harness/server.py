"""Real Apache ZooKeeper: one server, or an ensemble of three."""

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
"""As `Settings.container_check`: a test can wait until the server reaps a parent."""

JVM = [
    "-Xmx128m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Dzookeeper.jmx.log4j.disable=true",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Djava.awt.headless=true",
    # The tests kill processes, not machines: the page cache is durable enough, and fsync would dominate
    # everything.
    "-Dzookeeper.forceSync=no",
    "-Dzookeeper.preAllocSize=1024",
    # A vote that is lost while the others still start is repeated within a second. By default, servers wait
    # twice as long each time, and three that start on a busy machine may take half a minute.
    "-Dzookeeper.fastleader.maxNotificationInterval=1000",
]


@dataclass(frozen=True)
class Settings:
    """What tests may want to change. Times are in milliseconds."""

    tick: int = 200
    min_session_timeout: int = 400
    max_session_timeout: int = 60_000
    # How often the leader looks for idle containers. Not while tests run: a directory may be empty for a
    # moment between two holds, and if it is reaped then, numbers restart, which looks like overtaking.
    container_check: int = 3_600_000
    # For how many ticks a server that has lost its leader keeps answering its clients.
    sync_limit: int = 10
    # How many ticks the servers have to agree on the outcome of an election before the next one.
    init_limit: int = 50
    # The longest request, in bytes; none says the server's own limit.
    max_frame: int | None = None
    # Whether a test relies on nodes and sessions that survive a restart, as those of the real one do.
    durable: bool = False
    # Whether it has a port for TLS too; how that works is told by the configuration.
    secure: bool = False
    # Additional lines of the configuration, and of the command.
    config: tuple[str, ...] = ()
    jvm: tuple[str, ...] = ()

    def needs_the_real_one(self) -> str:
        """What of this only Apache ZooKeeper has; empty if nothing."""
        if self.secure or any("sasl" in line.lower() for line in (*self.config, *self.jvm)):
            return "TLS and SASL"
        if self.config or self.jvm:
            return "a configuration"
        return "data that survives a restart" if self.durable else ""


class NotServing(Exception):
    """A server did not answer, or answered that it does not serve."""


class Server:
    """One server process on a fixed port with its data in a directory that survives restarts."""

    # What must be built before it can start, by its name in tools/parts.py.
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
        """The connect string of this server alone."""
        return f"127.0.0.1:{self.port}"

    @property
    def secure_hosts(self) -> str:
        """The same for TLS."""
        return f"127.0.0.1:{self._secure_port}"

    @property
    def pid(self) -> int:
        """The process id of the running server."""
        if self._process is None:
            raise NotServing("the server is not running")
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the server was started, and has not been ended by us since."""
        return self._process is not None

    def launch(self) -> None:
        """Start the process without waiting for it."""
        if self._process is not None:
            raise RuntimeError("the server is already running")
        with (self.directory / "server.log").open("ab") as log:
            self._process = spawn(self._command(), stdout=log, stderr=log)

    def _command(self) -> list[str]:
        command = [JAVA, *JVM, f"-Dznode.container.checkIntervalMs={self.settings.container_check}"]
        if self.settings.max_frame is not None:
            command.append(f"-Djute.maxbuffer={self.settings.max_frame}")
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        return [*command, *self.settings.jvm, "-cp", f"{JARS}/*", main, str(self._config)]

    def start(self) -> None:
        """Start the process and return once it serves."""
        self.launch()
        self.wait_serving()

    def wait_serving(self, timeout: float = STARTUP) -> None:
        """Return once the server accepts clients.

        There is no event for that, so the server is polled.
        """
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
        """The last lines that the server wrote."""
        log = self.directory / "server.log"
        return "\n".join(log.read_text(errors="replace").splitlines()[-20:]) if log.exists() else ""

    def four_letter(self, word: str) -> str:
        """The answer to one of ZooKeeper's four-letter words."""
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
        """`standalone`, `leader`, `follower` or `observer`; raises `NotServing` while it is none of them."""
        for line in self.four_letter("srvr").splitlines():
            if line.startswith("Mode: "):
                return line.removeprefix("Mode: ")
        raise NotServing("the server is up, but serves no requests")

    def epoch(self) -> int:
        """The number of the election whose leader this server follows, or is."""
        for line in self.four_letter("srvr").splitlines():
            if line.startswith("Zxid: "):
                return int(line.removeprefix("Zxid: "), 16) >> 32
        raise NotServing("the server is up, but serves no requests")

    def stop(self) -> None:
        """End the process in an orderly way."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
            reap(self._process, grace=5)
            self._process = None

    def kill(self) -> None:
        """Kill -9."""
        if self._process is not None:
            reap(self._process)
            self._process = None

    def restart(self) -> None:
        """Kill -9, then start again on the same port and data."""
        self.kill()
        self.start()

    def pause(self) -> None:
        """Stop the process: its connections stay open and silent."""
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process continue."""
        if self._process is not None:
            self._process.send_signal(signal.SIGCONT)


class Standalone(Server):
    """A server of its own, with its data in a temporary directory that is deleted with it."""

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
    """Several servers that vote, and observers. With links, they can be cut off from each other."""

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
        # For clients, for followers, for elections.
        ports = {number: (free_port(), free_port(), free_port()) for number in numbers}

        # Where servers talk to each other.
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
        """The connect string of all servers."""
        return ",".join(server.hosts for server in self.servers)

    def wait_serving(self) -> None:
        """Return once every running server serves."""
        for server in self.servers:
            server.wait_serving()

    def others(self, server: Server) -> list[Server]:
        """All servers but this one."""
        return [other for other in self.servers if other is not server]

    def leader(self, timeout: float = STARTUP) -> Server:
        """The server that leads, once there is one."""
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
    """A voter.

    Its client address is part of the ensemble's configuration, so the file must not name it again.
    """

    def _what_for(self) -> str:
        return "an ensemble"

    def _write_config(self) -> None:
        super()._write_config()
        lines = self._config.read_text().splitlines(keepends=True)
        self._config.write_text("".join(line for line in lines if not line.startswith("clientPort")))
