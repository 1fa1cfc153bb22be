"""Curator's recipes work on the embedded server.

A single Java program (peers/java/zklock/recipes) runs the recipes and checks the results.
"""

from __future__ import annotations

import json
import subprocess

import pytest

from clients.servers import client_server, is_real
from harness.built import require
from harness.paths import CLASSES, JARS, JAVA
from harness.processes import reap, spawn
from harness.server import SOON, Settings

# Two checks wait until the server has deleted unused containers.
SETTINGS = Settings(container_check=SOON)

# Number of checks in the Java program. The test fails if a check does not run.
CHECKS = 28


def test_curators_recipes(request: pytest.FixtureRequest) -> None:
    require("java")
    made = client_server(SETTINGS, real=is_real(request.config))
    try:
        made.start()
        flags = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")
        quiet = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
        program = ("-cp", f"{CLASSES}:{JARS}/*", "zklock.recipes.Main", made.hosts)
        running = spawn([JAVA, *flags, quiet, *program], stdout=subprocess.PIPE)
        assert running.stdout is not None
        results = {found["check"]: found.get("problem") for found in map(json.loads, running.stdout)}
        assert reap(running, grace=20) == 0
    finally:
        made.close()
    problems = [f"{name}: {problem}" for name, problem in results.items() if problem is not None]
    assert not problems, "\n".join(problems)
    assert len(results) == CHECKS
