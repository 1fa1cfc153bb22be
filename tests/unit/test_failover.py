"""The figures and the plot of docs/failover.md match the committed results."""

from __future__ import annotations

import copy
import json
import re
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

from failover.report import PAGE, PICTURES, PLOT, PUBLISHED, figures, sizing, table
from failover.samples import (
    EVENTS,
    HOLDER,
    INTERVAL,
    LEADER,
    SERVER,
    STEADY,
    TIMEOUT,
    Json,
    Sample,
    digest,
    due,
    longest_gap,
    of,
    offset,
    settled,
    summary,
)
from harness.paths import REPOSITORY
from locks.peers import BENCHES, DIST, TARGET
from locks.programs import OURS, PROGRAMS
from locks.report import filled

SECOND = 10**9
PEERS = {*OURS, "curator", "kazoo", "go", "etcd"}


@pytest.fixture
def reported() -> Json:
    read: Json = json.loads(PUBLISHED.read_text())
    return read


def test_the_plot_shows_the_results(reported: Json) -> None:
    assert f"results {digest(reported)}" in (PICTURES / PLOT).read_text(), "run `make bench-report`"


def test_a_figure_that_has_changed_is_noticed(reported: Json) -> None:
    changed = copy.deepcopy(reported)
    for one in changed["samples"]:
        if "grant" in one:
            one["grant"] *= 1.5
    assert filled(PAGE.read_text(), figures(changed)) != PAGE.read_text()
    assert digest(changed) != digest(reported)


def test_every_peer_was_measured_after_every_kill(reported: Json) -> None:
    assert {one["peer"] for one in reported["samples"]} == PEERS
    for peer in PEERS:
        for event in EVENTS:
            assert len(of(reported["samples"], event, peer)) == reported["repetitions"] == 20


def test_zklock_keeps_its_promises(reported: Json) -> None:
    """A crash blocks a lock for at most the session timeout and two ticks. No fail-over ends a lease."""
    longest = reported["session_timeout"] + 2 * reported["tick_ms"] / 1000
    # Some round trips and commits on the same machine.
    slack = 0.1 + 5 * reported["commit_ms"] / 1000
    for peer in OURS:
        crashes = of(reported["samples"], HOLDER, peer)
        assert max(one["grant"] for one in crashes) <= longest + slack
        for event in (LEADER, SERVER):
            assert all(one["kept"] and "grant" in one for one in of(reported["samples"], event, peer))


@pytest.mark.parametrize("repetitions", [3, 20, 21])
def test_kills_are_spread_evenly_over_the_interval_of_heartbeats(repetitions: int) -> None:
    offsets = [offset(number, repetitions) for number in range(repetitions)]
    step = INTERVAL / repetitions
    assert sorted(offsets) == pytest.approx([(number + 0.5) * step for number in range(repetitions)])


@pytest.mark.parametrize(
    ("now", "expected"), [(9.0, 10.5), (10.4, 10.5), (10.6, 10.5 + INTERVAL), (20.0, 21.2)]
)
def test_a_kill_keeps_its_phase_however_long_the_processes_take_to_start(now: float, expected: float) -> None:
    found = due(10, 0.5, now)
    assert found == pytest.approx(expected, abs=0.05)
    assert found >= now
    assert (found - 10.5) / INTERVAL == pytest.approx(round((found - 10.5) / INTERVAL))


def test_the_phases_of_successive_kills_differ_much() -> None:
    offsets = [offset(number, 20) for number in range(20)]
    assert min(abs(later - earlier) for earlier, later in pairwise(offsets)) > INTERVAL / 4


@pytest.mark.parametrize(
    ("grants", "until", "expected"),
    [
        # The grant at 1.01 s was on its way before the kill at 1 s.
        ([0.9, 1.01, 2.5, 2.6], 3.0, 1.5),
        ([2.5, 1.01, 2.6], 3.0, 1.5),
        ([1.4, 1.5], 1.6, 0.4),
        # A longer gap before the kill does not count.
        ([0.1, 0.9, 1.2, 1.3], 1.35, 0.2),
        # No grant, or none for longer than before: the fail-over has not ended.
        ([0.9], 9.0, None),
        ([1.4, 1.5], 2.0, None),
    ],
)
def test_the_longest_gap_after_a_kill_counts(
    grants: list[float], until: float, expected: float | None
) -> None:
    stamps = [round(one * SECOND) for one in grants]
    found = longest_gap(stamps, SECOND, round(until * SECOND))
    assert found == (None if expected is None else pytest.approx(expected))


