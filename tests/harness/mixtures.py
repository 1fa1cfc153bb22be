"""Checks whether different kinds of locks on one path exclude each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.observer import Observer, watched_by
from harness.server import Server
from harness.steps import eventually
from harness.worker import Worker


@dataclass(frozen=True)
class Side:
    """One lock of a mixture: the worker that creates it, its kind, and the naming of its nodes."""

    who: str
    kind: str = "mutex"
    # With `kazoo`, our lock uses kazoo's node names. A kazoo lock ignores nodes with other names.
    naming: str = "curator"

    def __str__(self) -> str:
        return f"{self.who} {self.kind} {self.naming}"


class Mixture:
    """Two locks on one path, each in its own worker."""

    def __init__(
        self, server: Server, observer: Observer, path: str, sides: Sequence[Side], workers: Sequence[Worker]
    ) -> None:
        self._server = server
        self._path = path
        self._workers = workers
        # The directory is persistent. The server would delete an idle container, and a kazoo lock would not
        # create it again.
        observer.create(path)
        for worker, side in zip(self._workers, sides, strict=True):
            worker.lock(path, lock=path, kind=side.kind, naming=side.naming)

    def excludes(self, holder: int) -> bool:
        """Let the side with the index `holder` acquire its lock.

        Return whether the other side waits until that lock is released.
        """
        first, second = self._workers[holder], self._workers[1 - holder]
        held, asked = f"{self._path}/held-{holder}", f"{self._path}/asked-{holder}"
        first.hold(held, lock=self._path)
        waiting = second.acquire(asked, lock=self._path)
        session = second.sessions["c"]
        # If the second contender has to wait, it watches the first contender's node.
        eventually(
            lambda: waiting.done or bool(watched_by(self._server, session, self._path)), f"{second} in or out"
        )
        kept_out = not waiting.done
        released = int(first.release(held)["t0"])
        granted = int(waiting.expect("acquired")["t"])
        second.release(asked)
        assert kept_out == (released < granted), (
            "whether the other side was kept out, according to the stamps"
        )
        return kept_out
