"""Tests of a job that runs once per slot, in processes that are killed or disconnected.

Slots are numbered. The process that holds the lock runs the job (the body) of the next slot, and then records
the slot.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import pytest
from kazoo.exceptions import NoNodeError

from harness.built import require
from harness.history import assert_clean
from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Standalone
from harness.slots import SlotRunner
from harness.soak import Part, soak
from harness.steps import Start, eventually
from harness.traffic import Trap
from harness.worker import Worker

PROCESSES = 3
SLOTS = 200
KILLS = 10
"""Number of kills during a slot's body. The test kills as many processes while they record a slot."""
AT_MOST = {"runs": 0.02, "ends": 0.0008}
"""Maximum delay in seconds of the kill after the process has printed a word.

The process prints "runs" before the body, and "ends" between the body and the write of the record. The delays
are about as long as the body and the write. If a kill is too late, the test halves the maximum."""
HOLES = {7: "body", 27: "request", 67: "reply", 87: "body", 107: "request", 147: "reply"}
"""Slots in which the test disconnects the process that holds the lock.

The connection is lost during the slot's body, or while the request or the reply that records the slot is in
transit. The bodies of these slots are long enough for the session to expire."""
MOST = 170.0
"""Timeout in seconds. The lock of a killed process is freed only when its session expires."""

BESIDE_PEERS = 40
"""Number of slots that run while other contenders (the peers) use the same lock for `CONTENDED` seconds."""
CONTENDED = 3.0


@dataclass
class PlannedFaults:
    """Faults that processes pick up when they print a certain word."""

    fuses: list[tuple[str, float]] = field(default_factory=list)
    """Planned kills: the next process that prints the word is killed after the delay, in seconds."""
    holes: dict[int, str] = field(default_factory=lambda: dict(HOLES))
    """The slots whose holder is disconnected, and when."""


class Runner(SlotRunner):
    """A process that runs slots behind its own proxy."""

    def __init__(self, proxy: Proxy, path: str, planned: PlannedFaults) -> None:
        self.proxy = proxy
        self.planned = planned
        self.cut_off: int | None = None
        """The slot in which the process was disconnected, until the proxy heals."""
        self.trap: Trap | None = None
        self.fuse: str | None = None
        """The printed word after which the process is killed."""
        super().__init__(proxy.hosts, path, SLOTS, long=True)

    def on_line(self, word: str, slot: int) -> None:
        # Kill the process on the thread that reads its output, because the test's thread would be too late.
        fuses = self.planned.fuses
        if slot not in HOLES and any(at == word for at, _ in fuses):
            self.fuse, delay = fuses.pop()
            time.sleep(delay)
            self.process.kill()
        if word == "runs" and (amid := self.planned.holes.pop(slot, None)) is not None:
            self._cut_off(slot, amid)

    def _cut_off(self, slot: int, amid: str) -> None:
        # Match the record's path in addition to the request type, because a heartbeat is also a `multi`
        # request.
        record = f"{self.path}.once".encode()
        if amid == "body":
            self.proxy.black_hole()
        elif amid == "request":
            self.trap = self.proxy.withhold_request("multi", record)
        else:
            self.trap = self.proxy.withhold_reply("multi", record)
        self.cut_off = slot

    def is_done(self) -> bool:
        """Return whether the process has finished. Assert that it failed only if the test killed it."""
        status = self.process.poll()
        assert status in (None, 0) or self.fuse, (status, self.said[-3:])
        return status == 0


class Runners:
    """Processes that run slots, each behind its own proxy, and the killed processes that they replace."""

    def __init__(self, server: Standalone, path: str, stack: ExitStack) -> None:
        self._path = path
        self.proxies = [stack.enter_context(Proxy(server.hosts)) for _ in range(PROCESSES)]
        self.planned = PlannedFaults()
        self.running = [Runner(proxy, path, self.planned) for proxy in self.proxies]
        self.ended: list[Runner] = []

    def replace(self, place: int) -> Runner:
        """Start a process that replaces a killed one. Return the killed one."""
        gone = self.running[place]
        gone.kill()
        self.ended.append(gone)
        self.running[place] = Runner(gone.proxy, self._path, self.planned)
        return gone

    def end(self) -> None:
        """Kill the remaining processes."""
        for runner in self.running:
            runner.kill()
            self.ended.append(runner)
        self.running = []


