"""Golden request sequences: stored conversations with the server, which later releases must reproduce.

Heartbeats are left out because their times vary.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.answers import ANSWER
from harness.paths import TESTS
from harness.proxy import Proxy
from harness.request_text import RequestText
from harness.steps import POLL

GOLDEN = TESTS / "scenarios" / "golden"

RENEW = "ZKLOCK_RENEW_GOLDEN"
"""Environment variable. If it is set, a conversation's requests are stored instead of compared."""

SETTLED = 1.0
"""Time in seconds to wait for a step's last requests before its requests are stored."""


def is_heartbeat(said: list[str]) -> bool:
    return said == ["ping"] or (said[0] == "multi" and all(line.startswith("  check") for line in said[1:]))


def _steps(text: str) -> dict[str, list[str]]:
    steps: dict[str, list[str]] = {}
    for line in filter(None, text.splitlines()):
        if line.startswith("# "):
            steps[line[2:]] = []
        else:
            steps[list(steps)[-1]].append(line)
    return steps


class Conversation:
    """The requests that clients send through a proxy in each step of a test.

    The clients are named A, B, C in the order in which they connect.
    """

    def __init__(self, proxy: Proxy, path: str, stored: dict[str, list[str]] | None) -> None:
        self.steps: dict[str, list[str]] = {}
        self._proxy = proxy
        self._path = path
        self._stored = stored
        # Number of lines in the earlier steps.
        self._earlier = 0

    def _lines(self) -> list[str]:
        words = RequestText(self._path)
        names: dict[int, str] = {}
        lines = []
        for connection, frame in self._proxy.recorded_frames():
            if connection not in names:
                names[connection] = chr(ord("A") + len(names))
                said = [words.greeting(frame)]
            elif is_heartbeat(said := words.request(frame)):
                continue
            lines += [f"{names[connection]} {line}" for line in said]
        return lines

    def _step(self) -> list[str]:
        """Return the requests since the last step, sorted by client, because their interleaving varies."""
        return sorted(self._lines()[self._earlier :], key=lambda line: line[0])

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Run the block as one step. Its requests are stored, or compared with the stored requests."""
        yield
        if self._stored is None:
            time.sleep(SETTLED)
            self.steps[title] = self._step()
        else:
            self.steps[title] = self._stored.get(title, [])
            deadline = time.monotonic() + ANSWER
            while (said := self._step()) != self.steps[title]:
                if time.monotonic() > deadline:
                    assert said == self.steps[title], f"in the step {title!r}: {said}"
                time.sleep(POLL)
        self._earlier += len(self.steps[title])

    def end(self) -> None:
        """Assert that no request was sent after the last step, and that the test ran every stored step."""
        assert self._step() == []
        assert self._stored is None or list(self._stored) == list(self.steps)


@contextmanager
def conversation(name: str, proxy: Proxy, path: str) -> Iterator[Conversation]:
    """Run the block and compare its requests with the conversation stored under this name."""
    file: Path = GOLDEN / f"{name}.txt"
    renew = RENEW in os.environ
    proxy.record_frames()
    talk = Conversation(proxy, path, None if renew else _steps(file.read_text()))
    yield talk
    talk.end()
    if renew:
        blocks = ["\n".join([f"# {title}", *lines]) for title, lines in talk.steps.items()]
        file.parent.mkdir(exist_ok=True)
        file.write_text("\n\n".join(blocks) + "\n")
