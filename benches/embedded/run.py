"""Compares the embedded server with Apache ZooKeeper: `make bench-embedded`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tools")]

from harness.server import Standalone  # noqa: E402


def main() -> int:
    """Start a real server and run the client on both."""
    build = ["cargo", "build", "--locked", "--release", "-p", "zklock-bench-embedded"]
    subprocess.run(build, cwd=ROOT, check=True)
    with Standalone() as real:
        client = [ROOT / "target/release/zklock-bench-embedded", real.hosts]
        return subprocess.run(client, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
