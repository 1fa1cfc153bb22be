"""Tests of `zklock demo` for a user who has only the command."""

from __future__ import annotations

import re
import shlex
import shutil
import signal
import time
from pathlib import Path

import pytest

from cli.shell import shell
from harness.command import Command
from harness.paths import COMMAND
from harness.ports import free_port

LIMIT = 20.0


def test_s575_the_demo_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    # `sleep` is the only program on the `PATH`, so the demo needs no Java. It ignores the user's servers.
    monkeypatch.setenv("PATH", str(Path(str(shutil.which("sleep"))).parent))
    began = time.monotonic()
    with Command(f"127.0.0.1:{free_port()}", "demo", env={"ZKLOCK_AUTH_FILE": "/nonexistent"}) as demo:
        ended = demo.wait(LIMIT)
    assert time.monotonic() - began < LIMIT
    assert (ended.status, ended.err) == (0, "")
    assert "\x1b" not in ended.out
    assert "for development only" in ended.out
    assert re.search(r"process 2 is killed while it holds", ended.out)
    assert re.search(r"11 grants, each with a higher fencing token\.", ended.out)
    assert re.search(r"the next one had the lock after [0-3]\.\d s\. 0 nodes left", ended.out)
    tokens = [int(token) for token in re.findall(r"fencing token (\d+),", ended.out)]
    assert tokens == sorted(set(tokens))
    picture = [line for line in ended.out.splitlines() if re.match(r"process \d  ", line)]
    assert len(picture) == 4
    assert "✗▒" in picture[1]
    assert all("█" in lane for lane in picture)
    for column in zip(*[lane.ljust(120) for lane in picture], strict=True):
        assert column.count("█") + column.count("▒") <= 1, "two processes hold at the same time"


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_s575_the_demo_on_a_terminal() -> None:
    with shell("") as user:
        user.type(shlex.join([str(COMMAND), "demo"]).encode() + b"; echo status $((100+$?))\n")
        user.see(
            lambda lines: sum(line.startswith("process") for line in lines) == 4,
            "the picture is drawn immediately",
        )
        user.wait("status 100", LIMIT)
        lines = user.screen()
        assert sum(line.startswith("process") for line in lines) == 4, "the picture is redrawn in place"
        assert any("11 grants" in line for line in lines)


def test_s575_the_demo_is_ended() -> None:
    with Command("", "demo") as demo:
        demo.read_until("process 1 holds")
        demo.signal(signal.SIGTERM)
        assert demo.wait(LIMIT).status == 128 + signal.SIGTERM
