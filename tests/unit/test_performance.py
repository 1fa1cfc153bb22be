"""The figures and plots of docs/performance.md match the committed results."""

from __future__ import annotations

import copy
import os
import threading
from pathlib import Path

import pytest

from harness.paths import REPOSITORY
from locks.measure import FULL, QUICK, Pace, Result, planned, turn_length
from locks.peers import PEERS, Peer
from locks.processor import Used, used
from locks.report import PAGE, PICTURES, README, digest, figures, filled, publish
from locks.results import RESULTS, Json, Table, entry, read
from locks.shown import OURS, SHOWN, THEIRS, TITLES
from locks.weak import bytes_per_name, weak
from locks.worker import Counted
from locks.workloads import WORKLOADS, Workload

PUBLISHED = RESULTS / "full.json"
OPERATIONS = REPOSITORY / "docs" / "howto" / "operations.md"


@pytest.fixture
def reported() -> Json:
    return read(PUBLISHED)


@pytest.mark.parametrize("page", [PAGE, README], ids=lambda page: page.name)
def test_the_page_has_the_figures_of_the_results(reported: Json, page: Path) -> None:
    text = page.read_text()
    assert filled(text, figures(reported)[page]) == text, "run `make bench-report`"


def test_the_plots_show_the_results(reported: Json) -> None:
    for name in ("throughput", "requests"):
        assert f"results {digest(reported)}" in (PICTURES / f"{name}.svg").read_text(), (
            "run `make bench-report`"
        )


@pytest.mark.parametrize("page", [PAGE, README], ids=lambda page: page.name)
def test_a_figure_that_has_changed_is_noticed(reported: Json, page: Path) -> None:
    changed = copy.deepcopy(reported)
    free = next(one for one in changed["results"] if (one["workload"], one["peer"]) == ("free", "rust"))
    free["figure"] *= 1.5
    assert filled(page.read_text(), figures(changed)[page]) != page.read_text()
    assert digest(changed) != digest(reported)


def test_a_page_without_results_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there, gone, written = tmp_path / "there.json", tmp_path / "gone.json", list[Path]()
    there.touch()
    publish({gone: written.append, there: written.append})
    assert written == [there]
    assert capsys.readouterr().out == "gone.json does not exist, so its page is not changed\n"


def test_advantages_of_peers_are_stated_only_if_measured(reported: Json) -> None:
    said = " ".join(weak(Table(reported)))
    assert "cheapest in Curator" in said
    for one in reported["results"]:
        if (one["workload"], one["peer"]) == ("reenter", "curator"):
            one["figure"] = 1e9
    assert "cheapest in Curator" not in " ".join(weak(Table(reported)))


def test_prose_on_pages_matches_the_measurements(reported: Json) -> None:
    """The counts in the text of the pages are correct. S40 to S42 and S291 test single operations."""
    table = Table(reported)

    def trips(workload: str, peers: tuple[str, ...]) -> set[int]:
        return {round(figure) for peer in peers if (figure := table.figure(workload, peer))}

    def sent(workload: str, peer: str) -> dict[str, int]:
        found = table.entry(workload, peer)
        assert found is not None
        return {op: round(count) for op, count in found["traffic"]["requests"].items() if count >= 0.5}

    # Two round trips per cycle: one to acquire, one to release.
    said(README, "Taking a free lock costs **one round trip**, where other libraries need two or three")
    assert trips("free-10ms", OURS) == {1 + 1}
    assert trips("free-10ms", THEIRS) == {2 + 1, 3 + 1}
    said(README, "A release reaches the next holder in one more")
    assert trips("handoff-10ms", OURS) == {1}

    said(OPERATIONS, "| acquire a free lock, release it | 2 writes, 1 read |")
    said(OPERATIONS, "| wait in a queue | up to 3 watches more, each one read |")
    said(OPERATIONS, "| ask for a lock that is taken, without waiting | 1 read, no write |")
    said(OPERATIONS, "by about 60 bytes for each contender")
    for peer in OURS:
        assert sent("free", peer) == {"create2": 1, "delete": 1, "getChildren": 1}
        assert sent("clients", peer)["getData"] == 3
        assert sent("try", peer) == {"getChildren": 1}
    assert round(bytes_per_name(table), -1) == 60


def said(page: Path, words: str) -> None:
    assert words in " ".join(page.read_text().split()), f"{page.name} has changed: so must this test"


def delayed(name: str) -> Workload:
    (found,) = (workload for workload in WORKLOADS if workload.name == name)
    assert found.delayed
    return found


