"""Programs in crates outside the workspace."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import trustme

from harness import crates
from harness.installed import dev, run
from harness.paths import COMMAND, REPOSITORY
from harness.server import Standalone

HERE = Path(__file__).parent


@pytest.mark.timeout(900)
def test_a_program_without_the_patch_is_warned_once(tmp_path: Path) -> None:
    """A program without the patch works, logs one warning, and cannot use TLS.

    The program also depends on rustls with two cryptography providers, which must not affect zklock.
    """
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


@pytest.mark.timeout(900)
def test_without_the_patch_the_stock_transport_is_used() -> None:
    """A program without the patch works on the oldest Rust, and uses the stock transport.

    The test is part of S595 (tests/packages/test_crates.py), but must compile the crate again.
    """
    minimal = HERE / "minimal"
    # In this directory cargo finds the same settings as for the test with the patch, and reuses its
    # dependencies.
    copied = REPOSITORY / ".make" / "unpatched" / "minimal"
    shutil.rmtree(copied, ignore_errors=True)
    shutil.copytree(minimal / "src", copied / "src")
    manifest = (minimal / "Cargo.toml").read_text()
    patch = re.search(r"^\[patch.*?\n\n", manifest, re.MULTILINE | re.DOTALL)
    assert patch is not None
    (copied / "Cargo.toml").write_text(manifest.replace(patch[0], ""))
    shutil.copy2(minimal / "Cargo.unpatched.lock", copied / "Cargo.lock")
    options = crates.in_place_of_the_registry(["zklock", "zklock-jute", "zklock-transport"])
    program = crates.build(copied / "Cargo.toml", *options)
    with dev(COMMAND) as hosts:
        assert run(program, cwd=copied, env={"ZKLOCK_HOSTS": hosts}) == "stock\n"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("example", ["blocking", "loss", "multi", "read_write", "semaphore"])
def test_examples(example: str) -> None:
    """The examples that release their locks run to completion."""
    # Build the whole workspace. The features are then the same as in other builds, so cargo reuses compiled
    # dependencies.
    build = ["cargo", "build", "--locked", "--quiet", "--workspace", "--bin", example]
    subprocess.run(build, cwd=REPOSITORY, check=True, timeout=800)
    with Standalone() as server:
        command = [str(REPOSITORY / "target" / "debug" / example), server.hosts]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done
    assert done.stdout
