"""Tests of docs/howto/security.md: the programs that connect through TLS, and the server settings."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.built import require
from harness.paths import COMMAND, NODE, REPOSITORY
from harness.programs import Program, programs
from harness.security import Secured, secured_server

PAGE = REPOSITORY / "docs" / "howto" / "security.md"
PLACE = "127.0.0.1:2281"
# File names on the page.
NAMES = {"ca": "ca.pem", "cert": "client.pem", "key": "client.key"}


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    """Provide a server with a TLS port."""
    with secured_server() as server:
        yield server


def bring(files: dict[str, str], directory: Path) -> None:
    """Copy a client's files to the names that the page uses."""
    for kind, name in NAMES.items():
        shutil.copy(files[kind], directory / name)


def run(program: Program, hosts: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a program of the page in the directory of its certificate files."""
    assert PLACE in program.code
    file = directory / program.name
    file.write_text(program.code.replace(PLACE, hosts))
    command = [sys.executable if file.suffix == ".py" else NODE, str(file)]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize(
    "program", [one for one in programs(PAGE) if PLACE in one.code], ids=lambda one: one.name
)
def test_a_program_holds_a_lock_through_tls(program: Program, secured: Secured, node_project: Path) -> None:
    """`encrypted.py` and `encrypted.mjs` get the lock, unless they do not trust the server's certificate."""
    bring(secured.tls, node_project)
    done = run(program, secured.hosts, node_project)
    assert (done.returncode, done.stdout) == (0, "held, encrypted\n"), done.stderr
    bring(secured.stranger, node_project)
    refused = run(program, secured.hosts, node_project)
    assert refused.returncode != 0
    assert "no authority that this client trusts has signed" in refused.stderr


def test_the_command_is_configured_as_shown(secured: Secured, tmp_path: Path) -> None:
    """The page's shell block works with only the server's address changed."""
    require("command")
    scripts = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (script,) = [one for one in scripts if "doctor" in one]
    bring(secured.tls, tmp_path)
    (tmp_path / "zklock").symlink_to(COMMAND)
    assert "zk1:2281" in script
    done = subprocess.run(
        ["bash", "-euc", script.replace("zk1:2281", secured.hosts)],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "ok      connected to" in done.stdout, done.stdout + done.stderr
    assert "acquired and released /locks/doctor" in done.stdout.replace('"', "")
    assert "--auth-file" not in done.stdout
    assert (tmp_path / ".zklock-auth").stat().st_mode & 0o777 == 0o600


def test_the_settings_are_those_of_the_servers_in_the_tests(secured: Secured) -> None:
    """Each setting on the page is in the test server's configuration, except for its port and file names."""
    (shown,) = re.findall(r"```ini\n(.*?)```", PAGE.read_text(), re.DOTALL)
    used = (secured.server.directory / "zoo.cfg").read_text().splitlines()
    names = {line.partition("=")[0] for line in used}
    for line in shown.splitlines():
        name = line.partition("=")[0]
        assert name in names if name.endswith(("Port", ".location")) else line in used, line