def test_latency_is_in_units_of_the_measured_round_trip() -> None:
    # 100 reads take 1.2 s, so a round trip takes 12 ms, 2 ms more than the proxy's delay. An acquire and its
    # release together take 36 ms, which is three round trips.
    turns = [Counted(20, 0.72), Counted(30, 1.08)]
    reported = entry(Result("free-10ms", "rust", turns=turns, bare=[Counted(60, 0.72), Counted(40, 0.48)]))
    assert reported["round_trip_ms"] == 12
    assert reported["figure"] == reported["low"] == reported["high"] == 3
    # Each pair of acquire and release has the same weight, even if one measuring period contains more pairs
    # than another.
    reported = entry(
        Result("free-10ms", "rust", turns=[Counted(1, 0.04), Counted(3, 0.08)], bare=[Counted(100, 1)])
    )
    assert (reported["figure"], reported["low"], reported["high"]) == (3, 2.667, 4)


def test_latency_without_a_measured_round_trip_is_no_figure() -> None:
    reported = entry(Result("free-10ms", "rust", turns=[Counted(20, 0.5)]))
    assert "figure" not in reported
    assert "round trip" in reported["problem"]


def test_turns_of_a_delayed_workload_end_at_different_moments_of_a_pair() -> None:
    pace, single = Pace(1.0, 0.5, 5), 0.05
    lengths = [turn_length(delayed("free-10ms"), pace, number, single) for number in range(pace.rounds)]
    assert lengths == pytest.approx([0.5, 0.51, 0.52, 0.53, 0.54])
    assert turn_length(WORKLOADS[1], pace, 3, single) == pace.turn


def test_turns_of_a_free_lock_are_longer_in_a_full_run() -> None:
    (free,) = (workload for workload in WORKLOADS if workload.name == "free")
    assert turn_length(free, FULL, 0, 0.1) == FULL.turn * free.stretch > 2 * FULL.turn
    assert turn_length(free, QUICK, 0, 0.1) == QUICK.turn


@pytest.mark.parametrize(("pace", "most"), [(FULL, 15 * 60), (QUICK, 90)], ids=["full", "quick"])
def test_plans_leave_time_for_starting_workers(pace: Pace, most: float) -> None:
    """In a full run (20 minutes) and a quick run (3 minutes), there is time to start workers and servers."""
    workloads = [workload for workload in WORKLOADS if workload.quick or pace is FULL]
    assert sum(planned(workload, peers_of(workload), pace) for workload in workloads) < most


def peers_of(workload: Workload) -> list[Peer]:
    return [peer for peer in PEERS if peer.does(workload)]


def test_every_measurement_has_a_name() -> None:
    assert set(SHOWN) == {peer.name for peer in PEERS}
    assert list(TITLES) == [workload.name for workload in WORKLOADS]


def test_shorter_times_are_better() -> None:
    def reported(peer: str, figure: float, unit: str) -> Json:
        return {"workload": unit, "peer": peer, "unit": unit, "figure": figure}

    both = [reported(peer, figure, unit) for peer, figure in (("a", 2), ("b", 8)) for unit in ("1/s", "ns")]
    table = Table({"results": both})
    assert table.ratio("1/s", "b", "a") == 4
    assert table.ratio("ns", "a", "b") == 4


def test_workers_are_small() -> None:
    found = [
        path
        for path in (REPOSITORY / "benches/locks/workers").rglob("*.*")
        if path.suffix in {".py", ".rs", ".mjs", ".java", ".go"} and "node_modules" not in path.parts
    ]
    assert len(found) >= len({peer.command for peer in PEERS if peer.only == frozenset()})
    assert [path.name for path in found if len(path.read_text().splitlines()) > 200] == []


def test_processor_time_is_per_counted_pair() -> None:
    spent = Used(count=100, worker=0.02, server=0.05)
    reported = entry(Result("free", "rust", turns=[Counted(100, 0.5)], used=spent))
    assert reported["processor_us"] == {"worker": 200, "server": 500}
    assert Table({"results": [reported]}).processor("free", "rust") == (200, 500)
    # Re-entry sends no request, so the server's processor time is not reported.
    reported = entry(Result("reenter", "rust", turns=[Counted(100, 0.5)], used=spent))
    assert "processor_us" not in reported
    assert Table({"results": [reported]}).processor("reenter", "rust") is None


def test_the_processor_time_of_a_process_is_that_of_all_its_threads() -> None:
    before, began = used(os.getpid()), sum(os.times()[:2])
    thread = threading.Thread(target=sum, args=(range(5_000_000),))
    thread.start()
    thread.join()
    spent = sum(os.times()[:2]) - began
    assert spent > 0
    # The kernel reports both times in hundredths of a second.
    assert abs(used(os.getpid()) - before - spent) <= 0.03
