"""The embedded server as a process, and which server tests get.

It is for development and tests; production is Apache ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.paths import EMBEDDED
from harness.server import Settings, Standalone
from parts import server_part

NewServer = Callable[..., Standalone]
"""Makes a server of the run's kind, which is not started yet: `new_server`, with its kind chosen."""

ZOOKEEPER = "zookeeper"
SERVERS = (ZOOKEEPER, "embedded")


class EmbeddedServer(Standalone):
    """One that keeps everything in memory: a restart loses all nodes and sessions."""

    part = "embedded"

    def _write_config(self) -> None:
        if what := self.settings.needs_the_real_one():
            raise ValueError(f"the embedded server has nothing like {what}")

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


def at_hand() -> str:
    """The kind of server that tests get where none is asked for: the real one, if this machine has Java."""
    return ZOOKEEPER if server_part() == Standalone.part else "embedded"


def new_server(settings: Settings | None = None, *, kind: str | None = None) -> Standalone:
    """A server that is not started yet. Raises `NotBuilt` if it would have to be the real one."""
    real = (kind or at_hand()) == ZOOKEEPER or (settings or Settings()).needs_the_real_one()
    return (Standalone if real else EmbeddedServer)(settings)
