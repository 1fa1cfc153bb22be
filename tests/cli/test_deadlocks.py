"""`zklock doctor --deadlocks` reports owners that wait for each other in a cycle, and no other owners."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from conftest import Start
from harness.command import run
from harness.observer import Observer
from harness.processes import reap, spawn
from harness.server import Standalone
from harness.surfaces import SURFACES
from harness.worker import Worker

#: Timeout in seconds that is longer than the test.
LONG = 300.0

PASSES = 10


@dataclass(frozen=True)
class Member:
    """An owner in a cycle: a thread, task or scope in a worker."""

    worker: Worker
    owner: str
    pid: int


def deadlocks(hosts: str, path: str) -> tuple[int, list[dict[str, Any]]]:
    """Return the exit status and the findings."""
    outcome = run(hosts, "doctor", "--deadlocks", path, "--json")
    findings: list[dict[str, Any]] = json.loads(outcome.out)
    return outcome.status, findings


def plant(observer: Observer, path: str, members: list[Member]) -> None:
    """Create a cycle: each member holds a lock and waits for the next member's lock."""
    paths = [f"{path}/{number}" for number in range(len(members))]
    for member, held in zip(members, paths, strict=True):
        member.worker.lock(held, lock=held)
        member.worker.enter(held, lock=held, owner=member.owner)
    for member, held, wanted in zip(members, paths, [*paths[1:], paths[0]], strict=True):
        member.worker.lock(wanted, lock=wanted)
        scope, owner = f"{wanted}-wanted", member.owner
        member.worker.send("enter", lock=wanted, scope=scope, owner=owner, timeout=LONG, within=held)
    for each in paths:
        observer.wait_queue(each, 2)


def test_s850_planted_cycles(server: Standalone, observer: Observer, path: str, start: Start) -> None:
    """The doctor finds cycles of two and three owners, which can be in different processes and languages."""
    names = [name for name in SURFACES for _ in range(2)]
    workers = [start(name) for name in names]
    for number, worker in enumerate(workers):
        worker.connect(server.hosts, label=f"worker-{number}")
    for number in range(20):
        step, size = number % 4, 2 + number % 2
        chosen = [workers[(number + step * place) % len(workers)] for place in range(size)]
        owners = [f"{number}-{place}" for place in range(size)]
        pairs = zip(chosen, owners, strict=True)
        members = [Member(worker, owner, worker.pid) for worker, owner in pairs]
        cycle = f"{path}/cycle-{number:02}"
        plant(observer, cycle, members)
        # More waiters queue behind the cycle without being part of it.
        chosen[0].lock(f"{cycle}/0", lock="behind")
        chosen[0].send(
            "enter", lock="behind", scope=f"behind-{number}", owner=f"behind-{number}", timeout=LONG
        )
        observer.wait_queue(f"{cycle}/0", 3)
        status, findings = deadlocks(server.hosts, cycle)
        assert status == 1
        (found,) = [finding for finding in findings if finding["verdict"] == "change"]
        outcome = {(one["pid"], one["blocks"]["path"], one["waits"]["path"]) for one in found["owners"]}
        places = [f"{cycle}/{place}" for place in range(size)]
        nexts = [*places[1:], places[0]]
        expected = {(member.pid, *pair) for member, *pair in zip(members, places, nexts, strict=True)}
        assert outcome == expected
        assert all(one["blocks"]["state"] == "holds" for one in found["owners"])
        assert len({(one["pid"], one["owner"]["number"]) for one in found["owners"]}) == size
    status, findings = deadlocks(server.hosts, path)
    assert status == 1
    assert len([finding for finding in findings if finding["verdict"] == "change"]) == 20
    shown = run(server.hosts, "doctor", "--deadlocks", path)
    assert shown.status == 1
    assert shown.out.count("CHANGE  deadlock: 2 owners wait for each other") == 10
    assert shown.out.count("CHANGE  deadlock: 3 owners wait for each other") == 10
    line = re.compile(
        r"worker-\d+ \(owner \d+.* of process \d+ on .+\) holds /.+ for .+ and waits for /.+ for .+"
    )
    assert len(line.findall(shown.out)) == 50
    assert "-> acquire these locks in the same order everywhere" in shown.out


def test_s850_contenders_without_owner_and_semaphores(
    server: Standalone, observer: Observer, path: str
) -> None:
    for number in range(2):
        for name in "ab":
            node = f"{path}/{name}/mine-{number}-"
            observer.client.create(node, b"a host", ephemeral=True, sequence=True, makepath=True)
    observer.client.create(f"{path}/pool/leases", makepath=True)
    outcome = run(server.hosts, "doctor", "--deadlocks", path)
    assert outcome.status == 0
    assert f"no deadlock at or below {path}: 4 directories with 2 contended locks, 2 waiting" in outcome.out
    assert "4 contenders state no owner" in outcome.out
    assert "1 semaphore was not checked" in outcome.out
    nowhere = run(server.hosts, "doctor", "--deadlocks", f"{path}-typo")
    assert nowhere.status == 0
    assert "no lock was checked" in nowhere.out
    assert run(server.hosts, "doctor", "--deadlocks", path, path).status == 64


@contextmanager
def busy(hosts: str, path: str, seed: int) -> Iterator[None]:
    """Run the block while tasks in another process take locks in one order."""
    program = Path(__file__).with_name("ordered.py")
    words = [sys.executable, str(program), hosts, path, str(seed)]
    process = spawn(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"busy\n"
        yield
    finally:
        reap(process)


@pytest.mark.timeout(300)
def test_s851_a_busy_tree_in_one_order(server: Standalone, observer: Observer, path: str) -> None:
    for number in range(500):
        observer.create(f"{path}/{number:03}")
    waiting = []
    with busy(server.hosts, path, 1), busy(server.hosts, path, 2):
        for _ in range(PASSES):
            status, findings = deadlocks(server.hosts, path)
            assert status == 0, findings
            seen = re.search(r"501 directories with (\d+) contended locks, (\d+) waiting", str(findings))
            assert seen is not None, findings
            waiting.append(int(seen[2]))
    # Passes that find no waiters would prove nothing.
    assert min(waiting) > 0
    assert max(waiting) > 10
