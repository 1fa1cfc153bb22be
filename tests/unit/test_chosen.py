"""Tests of the choice of scenarios, and of the messages about parts that cannot be built."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import parts
from harness import contract
from harness.built import NotBuilt
from harness.embedded import EmbeddedServer, new_server
from harness.paths import REPOSITORY, TESTS
from harness.server import Ensemble, Settings, Standalone


def test_a_number_is_that_number_and_no_other() -> None:
    assert contract.chosen("S20") == {20}
    assert contract.chosen("s7, S31") == {7, 31}
    assert contract.chosen("S20,S2-S3") == {2, 3, 20}
    # A range can reach beyond the last scenario.
    last = max(contract.scenarios())
    assert contract.chosen(f"S{last}-S99999") == {last}


@pytest.mark.parametrize("text", ["", "20", "S", "S20-29", "S20,", "S99999", "S30-S20"])
def test_what_names_no_scenario_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="scenario"):
        contract.chosen(text)


def collected(*options: str, **env: str) -> tuple[set[str], str]:
    """Return the tests that pytest collects with these options, and the complete output of pytest."""
    command = [sys.executable, "-m", "pytest", "scenarios", "--collect-only", "-q", *options]
    run = subprocess.run(
        command, cwd=TESTS, capture_output=True, text=True, check=False, env={**os.environ, **env}, timeout=50
    )
    return set(re.findall(r"::(test_\S+)", run.stdout)), run.stdout + run.stderr


def test_one_scenario_is_picked_alone() -> None:
    tests, _ = collected("--scenario", "S20", "--surface", "rust")
    assert {contract.number_of(test) for test in tests} == {20}
    tests, _ = collected("--scenario", "S10,S20", "--one-surface")
    assert {(contract.number_of(test), test.rpartition("[")[2][:4]) for test in tests} == {
        (10, "pyth"),
        (20, "rust"),
    }
    assert "--scenario: " in collected("--scenario", "20")[1]


def test_programs_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(parts.Part, "problem", lambda part: f"{part.name} is not built")
    for override in ("ZKLOCK_JAVA_CLASSES", "ZKLOCK_GO_WORKER", "ZKLOCK_CHROMIUM", "ZKLOCK_REDIS"):
        monkeypatch.delenv(override, raising=False)
    lacking = {name: part.lacking() for name, part in parts.PARTS.items()}
    assert lacking["jars"] == "Apache ZooKeeper (needs mvn, java on the PATH)"
    assert lacking["java"] == "Curator (needs mvn, javac, java on the PATH)"
    assert lacking["go"] == "go-zookeeper (needs go on the PATH)"
    assert lacking["previous"] == "the last release beside this one (needs git on the PATH)"
    assert lacking["chromium"] == "the site in a browser (needs apt-get, dpkg-deb on the PATH)"
    without = {"jars", "java", "go", "previous", "porcupine", "chromium", "redis"}
    assert {name for name, what in lacking.items() if what is None} == set(lacking) - without


def test_what_is_built_needs_only_what_runs_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(parts.Part, "problem", lambda _: None)
    assert parts.PARTS["jars"].lacking() == "Apache ZooKeeper (needs java on the PATH)"
    assert parts.PARTS["go"].lacking() is None


def test_every_part_has_a_rule() -> None:
    rules = (REPOSITORY / "tools" / "parts.mk").read_text()
    (names,) = re.findall(r"^PARTS := (.*)$", rules, re.MULTILINE)
    assert set(names.split()) == set(parts.PARTS)
    assert all(re.search(rf"^{name}:", rules, re.MULTILINE) for name in parts.PARTS)


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        (Settings(durable=True), "data that survives a restart"),
        (Settings(secure=True), "TLS and SASL"),
        (Settings(config=("authProvider.1=x.SASLAuthenticationProvider",)), "TLS and SASL"),
        (Settings(jvm=("-Dreadonlymode.enabled=true",)), "a configuration"),
    ],
)
def test_what_the_embedded_server_has_not_is_left_out(
    settings: Settings, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.built._forgone", {"jars"})
    with pytest.raises(NotBuilt, match=why):
        new_server(settings, kind="embedded")
    with pytest.raises(NotBuilt, match="an ensemble"):
        Ensemble()
    with pytest.raises(NotBuilt, match="without Apache ZooKeeper"):
        Standalone()


def test_the_embedded_server_restarts_empty() -> None:
    with EmbeddedServer() as server:
        assert "Mode: standalone" in server.four_letter("srvr")
        before = server.pid
        server.restart()
        assert server.mode() == "standalone"
        assert server.pid != before
