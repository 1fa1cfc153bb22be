"""Runs the embedded server as a process, and selects it or Apache ZooKeeper for a test.

The embedded server is for development and tests. Production needs Apache ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.paths import EMBEDDED
from harness.server import Settings, Standalone
from parts import server_part

NewServer = Callable[..., Standalone]
"""Type of `new_server` without its argument `kind`."""

ZOOKEEPER = "zookeeper"
SERVERS = (ZOOKEEPER, "embedded")


class EmbeddedServer(Standalone):
    """A server that keeps everything in memory: a restart loses all nodes and sessions."""

    part = "embedded"

    def _write_config(self) -> None:
        if what := self.settings.needs_the_real_one():
            raise ValueError(f"the embedded server does not support {what}")

    def _command(self) -> list[str]:
        settings = self.settings
        options = {
            "--port": self.port,
            "--tick": settings.tick,
            "--min-session-timeout": settings.min_session_timeout,
            "--max-session-timeout": settings.max_session_timeout,
            "--reap-interval": settings.container_check,
        }
        if settings.max_frame is not None:
            options["--max-frame"] = settings.max_frame
        return [str(EMBEDDED), *(str(part) for option in options.items() for part in option)]


def default_kind() -> str:
    """Return the default kind of server: Apache ZooKeeper if this machine has Java, otherwise the embedded
    one."""
    return ZOOKEEPER if server_part() == Standalone.part else "embedded"


def new_server(settings: Settings | None = None, *, kind: str | None = None) -> Standalone:
    """Return an unstarted server. Raises `NotBuilt` if Apache ZooKeeper is needed and is not built."""
    real = (kind or default_kind()) == ZOOKEEPER or (settings or Settings()).needs_the_real_one()
    return (Standalone if real else EmbeddedServer)(settings)
