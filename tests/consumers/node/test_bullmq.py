"""Runs invoices.mjs of docs/howto/node-servers.md: BullMQ with a blocked event loop and a real Redis."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from consumers.node.project import Project, run
from harness.debian import started
from harness.instances import Instances, instances
from harness.paths import NODE, REPOSITORY
from harness.ports import free_port
from harness.processes import reap, spawn
from harness.server import Standalone
from harness.steps import eventually

PAGE = REPOSITORY / "docs" / "howto" / "node-servers.md"

SESSION_TIMEOUT = 4
BLOCKED = 3
"""Time in seconds for which a job blocks the event loop: longer than half the session timeout."""

JOBS = 2
ADD = """
import { Queue } from 'bullmq';
const queue = new Queue('invoices', { connection: { port: Number(process.env.REDIS_PORT) } });
for (let invoice = 1; invoice <= %d; invoice++) await queue.add('render', { invoice, seconds: %d });
await queue.close();
"""


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[str]:
    """Run a Redis server without persistence. Return its port."""
    program, env = started("redis")
    port = free_port()
    options = ("--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path))
    process = spawn([program, *options], env=env, stdout=subprocess.DEVNULL)

    def listens() -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    try:
        eventually(listens, "Redis listens")
        yield str(port)
    finally:
        reap(process)


def done(workers: Instances) -> list[str]:
    """Return the jobs that completed, in order."""
    return [found[1] for line in workers.lines() if (found := re.match(r"job (\d+) is done", line))]


def stalled(workers: Instances) -> set[str]:
    """Return the jobs whose worker another worker took for dead."""
    return {found[1] for line in workers.lines() if (found := re.fullmatch(r"job (\d+) stalled", line))}


def environment(project: Project, server: Standalone, redis: str, chroot: str) -> dict[str, str]:
    """Add the jobs to the queue. Return the environment of the workers."""
    env = {
        "ZKLOCK_HOSTS": f"{server.hosts}/{chroot}",
        "ZKLOCK_SESSION_TIMEOUT": f"{SESSION_TIMEOUT}s",
        "REDIS_PORT": redis,
    }
    add = project.directory / "add.mjs"
    add.write_text(ADD % (JOBS, BLOCKED))
    run(NODE, add, cwd=project.directory, env=env)
    return env


def test_a_job_of_bullmq_that_blocks_the_event_loop_runs_once(
    project: Project, server: Standalone, redis: str, tmp_path: Path
) -> None:
    program = project.shown(PAGE, "invoices.mjs")
    env = environment(project, server, redis, "bullmq")
    with instances([NODE, str(program)], tmp_path / "ran", env) as workers:
        eventually(lambda: len(done(workers)) >= JOBS and bool(stalled(workers)), "the jobs are done", 60)
        # A worker that has taken over a job exits after that job.
        workers.end()
        assert sorted(done(workers)) == [str(job) for job in range(1, JOBS + 1)], workers.lines()


def test_without_a_lock_bullmq_runs_it_again(
    project: Project, server: Standalone, redis: str, tmp_path: Path
) -> None:
    program = project.shown(PAGE, "invoices.mjs")
    plain = program.read_text().replace("invoice.once(job.id, (lease)", "((_, body) => body({}))(0, (lease)")
    assert plain != program.read_text()
    program.write_text(plain)
    env = environment(project, server, redis, "bullmq-plain")
    with instances([NODE, str(program)], tmp_path / "ran", env) as workers:
        eventually(lambda: len(done(workers)) > len(set(done(workers))), "a job runs again", 60)
        assert stalled(workers)