@contextmanager
def runners(server: Standalone, path: str) -> Iterator[Runners]:
    """Provide the processes, and end them after the test."""
    with ExitStack() as stack:
        made = Runners(server, path, stack)
        try:
            yield made
        finally:
            made.end()


class Records:
    """The record of the lock, as an observer reads it again and again."""

    def __init__(self, observer: Observer, path: str) -> None:
        self._observer = observer
        self._path = f"{path}.once"

    def last(self) -> int:
        """Return the last recorded slot, or 0 before the first record."""
        try:
            data, stat = self._observer.client.get(self._path)
        except NoNodeError:
            return 0
        slot = int(json.loads(data)["slot"])
        # Each write of the record must be for the next slot, so that no slot is missing or recorded twice.
        assert slot == stat.version + 1, f"slot {slot} in version {stat.version}"
        return slot


@dataclass
class Faults:
    """The faults that have happened to the processes."""

    kills: Counter[str] = field(default_factory=Counter)
    """Number of kills by the printed word that triggered them."""
    amid: dict[str, list[int]] = field(default_factory=lambda: {word: [] for word in AT_MOST})
    """Slots in which a kill came in time: during the body ("runs"), or while it was recorded ("ends")."""
    at_most: dict[str, float] = field(default_factory=lambda: dict(AT_MOST))
    """Maximum delay in seconds of the next kill."""
    cut_off: dict[int, str] = field(default_factory=dict)
    """The last output of each process that was disconnected until its session expired, by slot."""


def kill_some(all_of_them: Runners, faults: Faults, slot: int, chance: random.Random) -> None:
    """Replace the killed processes, and prepare the next kill when it is due."""
    for place, runner in enumerate(all_of_them.running):
        if runner.fuse is not None and runner.process.poll() is not None:
            gone = all_of_them.replace(place)
            faults.kills[runner.fuse] += 1
            last, _, number = gone.said[-1].partition(" ")
            if last == runner.fuse:
                faults.amid[last].append(int(number))
            else:
                faults.at_most[runner.fuse] /= 2
    kills = faults.kills.total()
    busy = all_of_them.planned.fuses or any(runner.cut_off or runner.fuse for runner in all_of_them.running)
    if kills < len(AT_MOST) * KILLS and slot >= kills * SLOTS // (len(AT_MOST) * KILLS + 1) and not busy:
        word = min(AT_MOST, key=lambda word: faults.kills[word])
        all_of_them.planned.fuses.append((word, chance.uniform(0, faults.at_most[word])))


def heal_some(all_of_them: Runners, faults: Faults, slot: int) -> None:
    """Heal the connection of each process that was disconnected in an earlier slot.

    Another process has recorded a later slot, so the session of the disconnected process has expired. If it
    was disconnected during its body, it has noticed the loss. If it was disconnected while it recorded the
    slot, it keeps asking whether the record was written.
    """
    for runner in all_of_them.running:
        cut_off = runner.cut_off
        if cut_off is None or slot <= cut_off:
            continue
        if runner.trap is not None or runner.said[-1].startswith("lost"):
            assert runner.trap is None or runner.trap.triggered
            assert sum(runner.proxy.withheld.values()) > 0
            faults.cut_off[cut_off] = next(line for line in reversed(runner.said) if "lost" not in line)
            runner.cut_off = runner.trap = None
            runner.proxy.heal()


