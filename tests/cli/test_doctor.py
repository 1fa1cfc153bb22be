"""Tests of the findings that `zklock doctor` reports on an ensemble, and of its advice."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.command import Command, Outcome, run, write_credentials
from harness.embedded import NewServer
from harness.imposters import clickhouse_keeper
from harness.observer import Observer
from harness.ports import free_port
from harness.proxy import Proxy
from harness.security import Secured, secured_server
from harness.server import Ensemble, Settings, Standalone
from harness.steps import eventually

SHIM = Path(__file__).with_name("clock.c")
RESOLVER = Path(__file__).with_name("resolver.c")

can_preload = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None,
    reason="needs a library to preload",
)


def finding(outcome: Outcome, words: str) -> str:
    """Return the line that contains `words`, and the doctor's advice from the next line."""
    lines = outcome.out.splitlines()
    for number, line in enumerate(lines):
        if words in line:
            return " ".join(lines[number : number + 2])
    raise AssertionError(f"no {words!r} in\n{outcome.out}{outcome.err}")


def test_s569_doctor(server: Standalone, observer: Observer, path: str) -> None:
    well = run(server.hosts, "doctor", "--session-timeout", "10s", path)
    assert well.status == 0, well.out
    for words in (server.hosts, "10s, as requested", path, "a read takes", "transport zklock", "clock"):
        assert finding(well, words)
    # The tests have a single server. The doctor notes that.
    assert finding(well, "is a standalone server").startswith("note")
    observer.assert_free(path)
    assert "-> pass the path of a lock" in run(server.hosts, "doctor").out
    changed = run(server.hosts, "doctor", "--session-timeout", "1h")
    assert changed.status == 1
    assert finding(changed, "maxSessionTimeout").startswith("CHANGE")


def test_s576_timeouts_that_the_servers_do_not_grant(new_server: NewServer, path: str) -> None:
    settings = Settings(tick=1000, min_session_timeout=3000, max_session_timeout=20_000)
    with new_server(settings) as slow:
        outcome = run(slow.hosts, "doctor", "--session-timeout", "2s", path)
        assert outcome.status == 1
        assert "minSessionTimeout" in finding(outcome, "the session timeout is 3s, not 2s")
        if type(slow) is Standalone:
            assert "request at least 4s" in finding(outcome, "has a tickTime of 1s")
            assert finding(outcome, "runs ZooKeeper 3.9").startswith("ok")


# ZooKeeper's default whitelist.
DEFAULT_WHITELIST = ("4lw.commands.whitelist=srvr",)


@pytest.mark.parametrize(
    ("asked", "verdict", "tick"),
    [("1ms", 1, "200ms,"), ("400ms", 1, "200ms,"), ("800ms", 0, "at most 200ms"), ("2s", 0, "at most 500ms")],
)
def test_s687_a_tick_that_is_not_told(
    new_server: NewServer, path: str, asked: str, verdict: int, tick: str
) -> None:
    with new_server(Settings(tick=200, min_session_timeout=-1, config=DEFAULT_WHITELIST)) as discreet:
        outcome = run(discreet.hosts, "doctor", "--session-timeout", asked, path)
    assert outcome.status == verdict, outcome.out
    unknown = finding(outcome, "the tickTime of")
    assert "`conf` was not answered" in unknown
    assert f"inferred: {tick}" in unknown
    assert unknown.startswith("CHANGE" if verdict else "note")
    if asked == "1ms":
        # The server grants two ticks, which is too short to be safe.
        assert "request 800ms" in finding(outcome, "the session timeout is 400ms, not 1ms")
    if verdict:
        assert "request at least 800ms" in unknown
    else:
        assert "4lw.commands.whitelist=srvr,conf" in unknown


def test_s813_a_tick_that_is_not_told_by_servers_far_away(new_server: NewServer) -> None:
    """A round trip takes 30 ms, as between continents."""
    # The server allows `dump`, because the test reads the sessions from its reply. It does not allow `conf`.
    settings = Settings(tick=500, min_session_timeout=-1, config=("4lw.commands.whitelist=srvr,dump",))
    with new_server(settings) as discreet, Proxy(discreet.hosts, delay=0.015, opaque=True) as far:
        outcome = run(far.hosts, "doctor", "--session-timeout", "1s")
        seen, left = far.snapshot(), discreet.four_letter("dump")
    assert outcome.status == 1, outcome.out
    unknown = finding(outcome, "the tickTime of")
    assert unknown.startswith("CHANGE")
    assert "inferred: 500ms," in unknown
    assert len(seen.arrivals) <= 5, "the doctor opened more than two sessions and its queries"
    if type(discreet) is Standalone:
        assert re.search(r"Session Sets \(\d+\)/\(0\)", left), "no session is left"


