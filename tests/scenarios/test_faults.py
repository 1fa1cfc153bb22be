"""Workers of all kinds contend for locks while faults are injected one after another."""

from __future__ import annotations

import json
import os
import random
import time

import pytest

from harness.nemesis.campaign import TLS, Campaign
from harness.nemesis.context import FAULTS
from harness.nemesis.wallclock import WallClock
from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import Start, eventually
from harness.surfaces import SURFACES
from harness.worker import Worker

PEERS = ["curator", "go"]
SHORT_TIMEOUT = 2.0
LONG_TIMEOUT = 4.0

# Length of a campaign: ten minutes.
LENGTH = 600.0
FIRST = int(os.environ.get("ZKLOCK_SEED", "1"))
# An additional worker that uses TLS, by the seed of the campaign.
ENCRYPTED = {FIRST: f"rust{TLS}", FIRST + 1: f"python{TLS}", FIRST + 2: f"node{TLS}"}


def faults_of(surface: str) -> list[str]:
    """Return the faults that a surface's test runs. Together, the tests of all surfaces run every fault."""
    place = list(SURFACES).index(surface)
    return list(FAULTS)[place :: len(SURFACES)]


@pytest.mark.timeout(240)
def test_s260_each_fault_once(surface: str, path: str) -> None:
    with Campaign([surface, surface + TLS, *PEERS], path, f"{surface}-1", SHORT_TIMEOUT) as campaign:
        for name in faults_of(surface):
            campaign.play(name)
        print(campaign.table(), dict(campaign.progress.outcomes), sep="\n")
        campaign.judge()


def test_s350_the_wall_clock_reaches_the_engine(
    surface: str, server: Standalone, observer: Observer, path: str
) -> None:
    clock = WallClock()
    with Worker(surface, env=clock.env) as worker:
        worker.connect(server.hosts, session_timeout=SHORT_TIMEOUT)
        worker.lock(path)
        for step in (3600, -3600, 0):
            clock.step(step)
            line = worker.hold()
            assert 0 < line["remaining"] <= SHORT_TIMEOUT / 2
            since = json.loads(observer.client.get(line["node"])[0])["since"] / 1000
            assert abs(since - time.time() - step) < 60
            clock.step(-step)
            # Wait for one or two heartbeats.
            time.sleep(SHORT_TIMEOUT / 3)
            assert worker.check().result()["value"] == "held"
            worker.release()
    clock.close()


def test_s351_a_query_outlives_its_connection(surface: str, proxy: Proxy, path: str, start: Start) -> None:
    worker = start(surface)
    worker.connect(proxy.hosts)
    worker.lock(path)
    worker.lock(f"{path}-permits", lock="s", kind="semaphore", permits=1)
    for asked in ({"cmd": "locked", "lock": "m"}, {"cmd": "try", "lock": "s", "lease": "l", "owner": "a"}):
        proxy.black_hole()
        pending = worker.send(**asked)
        eventually(lambda: proxy.withheld["up"] > 0, "the question is on its way")
        proxy.withheld.clear()
        proxy.cut()
        time.sleep(0.2)
        assert not pending.done
        proxy.heal()
        pending.result()


@pytest.mark.soak
@pytest.mark.timeout(LENGTH + 600)
@pytest.mark.parametrize("seed", ENCRYPTED)
def test_s260_long(path: str, seed: int) -> None:
    until = time.monotonic() + LENGTH
    order = random.Random(seed)
    with Campaign([*SURFACES, ENCRYPTED[seed], *PEERS], path, str(seed), LONG_TIMEOUT) as campaign:
        while time.monotonic() < until or len(campaign.rows) < len(FAULTS):
            for name in order.sample(list(FAULTS), len(FAULTS)):
                print(f"{until - time.monotonic():6.0f} s left: {name}", flush=True)
                campaign.play(name)
        holds = campaign.judge()
        print(campaign.table(), dict(campaign.progress.outcomes), sep="\n")
        print(f"seed {seed}: {len(holds)} certain holds", flush=True)
    # Some writes without a fencing token have overwritten another update. This shows that the faults did
    # cause conflicts.
    assert sum(campaign.registers.lost_updates().values()) > 0
