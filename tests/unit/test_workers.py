"""Requirements of the scenarios on the worker of every language."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.surfaces import ALL
from harness.worker import Worker

# In seconds. No worker needs a server for these replies.
AT_ONCE = 10


@pytest.fixture(params=sorted(ALL))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_an_unknown_command_gets_a_reply_immediately(name: str, start: Callable[[str], Worker]) -> None:
    worker = start(name)
    worker.wait_line("ready")
    assert worker.send("dance").line(AT_ONCE)["event"] in {"error", "unsupported"}
    # The worker still replies to commands.
    worker.exit()
