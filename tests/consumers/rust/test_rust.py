"""Crates outside the workspace."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import trustme

from harness.paths import REPOSITORY
from harness.server import Standalone

HERE = Path(__file__).parent


@pytest.mark.timeout(900)
def test_a_program_without_the_patch_is_warned_once(tmp_path: Path) -> None:
    """It works, is told so once, and its TLS is refused, whatever providers its own rustls has."""
    target = REPOSITORY / ".make" / "stock"
    build = ["cargo", "build", "--locked", "--quiet", "--target-dir", str(target)]
    subprocess.run(build, cwd=HERE / "stock", check=True, timeout=800)
    ca = tmp_path / "ca.pem"
    trustme.CA().cert_pem.write_to_path(str(ca))
    with Standalone() as server:
        command = [str(target / "debug" / "stock"), server.hosts, str(ca)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    warnings = [line for line in done.stdout.splitlines() if "[patch.crates-io]" in line and " WARN " in line]
    assert len(warnings) == 1, done.stdout
    assert "README" in warnings[0]
    assert "\ndone: " in done.stdout


@pytest.mark.parametrize("example", ["blocking", "loss", "multi", "read_write", "semaphore"])
def test_examples(example: str) -> None:
    """The examples that release what they hold run to their end."""
    build = ["cargo", "build", "--locked", "--quiet", "-p", "zklock-examples"]
    subprocess.run(build, cwd=REPOSITORY, check=True, timeout=600)
    with Standalone() as server:
        command = [str(REPOSITORY / "target" / "debug" / example), server.hosts]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done
    assert done.stdout
