"""The server of docs/howto/node-servers.md has one writer at a time and frees its locks when it exits."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from pathlib import Path
from subprocess import PIPE

import zklock

from harness.observer import Observer
from harness.paths import NODE, REPOSITORY
from harness.processes import reap, spawn
from harness.programs import programs
from harness.server import Standalone

PAGE = REPOSITORY / "docs" / "howto" / "node-servers.md"


def status(port: str, path: str = "/") -> int:
    """Return the HTTP status of the program's reply to a POST."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method="POST")
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            code: int = answer.status
    except urllib.error.HTTPError as error:
        code = error.code
    return code


def test_the_server_drains_and_frees_its_locks(
    server: Standalone, observer: Observer, node_project: Path
) -> None:
    (program,) = [one for one in programs(PAGE) if one.name == "server.mjs"]
    file = node_project / program.name
    file.write_text(program.code)
    hosts = f"{server.hosts}/howto-node"
    process = spawn([NODE, str(file)], env={"ZKLOCK_HOSTS": hosts, "PORT": "0"}, stdout=PIPE)
    try:
        assert process.stdout is not None
        listening = re.match(r"listening on (\d+)", process.stdout.readline().decode())
        assert listening is not None
        assert status(listening[1]) == 200
        with zklock.Client(hosts) as other, zklock.Mutex(other, "/locks/report"):
            assert status(listening[1]) == 409
        process.terminate()
        assert process.wait(15) == 0
        observer.wait_queue("/howto-node/locks/report", 0, timeout=5)
    finally:
        reap(process)
