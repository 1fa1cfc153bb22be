"""All stations contend while a nemesis breaks one thing after another."""

from __future__ import annotations

import random
import time

import pytest

from harness.nemesis.campaign import Campaign
from harness.nemesis.faults import FAULTS
from harness.surfaces import SURFACES

PEERS = ["curator", "go"]
SHORT_TIMEOUT = 2.0
LONG_TIMEOUT = 4.0

# Ten minutes each.
LENGTH = 600.0
SEEDS = [1, 2, 3]


def dealt(surface: str) -> list[str]:
    """A surface's share of all faults, so that all surfaces together play each fault."""
    place = list(SURFACES).index(surface)
    return list(FAULTS)[place :: len(SURFACES)]


@pytest.mark.timeout(240)
def test_s260_each_fault_once(surface: str, path: str) -> None:
    with Campaign([surface, surface, *PEERS], path, f"{surface}-1", SHORT_TIMEOUT) as campaign:
        for name in dealt(surface):
            campaign.play(name)
        print(campaign.table(), dict(campaign.progress.outcomes), sep="\n")
        campaign.judge()


@pytest.mark.soak
@pytest.mark.timeout(LENGTH + 600)
@pytest.mark.parametrize("seed", SEEDS)
def test_s260_long(path: str, seed: int) -> None:
    until = time.monotonic() + LENGTH
    order = random.Random(seed)
    with Campaign([*SURFACES, *PEERS], path, str(seed), LONG_TIMEOUT) as campaign:
        while time.monotonic() < until or len(campaign.rows) < len(FAULTS):
            for name in order.sample(list(FAULTS), len(FAULTS)):
                print(f"{until - time.monotonic():6.0f} s left: {name}", flush=True)
                campaign.play(name)
        holds = campaign.judge()
        print(campaign.table(), dict(campaign.progress.outcomes), sep="\n")
        print(f"seed {seed}: {len(holds)} certain holds", flush=True)
    # The suite does bite: without a token, updates were lost.
    assert sum(campaign.registers.lost_updates().values()) > 0
