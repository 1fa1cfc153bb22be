"""Bodies that run once per slot, in processes that are killed or cut off."""

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
"""So many are killed amid a body, and as many at the moment of a record."""
AT_MOST = {"runs": 0.02, "ends": 0.0008}
"""Seconds from the beginning of a body to a kill amid it, and from its end to a kill amid the record.

About as long as each takes. A kill that comes too late halves its time: machines differ."""
HOLES = {7: "body", 27: "request", 67: "reply", 87: "body", 107: "request", 147: "reply"}
"""The slots whose holder is cut off, and when: amid its body, its record's request, or the reply to that.

The program's bodies of these slots last long enough."""
MOST = 170.0
"""Seconds. The lock of a killed process is free only when its session is over."""

BESIDE_PEERS = 40
"""So many slots are run beside peers, who contend for this many seconds."""
CONTENDED = 3.0


@dataclass
class Aims:
    """Faults for processes, each due as soon as one of them says something."""

    fuses: list[tuple[str, float]] = field(default_factory=list)
    """The next process that says such a word takes it, and is killed so long after."""
    holes: dict[int, str] = field(default_factory=lambda: dict(HOLES))
    """The slots whose holder is cut off, and amid what."""


class Runner(SlotRunner):
    """A process that runs slots behind a proxy of its own."""

    def __init__(self, proxy: Proxy, path: str, aims: Aims) -> None:
        self.proxy = proxy
        self.aims = aims
        self.cut_off: int | None = None
        """The slot in which it was cut off, until the proxy heals."""
        self.trap: Trap | None = None
        self.fuse: str | None = None
        """The word after which it is killed."""
        super().__init__(proxy.hosts, path, SLOTS, long=True)

    def hears(self, word: str, slot: int) -> None:
        # Here, and not in the thread of the test, which looks at it later.
        fuses = self.aims.fuses
        if slot not in HOLES and any(at == word for at, _ in fuses):
            self.fuse, delay = fuses.pop()
            time.sleep(delay)
            self.process.kill()
        if word == "runs" and (amid := self.aims.holes.pop(slot, None)) is not None:
            self._cut_off(slot, amid)

    def _cut_off(self, slot: int, amid: str) -> None:
        # A heartbeat is a transaction too.
        record = f"{self.path}.once".encode()
        if amid == "body":
            self.proxy.black_hole()
        elif amid == "request":
            self.trap = self.proxy.withhold_request("multi", record)
        else:
            self.trap = self.proxy.withhold_reply("multi", record)
        self.cut_off = slot

    def is_done(self) -> bool:
        """Whether it has ended by itself, as it should."""
        status = self.process.poll()
        assert status in (None, 0) or self.fuse, (status, self.said[-3:])
        return status == 0


class Runners:
    """So many processes at once, each with its proxy, and the histories of those before them."""

    def __init__(self, server: Standalone, path: str, stack: ExitStack) -> None:
        self._path = path
        self.proxies = [stack.enter_context(Proxy(server.hosts)) for _ in range(PROCESSES)]
        self.aims = Aims()
        self.running = [Runner(proxy, path, self.aims) for proxy in self.proxies]
        self.ended: list[Runner] = []

    def replace(self, place: int) -> Runner:
        """Start another one in the place of one that was killed; returns that one."""
        gone = self.running[place]
        gone.kill()
        self.ended.append(gone)
        self.running[place] = Runner(gone.proxy, self._path, self.aims)
        return gone

    def end(self) -> None:
        """Kill those that are left."""
        for runner in self.running:
            runner.kill()
            self.ended.append(runner)
        self.running = []


@contextmanager
def runners(server: Standalone, path: str) -> Iterator[Runners]:
    """The processes, which end with the test."""
    with ExitStack() as stack:
        made = Runners(server, path, stack)
        try:
            yield made
        finally:
            made.end()


