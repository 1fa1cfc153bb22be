"""Tests of the wheel's contents, and of the wheel in new environments of all available Python versions."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import pytest

from harness import installed
from harness.installed import VERSIONS, dev, interpreters, run

JOB = """
import asyncio, sys
import zklock, zklock.aio

hosts = sys.argv[1]

async def main():
    async with zklock.aio.Client(hosts) as client, zklock.aio.Mutex(client, "/packages/aio") as lease:
        lease.check()

with zklock.Client(hosts) as client:
    with zklock.Mutex(client, "/packages/job") as lease:
        lease.check()
        assert not zklock.Mutex(zklock.Client(hosts), "/packages/job").acquire(timeout=0.1)
    assert client.stats().transport == "zklock"
asyncio.run(main())
print("%d.%d" % sys.version_info[:2], sorted(name for name in sys.modules if name.startswith("zklock_")))
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_s591_each_version_of_python_locks(version: str, tmp_path: Path) -> None:
    if (interpreter := interpreters().get(version)) is None:
        pytest.skip(f"Python {version} is not available")
    python = installed.environment(tmp_path / "venv", interpreter)
    command = python.parent / "zklock"
    with dev(command) as hosts:
        assert run(python, "-c", JOB, hosts, cwd=tmp_path) == f"{version} []\n"
        assert run(command, "run", "-z", hosts, "/packages/job", "--", "true", cwd=tmp_path) == ""


def test_s591_contents_of_the_wheel() -> None:
    path = installed.wheel()
    assert "-cp311-abi3-" in path.name
    with zipfile.ZipFile(path) as packed:
        sizes = {entry.filename: entry.file_size for entry in packed.infolist()}
        about = f"{'-'.join(path.name.split('-')[:2])}"
        assert f"{about}.data/scripts/zklock" in sizes
        assert [name for name in sizes if name.endswith((".so", ".dylib"))] == ["zklock/_zklock.abi3.so"]
        # The license files must contain their text, not the name of another file.
        notices = packed.read(f"{about}.dist-info/licenses/THIRD-PARTY-NOTICES.txt").decode()
        assert "clap" in notices
        assert "aws-lc" in notices
        assert "Apache License" in packed.read(f"{about}.dist-info/licenses/LICENSE").decode()


def test_s591_the_wheel_lists_the_crates_of_extension_and_command() -> None:
    with zipfile.ZipFile(installed.wheel()) as packed:
        (name,) = [entry for entry in packed.namelist() if "/sboms/" in entry]
        text = packed.read(name).decode()
    listed = {one["name"]: one for one in json.loads(text)["components"]}
    # The first crate is in the extension alone, the second in the command alone.
    assert {"pyo3", "clap", "zookeeper-client"} <= set(listed)
    assert listed["clap"]["purl"].startswith("pkg:cargo/clap@")
    # Paths of the machine and the time of the build would make each build different.
    assert not re.search(r"file:|/home|/root|timestamp|serialNumber", text)