def test_s688_a_server_that_hangs(ensemble: Ensemble, path: str) -> None:
    hung = ensemble.others(ensemble.leader())[0]
    hung.pause()
    try:
        outcome = run(ensemble.hosts, "doctor", path)
    finally:
        hung.resume()
    assert outcome.status == 1, outcome.out
    assert "restart the server if it hangs" in finding(outcome, f"{hung.hosts} does not answer")
    assert "whitelist" not in outcome.out


def test_s688_a_stopped_server_alone(new_server: NewServer) -> None:
    with new_server() as alone:
        alone.pause()
        try:
            outcome = run(alone.hosts, "doctor", "--connect-timeout", "1")
        finally:
            alone.resume()
    assert (outcome.status, outcome.err) == (69, "")
    assert finding(outcome, "cannot establish a session").startswith("CHANGE")
    hung = finding(outcome, f"{alone.hosts} does not answer")
    assert hung.startswith("CHANGE")
    assert "restart the server if it hangs" in hung
    assert "whitelist" not in outcome.out


def test_s688_a_port_without_a_listener() -> None:
    gone = f"127.0.0.1:{free_port()}"
    outcome = run(gone, "doctor", "--connect-timeout", "0.3")
    assert (outcome.status, outcome.err) == (69, "")
    assert finding(outcome, "cannot establish a session").startswith("CHANGE")
    refused = finding(outcome, f"{gone} refuses connections: no server listens on this port")
    assert refused.startswith("CHANGE")
    assert "start the server, or remove it from --hosts" in refused
    findings = json.loads(run(gone, "doctor", "--json", "--connect-timeout", "0.3").out)
    assert {found["verdict"] for found in findings} == {"change"}
    assert len(findings) == 2
    assert all(found["next"] for found in findings)


@can_preload
def test_s815_a_name_that_is_not_resolved(tmp_path: Path) -> None:
    """The doctor blames the resolver, not the server, and exits without waiting for the resolver."""
    library = tmp_path / "resolver.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O", "-o", str(library), str(RESOLVER)], check=True)
    env = {"LD_PRELOAD": str(library), "RESOLVER_PAUSE": "120"}
    outcome = run("zk.example:2181", "doctor", "--connect-timeout", "1", env=env)
    assert outcome.status == 69, outcome.out
    unresolved = finding(outcome, "zk.example:2181 cannot be reached: its name cannot be resolved in time")
    assert unresolved.startswith("CHANGE")
    assert "check the name resolution" in unresolved
    assert "hangs" not in outcome.out


def test_s688_one_of_three_is_down(path: str) -> None:
    with Ensemble() as ensemble:
        down = ensemble.others(ensemble.leader())[0]
        down.kill()
        outcome = run(ensemble.hosts, "doctor", path)
    assert outcome.status == 1, outcome.out
    refused = finding(outcome, f"{down.hosts} refuses connections")
    assert refused.startswith("CHANGE")
    assert "start the server" in refused
    changes = [line for line in outcome.out.splitlines() if line.startswith("CHANGE")]
    assert len(changes) == 1, "the lock can still be taken"
    assert finding(outcome, "acquired and released").startswith("ok")


@pytest.mark.parametrize("mode", ["read-only", "not serving"])
def test_s688_a_server_without_a_majority(path: str, mode: str) -> None:
    jvm = ("-Dreadonlymode.enabled=true",) if mode == "read-only" else ()
    with Ensemble(settings=Settings(jvm=jvm)) as ensemble:
        left = ensemble.leader()
        for other in ensemble.others(left):
            other.kill()
        words = "Mode: read-only" if mode == "read-only" else "not currently serving requests"
        eventually(lambda: words in left.four_letter("srvr"), "the server has noticed")
        outcome = run(left.hosts, "doctor", "--connect-timeout", "1", path)
    assert outcome.status == 69, outcome.out
    found = finding(outcome, "it cannot reach a majority")
    what = "is read-only and grants no locks" if mode == "read-only" else "serves no requests"
    assert found.startswith(f"CHANGE  {left.hosts} {what}: ")
    assert "start the other servers" in found


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    """Provide a server with a TLS port."""
    with secured_server() as made:
        yield made


def test_s688_over_tls(secured: Secured, path: str) -> None:
    flags = [word for name, file in secured.tls.items() for word in (f"--tls-{name}", file)]
    outcome = run(secured.hosts, "doctor", "--session-timeout", "10s", *flags, path)
    assert outcome.status == 0, outcome.out
    assert finding(outcome, f"{secured.hosts} has a tickTime of 200ms").startswith("ok")
    assert finding(outcome, f"{secured.hosts} runs ZooKeeper 3.9").startswith("ok")
    short = run(secured.hosts, "doctor", "--session-timeout", "600ms", *flags)
    assert short.status == 1
    assert "request at least 800ms" in finding(short, "is shorter than four ticks")
    # First the doctor connects without TLS, then with a certificate authority that did not sign the server's
    # certificate.
    plain = run(secured.hosts, "doctor", "--connect-timeout", "1")
    assert plain.status == 69
    assert "if this port uses TLS, pass --tls-ca" in finding(plain, "after the command `srvr`")
    strange = ["--tls-ca", secured.stranger["ca"], *flags[2:]]
    stranger = run(secured.hosts, "doctor", "--connect-timeout", "5", *strange)
    assert stranger.status == 69
    assert "certificate" in finding(stranger, "cannot establish a session")
    assert "--tls-ca" in finding(stranger, "cannot establish a session")