class Records:
    """The record of the lock, as somebody sees it who looks again and again."""

    def __init__(self, observer: Observer, path: str) -> None:
        self._observer = observer
        self._path = f"{path}.once"

    def last(self) -> int:
        """The last slot that was recorded; 0 before the first."""
        try:
            data, stat = self._observer.client.get(self._path)
        except NoNodeError:
            return 0
        slot = int(json.loads(data)["slot"])
        # Each change of the record is that of another slot, and none is missing.
        assert slot == stat.version + 1, f"slot {slot} in version {stat.version}"
        return slot


@dataclass
class Faults:
    """The faults that the processes have had."""

    kills: Counter[str] = field(default_factory=Counter)
    """By the word after which they came."""
    amid: dict[str, list[int]] = field(default_factory=lambda: {word: [] for word in AT_MOST})
    """The slots whose body, or the record behind it, had begun and not ended when its process was killed."""
    at_most: dict[str, float] = field(default_factory=lambda: dict(AT_MOST))
    """Seconds to the next kill, at most."""
    cut_off: dict[int, str] = field(default_factory=dict)
    """The slots whose holder was cut off until its session was over, and what it said then."""


def kill_some(all_of_them: Runners, faults: Faults, slot: int, chance: random.Random) -> None:
    """Replace those that were killed, and light the next fuse if it is time for that."""
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
    busy = all_of_them.aims.fuses or any(runner.cut_off or runner.fuse for runner in all_of_them.running)
    if kills < len(AT_MOST) * KILLS and slot >= kills * SLOTS // (len(AT_MOST) * KILLS + 1) and not busy:
        word = min(AT_MOST, key=lambda word: faults.kills[word])
        all_of_them.aims.fuses.append((word, chance.uniform(0, faults.at_most[word])))


def heal_some(all_of_them: Runners, faults: Faults, slot: int) -> None:
    """Heal the connection of a process, once others have gone on without it: then its session is over.

    One that is cut off amid its body knows of the loss by then. Amid its record it asks what became of that,
    for as long as its client waits for a connection.
    """
    for runner in all_of_them.running:
        cut_off = runner.cut_off
        if cut_off is None or slot <= cut_off:
            continue
        if runner.trap is not None or runner.said[-1].startswith("lost"):
            assert runner.trap is None or runner.trap.sprung
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
    # The faults did what they are for.
    assert faults.kills == dict.fromkeys(AT_MOST, KILLS)
    assert all(len(slots) >= 3 for slots in faults.amid.values()), faults
    assert faults.cut_off == {
        slot: f"{'runs' if amid == 'body' else 'ends'} {slot}" for slot, amid in HOLES.items()
    }
    for slot, amid in HOLES.items():
        # Only the record that the server got is that of the holder that was cut off.
        assert (count[f"runs {slot}"] == 1) == (amid == "reply"), (slot, amid, count[f"runs {slot}"])


@pytest.mark.parametrize("peers", [["curator", "go"], ["kazoo", "go"]])
def test_s831_peers_beside_a_record(
    surface: str, peers: list[str], server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    require("worker")
    # Persistent: kazoo ensures only once that its parent exists.
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
    """Let all of them ask for one slot after the other. Each slot is run by one of them."""
    for slot in range(1, slots + 1):
        job = {"client": "c", "path": path, "owner": "job", "key": str(slot), "hold_ms": [0, 5]}
        asked = [worker.send("once", **job) for worker in workers]
        ran = [pending.expect("done", MOST)["count"] for pending in asked]
        assert sum(ran) == 1, f"slot {slot}: {ran}"


@pytest.mark.parametrize("peers", [["curator", "go"], ["kazoo", "go"]])
def test_s831_peers_beside_bodies_of_a_language(
    surface: str, peers: list[str], server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    # Persistent: kazoo ensures only once that its parent exists.
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
            # A peer that fails leaves its node, and the slots would wait behind it.
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
