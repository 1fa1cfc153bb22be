"""The embedded server behaves like Apache ZooKeeper: both receive the same random sequences of requests.

`embedded/tests/differential/main.rs` describes the requests and the comparison.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest

from harness.paths import REPOSITORY
from harness.server import Settings, Standalone

# Neither server removes empty containers during the test, because ZooKeeper does not specify when they are
# removed.
NEVER = 1_000_000_000
SETTINGS = Settings(
    tick=20,
    min_session_timeout=40,
    container_check=NEVER,
    jvm=("-Dzookeeper.extendedTypesEnabled=true",),
)
LIMIT = 900
"""Timeout in seconds. It is long because the test compiles, perhaps while another suite compiles too."""


@pytest.fixture
def real() -> Iterator[Standalone]:
    """Provide a server that no other test uses, because requests change the root node."""
    with Standalone(SETTINGS) as server:
        yield server


def compare(real: Standalone, sequences: int, limit: float, seed: str | None = None) -> None:
    """Run the comparison. If the servers differ, it prints the sequence and the command that repeats it."""
    command = ["cargo", "test", "--locked", "--quiet", "--workspace", "--test", "differential"]
    variables = {
        "ZKLOCK_REAL_ZOOKEEPER": real.hosts,
        "ZKLOCK_SEQUENCES": str(sequences),
        "RUST_BACKTRACE": "0",
    }
    if seed is not None:
        variables.setdefault("ZKLOCK_SEED", os.environ.get("ZKLOCK_SEED", seed))
    done = subprocess.run(
        [*command, "--", "--ignored", "--nocapture"],
        cwd=REPOSITORY,
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=limit,
        check=False,
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout
    assert f"{sequences} sequences" in done.stdout or "ZKLOCK_REPLAY" in os.environ, done.stdout


@pytest.mark.timeout(LIMIT + 20)
def test_both_servers_reply_the_same(real: Standalone) -> None:
    # The seed is fixed. The long variant of this test tries new sequences.
    compare(real, 300, LIMIT, seed="1")


@pytest.mark.soak
@pytest.mark.timeout(1820)
def test_both_servers_reply_the_same_for_long(real: Standalone) -> None:
    compare(real, 10_000, 1800)