def both_until(end: float) -> list[list[int]]:
    """Return the grants of two contenders that hand on a lock from 2 s on, after a kill at 1 s."""
    ends = [round((2 + 0.01 * number) * SECOND) for number in range(round((end - 2) * 100) + 1)]
    return [ends[::2], ends[1::2]]


def test_a_fail_over_is_complete_when_the_lock_has_been_handed_on_for_a_while() -> None:
    for wait, expected in ((STEADY / 2, False), (STEADY + 0.1, True)):
        until = 2 + wait
        assert settled(both_until(until), SECOND, round(until * SECOND)) is expected


def test_a_fail_over_is_not_complete_without_both_contenders() -> None:
    one, other = both_until(4)
    assert settled([one, other], SECOND, 4 * SECOND)
    # The second contender was granted the lock only before the gap.
    assert not settled([sorted(one + other), [SECOND + 1]], SECOND, 4 * SECOND)
    assert not settled([one, other], SECOND, 6 * SECOND), "no contender is granted the lock any more"
    assert not settled([[], []], SECOND, 4 * SECOND)


def samples(peer: str, event: str, *grants: float | None, kept: bool = True) -> list[Json]:
    return [
        Sample(event, peer, number, grant, kept=kept, again=None if grant is None else grant / 2).json()
        for number, grant in enumerate(grants)
    ]


def told(*groups: list[Json]) -> Json:
    return {"samples": [one for group in groups for one in group], "session_timeout": TIMEOUT}


def test_a_summary_has_the_median_and_the_longest_time() -> None:
    found = samples("rust", HOLDER, 4.0, 1.0, 2.0, None)
    assert summary(found, "grant") == (2.0, 4.0)
    assert summary(samples("rust", HOLDER, None), "grant") is None


def test_results_leave_out_what_is_not_known() -> None:
    assert Sample(HOLDER, "etcd", 1, 1.23456).json() == {
        "event": HOLDER,
        "peer": "etcd",
        "number": 1,
        "grant": 1.2346,
    }


def test_a_row_has_times_kept_leases_and_stuck_locks() -> None:
    rows = table(
        told(
            samples("go", HOLDER, 4.0, 4.5),
            samples("go", LEADER, None, None, kept=False),
            samples("go", SERVER, 1.0, None),
        )
    ).splitlines()
    assert rows[2] == (
        "| go-zookeeper | 4.25 (4.50) | 2 of 2 stuck | 0 of 2 |  | 1.00 (1.00), 1 of 2 stuck | 2 of 2 "
        "| 0.50 (0.50) |"
    )


def test_peers_have_the_same_order_in_each_table() -> None:
    rows = table(told(*(samples(peer, HOLDER, 1.0) for peer in ("etcd", "kazoo", "rust")))).splitlines()
    assert [row.split(" | ")[0] for row in rows[2:]] == ["| zklock, Rust", "| kazoo", "| etcd"]


def test_the_timeout_is_sized_by_the_figures_of_zklock() -> None:
    groups = [samples("rust", HOLDER, 3.0, 4.0), samples("node", LEADER, 1.5), samples("rust", SERVER, 0.2)]
    text = sizing(told(*groups, samples("kazoo", LEADER, 9.0))).replace("\n", " ")
    assert "in 3.0 to 4.0 s, which is 0.75 to 1.00 *T*" in text
    assert "1.5 s after the kill of the leader" in text
    assert "0.2 s after the kill of a follower" in text
    assert "**" not in text
    assert "**After 1 of 5 kills" in sizing(told(*groups, samples("node", SERVER, None)))
    assert sizing(told(groups[0])) == "Not measured in this run."


def test_the_benchmark_builds_each_program_that_it_starts() -> None:
    """`benches/prepare.py` builds the programs of these two crates, and those in Go by name."""
    folders = [REPOSITORY / "tests/workers/rust", BENCHES / "locks/workers/rust"]
    built = {path.stem for folder in folders for path in (folder / "src" / "bin").glob("*")}
    for folder in folders:
        built |= set(re.findall(r'name = "(.*)"', (folder / "Cargo.toml").read_text()))
    prepared = (BENCHES / "prepare.py").read_text()
    for folder in folders:
        crate = tomllib.loads((folder / "Cargo.toml").read_text())["package"]["name"]
        assert f'"{crate}"' in prepared
    programs = [Path(program.command[0]) for program in PROGRAMS.values()]
    assert {path.name for path in programs if path.parent == DIST} <= built
    in_go = {path.name for path in programs if path.parent == TARGET}
    assert in_go == {"etcd-line"}
    for name in in_go:
        assert f'"./{name}"' in prepared
        assert (BENCHES / "locks/workers/go" / name).is_dir()
