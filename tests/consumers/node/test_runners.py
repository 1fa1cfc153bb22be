"""Test runners: files that run at the same time exclude each other, and the run exits by itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from consumers.node.project import Project, lines
from harness.observer import Observer
from harness.server import Standalone

# Words in the messages of jest and vitest about open handles, and about processes that they must kill.
COMPLAINTS = ("open handle", "did not exit", "force", "terminat", "hanging", "leak")

RUNS = {
    "jest": ("jest", ()),
    "jest, worker threads": ("jest", ("--workerThreads",)),
    "vitest": ("vitest", ()),
    "vitest, worker threads": ("vitest", ("--pool=threads",)),
}


@pytest.mark.parametrize("name", RUNS)
def test_files_exclude_each_other_and_the_run_ends(
    name: str, project: Project, server: Standalone, observer: Observer, path: str, tmp_path: Path
) -> None:
    runner, options = RUNS[name]
    if runner == "jest":
        # Use a new cache. Otherwise, if the cache contains short times for the test files, jest runs them one
        # after another.
        options = (*options, f"--cacheDirectory={tmp_path}-cache")
    env = {"ZKLOCK_HOSTS": server.hosts, "LOCK_PATH": path, "SCRATCH": str(tmp_path)}
    said = project.script(runner, "test", *options, env=env)
    assert "4 passed" in said, said
    assert not lines(said, *COMPLAINTS), said
    # Each file created its start marker, and no `inside` marker is left.
    assert sorted(file.name for file in tmp_path.iterdir()) == ["first", "second"]
    observer.wait_queue(path, 0)


@pytest.mark.parametrize("file", ["first.test.js", "lost.test.js"])
def test_jest_finds_no_open_handle_of_a_closed_client_or_a_stopped_server(
    file: str, project: Project, server: Standalone, path: str, tmp_path: Path
) -> None:
    # jest looks for open handles only when it runs a single file.
    (tmp_path / "second").touch()
    env = {"ZKLOCK_HOSTS": server.hosts, "LOCK_PATH": path, "SCRATCH": str(tmp_path)}
    said = project.script("jest", "test", "--detectOpenHandles", file, env=env)
    assert "1 passed" in said, said
    assert not lines(said, *COMPLAINTS), said


def test_fake_timers_of_jest_do_not_stop_locks(project: Project) -> None:
    said = project.script("jest", "fake")
    assert "3 passed" in said, said
    assert not lines(said, *COMPLAINTS), said


def test_fake_timers_of_sinon_do_not_stop_locks(project: Project) -> None:
    said = project.script("sinon", "test").splitlines()
    assert said[-2:] == ["session expired", "still fake"], said


def test_jest_names_the_line_that_opened_a_client_that_was_left_open(
    project: Project, server: Standalone, path: str
) -> None:
    env = {"ZKLOCK_HOSTS": server.hosts, "LOCK_PATH": path}
    said = project.script("jest", "test", "--detectOpenHandles", "unclosed.test.js", env=env)
    assert "1 open handle" in said, said
    assert "await Client.connect()" in said, said


def test_jest_names_the_line_that_started_a_server_that_was_left_running(project: Project) -> None:
    options = ("--detectOpenHandles", "--forceExit", "--testMatch=**/unstopped.js")
    said = project.script("jest", "test", *options)
    assert "1 open handle" in said, said
    assert "await Server.start()" in said, said