def test_s689_findings_for_programs(server: Standalone, path: str) -> None:
    gone = f"127.0.0.1:{free_port()}"
    outcome = run(f"{server.hosts},{gone}", "doctor", "--json", path)
    assert outcome.status == 1
    findings = json.loads(outcome.out)
    assert all(set(found) == {"verdict", "finding", "next"} for found in findings)
    assert all(found["next"] for found in findings if found["verdict"] != "ok")
    # The human-readable report has the same findings in the same order.
    lines = [
        line for line in run(f"{server.hosts},{gone}", "doctor", path).out.splitlines() if line[0] != " "
    ]
    assert [line.split()[0].lower() for line in lines] == [found["verdict"] for found in findings]
    assert {found["verdict"] for found in findings} == {"ok", "note", "change"}
    refused = next(found for found in findings if gone in found["finding"] and "refuses" in found["finding"])
    assert refused["verdict"] == "change"
    assert "remove it from --hosts" in refused["next"]


def test_s576_missing_servers(server: Standalone, path: str) -> None:
    gone = f"127.0.0.1:{free_port()}"
    outcome = run(f"{server.hosts},{gone}", "doctor", path)
    assert outcome.status == 1
    assert "remove it from --hosts" in finding(outcome, f"{gone} refuses connections")
    assert "the same ensemble" in finding(
        outcome, f"{server.hosts} is a standalone server: it shares no locks"
    )


def test_s686_clickhouse_keeper(server: Standalone, path: str) -> None:
    with clickhouse_keeper(server.hosts) as keeper:
        outcome = run(keeper.hosts, "doctor", path)
    assert outcome.status == 1, outcome.out
    assert "interop" in finding(outcome, "runs ClickHouse Keeper v23.8")
    assert finding(outcome, "does not restore sessions").startswith("CHANGE")


def test_s576_an_ensemble(ensemble: Ensemble, path: str) -> None:
    outcome = run(ensemble.hosts, "doctor", "--session-timeout", "10s", path)
    assert outcome.status == 0, outcome.out
    assert "standalone" not in outcome.out
    assert outcome.out.count("(follower)") == 2
    assert outcome.out.count("(leader)") == 1


def test_s576_access(server: Standalone, path: str, tmp_path: Path) -> None:
    ours = tmp_path / "ours"
    write_credentials(ours, "digest:app:secret\n")
    keeps_out = ("--auth-file", str(ours), "--acl", "creator")
    with Command(server.hosts, "run", *keeps_out, path, "--", "sh", "-c", "echo in; exec sleep 60") as held:
        held.read_until("in")
        outcome = run(server.hosts, "doctor", path)
        assert outcome.status == 1
        assert "--auth-file" in finding(outcome, f"cannot acquire the lock {path}")
        # The doctor still reports everything else.
        assert finding(outcome, "a read takes").startswith("ok")
    assert "open access control list" in outcome.out
    allowed = run(server.hosts, "doctor", *keeps_out, path)
    assert allowed.status == 0
    assert "open access control list" not in allowed.out


@can_preload
@pytest.mark.parametrize(("shift", "verdict"), [(0, "ok"), (-90, "behind"), (90, "ahead of")])
def test_s577_clocks(server: Standalone, path: str, tmp_path: Path, shift: int, verdict: str) -> None:
    shim = tmp_path / "clock.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-O", "-o", str(shim), str(SHIM), "-ldl"], check=True)
    env = {"LD_PRELOAD": str(shim), "CLOCK_SHIFT": str(shift)}
    outcome = run(server.hosts, "doctor", path, env=env)
    if verdict == "ok":
        assert outcome.status == 0, outcome.out
        assert finding(outcome, "the clocks of this machine").startswith("ok")
        return
    assert outcome.status == 0, "a clock makes no lock less safe"
    what = finding(outcome, f"{verdict} the servers'")
    assert what.startswith("note")
    measured = re.search(r"this machine's clock is ([\d.]+)s .*\(accuracy ([\d.]+)(m?)s\)", what)
    assert measured is not None, what
    # The doctor subtracts the error of its measurement, which is larger on a slow machine.
    least = min(89.0, 90 - float(measured[2]) / (1000 if measured[3] else 1))
    assert least <= float(measured[1]) < 91
    assert "locks stay safe" in what
    assert "synchronize" in what
