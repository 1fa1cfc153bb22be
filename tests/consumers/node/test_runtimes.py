"""Bun and Deno: the package works as on Node."""

from __future__ import annotations

import json
import re
import signal
from subprocess import PIPE

import pytest

from consumers.node.project import HERE, Project, run
from consumers.node.test_bundlers import check
from harness.observer import Observer
from harness.paths import NODE, REPOSITORY
from harness.processes import reap, spawn
from harness.server import Standalone

MODULES = HERE / "node_modules"

PERMISSIONS = ("--allow-ffi", "--allow-env", "--allow-read")
"""The page tells users to grant Deno exactly these permissions."""


def binary(scope: str, name: str) -> str:
    """Return the binary in the platform's package. The main package would fetch it with a script."""
    (found,) = (
        MODULES.glob(f"@{scope}/*/{name}") if scope == "deno" else MODULES.glob(f"@{scope}/*/bin/{name}")
    )
    return str(found)


def command(runtime: str) -> list[str]:
    """Return the command with which a runtime starts a program."""
    if runtime == "bun":
        return [binary("oven", "bun")]
    if runtime == "deno":
        return [binary("deno", "deno"), "run", "--no-prompt", *PERMISSIONS]
    return [NODE]


RUNTIMES = ("node", "bun", "deno")


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_each_operation_works(
    runtime: str, project: Project, server: Standalone, observer: Observer, path: str
) -> None:
    program = project.directory / "runtimes" / "smoke.mjs"
    starts = command(runtime)
    if runtime == "deno":
        # Only this program needs these permissions: it connects to a closed port and reads the host name.
        starts.extend(("--allow-net", "--allow-sys"))
    said = run(*starts, program, path, cwd=program.parent, env={"ZKLOCK_HOSTS": server.hosts}).splitlines()
    checks = re.findall(r"async '(.+)'\(\) \{", program.read_text())
    assert said == [*checks, "end"]
    # The exit of the process has freed the last lock.
    observer.wait_queue(f"{path}/mutex", 0, timeout=5)


@pytest.mark.parametrize("runtime", RUNTIMES[1:])
def test_processes_exclude_each_other(
    runtime: str, project: Project, server: Standalone, observer: Observer, path: str
) -> None:
    check(project.directory / "app" / "main.mjs", server, observer, path, command(runtime))


@pytest.mark.parametrize("runtime", RUNTIMES[1:])
@pytest.mark.parametrize("how", ["exits", "throws", "signal", "worker", "collected"])
def test_locks_are_free_at_the_end(
    runtime: str, how: str, project: Project, server: Standalone, observer: Observer, path: str
) -> None:
    starts = command(runtime)
    if runtime == "deno":
        starts.append("--v8-flags=--expose-gc")
    program = project.directory / "runtimes" / "ends.mjs"
    process = spawn(
        [*starts, str(program), path, how], env={"ZKLOCK_HOSTS": server.hosts}, stdout=PIPE, stderr=PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        if how == "signal":
            process.terminate()
        # The session timeout is longer than this wait.
        observer.wait_queue(path, 0, timeout=10)
        expected = {"exits": 3, "throws": 1, "signal": -signal.SIGTERM}.get(how, 0)
        assert process.wait(10) == expected
    finally:
        reap(process)


def test_deno_reports_missing_permissions(project: Project) -> None:
    program = project.directory / "runtimes" / "smoke.mjs"
    starts = [flag for flag in command("deno") if flag != "--allow-ffi"]
    process = spawn([*starts, str(program), "/unused"], stdout=PIPE, stderr=PIPE)
    try:
        _, said = process.communicate(timeout=20)
        assert b"this process is not permitted to load addons: start Deno with --allow-ffi." in said, said
    finally:
        reap(process)


def test_the_page_names_the_tested_versions() -> None:
    pinned = json.loads((HERE / "package.json").read_text())["devDependencies"]
    page = (REPOSITORY / "docs" / "node.md").read_text()
    assert f"Bun {pinned['bun']} and Deno {pinned['deno']}" in " ".join(page.split())
    assert f"`{' '.join(PERMISSIONS)}`" in " ".join(page.split())


def test_both_are_the_pinned_versions() -> None:
    pinned = json.loads((HERE / "package.json").read_text())["devDependencies"]
    assert run(binary("oven", "bun"), "--version", cwd=HERE).strip() == pinned["bun"]
    assert run(binary("deno", "deno"), "--version", cwd=HERE).startswith(f"deno {pinned['deno']} ")