def test_s820_once_per_slot_with_faults(
    surface: str, server: Standalone, observer: Observer, path: str
) -> None:
    require("worker")
    records, chance, faults = Records(observer, path), random.Random(820), Faults()
    deadline = time.monotonic() + MOST
    with runners(server, path) as all_of_them:
        while not all(runner.is_done() for runner in all_of_them.running):
            slot = records.last()
            assert time.monotonic() < deadline, f"slot {slot} after {MOST} s: {faults}"
            heal_some(all_of_them, faults, slot)
            kill_some(all_of_them, faults, slot, chance)
            time.sleep(chance.uniform(0, 0.05))
        all_of_them.end()
        count = Counter(line for runner in all_of_them.ended for line in runner.said)
    assert records.last() == SLOTS
    assert all(count[f"recorded {slot}"] <= 1 for slot in range(1, SLOTS + 1))
    assert all(count[f"runs {slot}"] >= 1 for slot in range(1, SLOTS + 1) if slot % 5)
    assert observer.queue(path) == []
    # The faults had their intended effect.
    assert faults.kills == dict.fromkeys(AT_MOST, KILLS)
    assert all(len(slots) >= 3 for slots in faults.amid.values()), faults
    assert faults.cut_off == {
        slot: f"{'runs' if amid == 'body' else 'ends'} {slot}" for slot, amid in HOLES.items()
    }
    for slot, amid in HOLES.items():
        # If only the reply was lost, the record exists and the body ran only once. In the other cases, the
        # body ran again.
        assert (count[f"runs {slot}"] == 1) == (amid == "reply"), (slot, amid, count[f"runs {slot}"])


@pytest.mark.parametrize("peers", [["curator", "go"], ["kazoo", "go"]])
def test_s831_peers_and_a_record(
    surface: str, peers: list[str], server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    require("worker")
    # The parent is persistent, because kazoo creates it only once.
    observer.create(path)
    workers = [start(name) for name in (surface, *peers)]
    for worker in workers:
        worker.connect(server.hosts)
    with (
        SlotRunner(server.hosts, path, BESIDE_PEERS) as first,
        SlotRunner(server.hosts, path, BESIDE_PEERS) as second,
    ):
        eventually(lambda: observer.exists(f"{path}.once"), "there is a record")
        theirs = soak([Part(worker) for worker in workers], path, CONTENDED)
        for runner in (first, second):
            runner.wait(MOST)
    bodies = first.holds() + second.holds()
    assert_clean(theirs + bodies, at_least=BESIDE_PEERS)
    began, ended = min(hold.granted for hold in theirs), max(hold.until for hold in theirs)
    among_them = [hold for hold in bodies if began < hold.granted < ended]
    assert len(among_them) >= 10, "bodies ran between the holds of peers"
    assert Records(observer, path).last() == BESIDE_PEERS
    assert observer.children(path) == []


def run_slots(workers: Sequence[Worker], path: str, slots: int) -> None:
    """Make all workers request one slot after another. Assert that exactly one worker runs each slot."""
    for slot in range(1, slots + 1):
        job = {"client": "c", "path": path, "owner": "job", "key": str(slot), "hold_ms": [0, 5]}
        asked = [worker.send("once", **job) for worker in workers]
        ran = [pending.expect("done", MOST)["count"] for pending in asked]
        assert sum(ran) == 1, f"slot {slot}: {ran}"


@pytest.mark.parametrize("peers", [["curator", "go"], ["kazoo", "go"]])
def test_s831_peers_beside_bodies_of_a_language(
    surface: str, peers: list[str], server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    # The parent is persistent, because kazoo creates it only once.
    observer.create(path)
    runners = [start(surface) for _ in range(2)]
    contenders = [start(name) for name in (surface, *peers)]
    for worker in (*runners, *contenders):
        worker.connect(server.hosts)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_slots, runners, path, BESIDE_PEERS)
        try:
            eventually(lambda: observer.exists(f"{path}.once"), "there is a record")
            theirs = soak([Part(worker) for worker in contenders], path, CONTENDED)
            while not running.done():
                theirs = soak([Part(worker) for worker in contenders], path, 0)
        except BaseException:
            # A peer that has failed leaves its node in the queue. The runners would wait behind that node
            # forever.
            for runner in runners:
                runner.kill()
            raise
        running.result()
    bodies = [hold for runner in runners for hold in runner.holds()]
    assert_clean(theirs + bodies, at_least=BESIDE_PEERS)
    assert len(bodies) == BESIDE_PEERS
    began, ended = min(hold.granted for hold in theirs), max(hold.until for hold in theirs)
    among_them = [hold for hold in bodies if began < hold.granted < ended]
    assert len(among_them) >= 10, "bodies ran between the holds of peers"
    assert Records(observer, path).last() == BESIDE_PEERS
    assert observer.children(path) == []
