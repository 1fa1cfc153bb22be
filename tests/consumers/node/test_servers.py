"""What docs/howto/node-servers.md shows for Express and NestJS, as printed: express.mjs, nightly.ts."""

from __future__ import annotations

import json
import os
import re
import urllib.error
import urllib.request
from pathlib import Path
from subprocess import PIPE, Popen

import zklock

from consumers.node.project import Project, run
from harness.observer import Observer
from harness.paths import NODE, REPOSITORY
from harness.processes import reap, spawn
from harness.programs import programs
from harness.server import Standalone

PAGE = REPOSITORY / "docs" / "howto" / "node-servers.md"


def written(project: Project, name: str) -> Path:
    """One of the page's programs, where its packages are."""
    directory = project.directory / "servers"
    directory.mkdir(exist_ok=True)
    (program,) = [one for one in programs(PAGE) if one.name == name]
    (directory / name).write_text(program.code)
    return directory / name


def status(port: str) -> int:
    """What it answers to a POST."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/reports/sales", method="POST")
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            code: int = answer.status
    except urllib.error.HTTPError as error:
        code = error.code
    return code


def line(process: Popen[bytes]) -> str:
    """The next line that it prints."""
    assert process.stdout is not None
    return process.stdout.readline().decode().rstrip()


def test_express(project: Project, server: Standalone, observer: Observer) -> None:
    hosts = f"{server.hosts}/howto-express"
    file = written(project, "express.mjs")
    process = spawn([NODE, str(file)], env={"ZKLOCK_HOSTS": hosts, "PORT": "0"}, stdout=PIPE)
    try:
        listening = re.match(r"listening on (\d+)", line(process))
        assert listening is not None
        assert status(listening[1]) == 200
        with zklock.Client(hosts) as other, zklock.Mutex(other, "/locks/reports/sales"):
            assert status(listening[1]) == 409
        process.terminate()
        assert process.wait(15) == 0
        observer.wait_queue("/howto-express/locks/reports/sales", 0, timeout=5)
    finally:
        reap(process)


def test_a_job_in_nest(project: Project, server: Standalone) -> None:
    hosts = f"{server.hosts}/howto-nest"
    file = written(project, "nightly.ts")
    (file.parent / "tsconfig.json").write_text(
        json.dumps({"compilerOptions": {"experimentalDecorators": True, "target": "es2022"}})
    )
    compiled = file.with_suffix(".mjs")
    esbuild = project.modules / ".bin" / "esbuild"
    if not esbuild.exists():
        esbuild = Path(__file__).parent / "node_modules" / ".bin" / "esbuild"
    run(esbuild, file, "--format=esm", f"--outfile={compiled}", cwd=file.parent)
    process = spawn([NODE, str(compiled)], env={**os.environ, "ZKLOCK_HOSTS": hosts}, stdout=PIPE)
    try:
        assert re.match(r"written, with token \d+", line(process))
        with zklock.Client(hosts) as other, zklock.Mutex(other, "/locks/nightly-report"):
            while (told := line(process)).startswith("written"):
                pass
            assert told == "another instance is at it"
        process.terminate()
        process.wait(15)
    finally:
        reap(process)
