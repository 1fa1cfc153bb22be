"""`zklock doctor`: what it says of an ensemble, and what to change."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from harness.command import Command, Outcome, run
from harness.embedded import NewServer
from harness.imposters import clickhouse_keeper
from harness.observer import Observer
from harness.ports import free_port
from harness.server import Ensemble, Settings, Standalone

SHIM = Path(__file__).with_name("clock.c")


def finding(told: Outcome, words: str) -> str:
    """The line that has these words, and what is advised."""
    lines = told.out.splitlines()
    for number, line in enumerate(lines):
        if words in line:
            return " ".join(lines[number : number + 2])
    raise AssertionError(f"no {words!r} in\n{told.out}{told.err}")


def test_s569_doctor(server: Standalone, observer: Observer, path: str) -> None:
    well = run(server.hosts, "doctor", "--session-timeout", "10s", path)
    assert well.status == 0, well.out
    for words in (server.hosts, "10s, as asked for", path, "a read takes", "transport zklock", "clock"):
        assert finding(well, words)
    # The one of the tests, which is enough for that.
    assert finding(well, "is alone").startswith("note")
    observer.assert_free(path)
    assert "-> give the path of a lock" in run(server.hosts, "doctor").out
    changed = run(server.hosts, "doctor", "--session-timeout", "1h")
    assert changed.status == 1
    assert finding(changed, "maxSessionTimeout").startswith("CHANGE")
    assert run(f"127.0.0.1:{free_port()}", "doctor", "--connect-timeout", "0.3").status == 69


def test_s576_time_outs_that_the_servers_do_not_grant(new_server: NewServer, path: str) -> None:
    settings = Settings(tick=1000, min_session_timeout=3000, max_session_timeout=20_000)
    with new_server(settings) as slow:
        told = run(slow.hosts, "doctor", "--session-timeout", "2s", path)
        assert told.status == 1
        assert "minSessionTimeout" in finding(told, "the session time-out is 3s, not 2s")
        if type(slow) is Standalone:
            assert "four ticks at least" in finding(told, "has a tick of 1s")
            assert finding(told, "runs ZooKeeper 3.9").startswith("ok")


def test_s576_servers_that_are_not_there(server: Standalone, path: str) -> None:
    gone = f"127.0.0.1:{free_port()}"
    told = run(f"{server.hosts},{gone}", "doctor", path)
    assert told.status == 1
    assert "leave it out" in finding(told, f"{gone} cannot be reached")
    assert "one ensemble only" in finding(told, f"{server.hosts} is alone, and belongs to no ensemble")


def test_s686_clickhouse_keeper(server: Standalone, path: str) -> None:
    with clickhouse_keeper(server.hosts) as keeper:
        told = run(keeper.hosts, "doctor", path)
    assert told.status == 1, told.out
    assert "interop" in finding(told, "runs ClickHouse Keeper v23.8")
    assert finding(told, "restores no session").startswith("CHANGE")


def test_s576_an_ensemble(ensemble: Ensemble, path: str) -> None:
    told = run(ensemble.hosts, "doctor", "--session-timeout", "10s", path)
    assert told.status == 0, told.out
    assert "alone" not in told.out
    assert told.out.count("(follower)") == 2
    assert told.out.count("(leader)") == 1


def test_s576_access(server: Standalone, path: str, tmp_path: Path) -> None:
    ours = tmp_path / "ours"
    ours.write_text("digest:app:secret\n")
    keeps_out = ("--auth-file", str(ours), "--acl", "creator")
    with Command(server.hosts, "run", *keeps_out, path, "--", "sh", "-c", "echo in; exec sleep 60") as held:
        held.read_until("in")
        told = run(server.hosts, "doctor", path)
        assert told.status == 1
        assert "--auth-file" in finding(told, f"no lock at {path}")
        # Everything else is told all the same.
        assert finding(told, "a read takes").startswith("ok")
    assert "open to everyone" in told.out
    allowed = run(server.hosts, "doctor", *keeps_out, path)
    assert allowed.status == 0
    assert "open to everyone" not in allowed.out


@pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None,
    reason="needs a library to preload",
)
@pytest.mark.parametrize(("shift", "verdict"), [(0, "ok"), (-90, "behind"), (90, "ahead of")])
def test_s577_clocks(server: Standalone, path: str, tmp_path: Path, shift: int, verdict: str) -> None:
    shim = tmp_path / "clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O", "-o", str(shim), str(SHIM), "-ldl"], check=True)
    env = {"LD_PRELOAD": str(shim), "CLOCK_SHIFT": str(shift)}
    told = run(server.hosts, "doctor", path, env=env)
    if verdict == "ok":
        assert told.status == 0, told.out
        assert finding(told, "this machine's clock").startswith("ok")
        return
    assert told.status == 1
    what = finding(told, f"{verdict} the servers'")
    measured = re.search(r"this machine's clock is ([\d.]+)s .*\(measured within ([\d.]+)(m?)s\)", what)
    assert measured is not None, what
    # The doctor subtracts its own uncertainty, which grows when the machine is late.
    least = min(89.0, 90 - float(measured[2]) / (1000 if measured[3] else 1))
    assert least <= float(measured[1]) < 91
    assert "locks are as safe" in what
    assert "synchronize" in what
