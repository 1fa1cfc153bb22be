"""Mixtures: checks whether different kinds of locks on one path exclude each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.observer import Observer, watched_by
from harness.server import Server
from harness.steps import eventually
from harness.worker import Worker


@dataclass(frozen=True)
class Side:
    """One lock of a mixture: which worker creates it, of which kind, with which node naming."""

    who: str
    kind: str = "mutex"
    # With `kazoo`, our lock uses kazoo's node names. kazoo itself sees no other names.
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
        # A persistent node, because kazoo creates its parent only once.
        observer.create(path)
        for worker, side in zip(self._workers, sides, strict=True):
            worker.lock(path, lock=path, kind=side.kind, naming=side.naming)

    def excludes(self, holder: int) -> bool:
        """Return whether one side, while it holds, keeps the other side out until it releases."""
        first, second = self._workers[holder], self._workers[1 - holder]
        held, asked = f"{self._path}/held-{holder}", f"{self._path}/asked-{holder}"
        first.hold(held, lock=self._path)
        waiting = second.acquire(asked, lock=self._path)
        session = second.sessions["c"]
        # A contender that is kept out watches its predecessor until that node is deleted.
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
