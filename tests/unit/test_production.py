"""The figures and plots of docs/production.md match the committed results."""

from __future__ import annotations

import copy
import importlib
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hdrh.histogram import HdrHistogram

import cluster.disk
from cluster.disk import STALL, Disk, append
from cluster.measure import FULL, LONGEST, MOST_REPEATED, QUICK, Measurement, Result, planned
from cluster.network import Bytes
from cluster.report import GOALS, PAGE, PICTURES, PUBLISHED, better, figures, percentiles, ratios
from cluster.results import POINTS, Json, Table, axis, entry, read
from cluster.servers import Cluster, children
from cluster.workloads import ALL_PEERS, CASES, OURS, Case, members
from harness.paths import REPOSITORY
from locks.measure import Pace
from locks.processor import Used
from locks.report import digest, filled
from locks.worker import Counted
from locks.workloads import Workload


@pytest.fixture
def reported() -> Json:
    return read(PUBLISHED)


def test_the_plots_show_the_results(reported: Json) -> None:
    for case in Table(reported).cases:
        told = (PICTURES / f"{case.name}.svg").read_text()
        assert f"results {digest(reported)}" in told, "run `make bench-report`"


def test_a_figure_that_has_changed_is_noticed(reported: Json) -> None:
    changed = copy.deepcopy(reported)
    next(one for one in changed["results"] if "rate" in one)["latencies"]["release"]["p90"] *= 1.5
    assert filled(PAGE.read_text(), figures(changed)) != PAGE.read_text()
    assert digest(changed) != digest(reported)


@pytest.mark.parametrize(("pace", "most"), [(FULL, 17 * 60), (QUICK, 120)], ids=["full", "quick"])
def test_plans_leave_time_for_starting_workers(pace: Pace, most: float) -> None:
    """A run (20 minutes) and a quick run (three minutes) have time left to start workers and servers."""
    cases = [case for case in CASES if case.quick or pace is FULL]
    assert sum(planned(case, members(case), pace) for case in cases) < most


def test_every_peer_takes_part_and_every_case_has_its_baseline() -> None:
    assert {peer.name for case in CASES for peer in members(case)} == {peer.name for peer in ALL_PEERS}
    for case in CASES:
        taking_part = {peer.name for peer in members(case)}
        assert set(OURS) <= taking_part
        assert case.bare is None or case.bare in taking_part


def encoded(*values: int) -> str:
    histogram = HdrHistogram(1, LONGEST, 3)
    for value in values:
        histogram.record_value(value)
    text: bytes = histogram.encode()
    return text.decode()


def free() -> Case:
    return next(case for case in CASES if case.workload.name == "free")


def result(peer: str, *turns: tuple[int, ...]) -> Result:
    counted = [
        Counted(len(values), 1.0, {"acquire": encoded(*values), "release": encoded(*values)})
        for values in turns
    ]
    spent = Used(sum(map(len, turns)), worker=0.01, server=0.02)
    return Result(free(), peer, turns=counted, used=spent, sent=1_000, received=2_000)


def test_histograms_of_all_turns_are_one_distribution() -> None:
    told = entry(result("rust", (1_000, 2_000), (3_000, 4_000)))
    acquire = told["latencies"]["acquire"]
    assert acquire["samples"] == 4
    assert acquire["p50"] == pytest.approx(2, rel=1e-3)
    assert acquire["p99"] == acquire["max"] == pytest.approx(4, rel=1e-3)
    assert told["rate"] == 2
    assert told["bytes"] == {"sent": 250, "received": 500}
    assert told["processor_us"] == {"worker": 2_500, "servers": 5_000}


def test_rare_percentiles_need_many_samples() -> None:
    few, many = (entry(result("rust", (1_000,) * count)) for count in (9_999, 10_000))
    assert "p99.9" not in few["latencies"]["acquire"]
    assert many["latencies"]["acquire"]["p99.9"] == pytest.approx(1, rel=1e-3)


def test_a_distribution_ends_where_its_samples_end() -> None:
    assert len(axis(1_000)) == POINTS
    assert axis(1_000)[0] == 0
    assert axis(1_000)[-1] == pytest.approx(99.9)
    assert axis(10**9)[-1] == pytest.approx(99.99)


def test_a_peer_without_a_complete_pair_has_no_figures() -> None:
    nothing = entry(Result(free(), "rust", turns=[Counted(0, 1.0)]))
    assert nothing["problem"] == "nothing ended within a turn"
    assert Table({"results": [nothing]}).cases == []


def test_shorter_latencies_of_other_libraries_are_listed() -> None:
    both = [entry(result(peer, values)) for peer, values in (("rust", (3_000,)), ("curator", (2_000,)))]
    found = list(better(Table({"results": both})))
    assert {(one.peer, one.ours, one.latency) for one in found} == {
        ("curator", "rust", "acquire"),
        ("curator", "rust", "release"),
    }
    assert found[0].factor == pytest.approx(1.5, rel=1e-2)
    assert list(better(Table({"results": both[:1]}))) == []


def test_ratios_above_the_goal_are_in_bold_type() -> None:
    slow, bare = int(1_000 * GOALS["p50"] * 1.1), 1_000
    table = Table({"results": [entry(result("rust", (slow,))), entry(result("raw", (bare,)))]})
    assert "**1.21** | 1.21 |" in ratios(table)


def test_a_page_shows_only_percentiles_with_figures() -> None:
    table = Table({"results": [entry(result("rust", (1_000,)))]})
    assert percentiles(table, free()).splitlines()[-1] == "| Rust | 1 | 1 | 1 | 1 | 1 | 1 | 1 |"


def test_a_task_asks_for_latencies_only_in_this_benchmark() -> None:
    assert "latencies" not in Workload("plain", "plain").task("host", "/path")
    for case in CASES:
        told = case.workload.task("host", "/path")
        assert told["latencies"] is True
        assert told["period"] == case.workload.period


class Turns:
    """A worker and its network. The disk takes so many seconds for a write in the first turns."""

    pid = os.getpid()
    peer = ALL_PEERS[0]

    def __init__(self, disk: Disk, stalls: list[float]) -> None:
        self._disk, self._stalls, self.begun = disk, stalls, 0

    def count(self, _seconds: float) -> Counted:
        self.begun += 1
        took = self._stalls.pop(0) if self._stalls else 0.0
        self._disk.note(took)
        return Counted(self.begun, 1.0)

    def take(self) -> Bytes:
        return Bytes(1, 1)


@pytest.mark.parametrize(
    ("stalls", "repeated"),
    [
        ([STALL / 2], 0),
        ([STALL], 1),
        ([1.0, 1.0, 0.0, 1.0], 2),
        ([1.0] * 9, MOST_REPEATED),
    ],
)
def test_a_turn_is_repeated_if_the_disk_stalls(tmp_path: Path, stalls: list[float], repeated: int) -> None:
    disk = Disk(tmp_path)
    turns: Any = Turns(disk, stalls)
    found = Result(free(), "rust")
    servers = {turns.peer.server: Cluster((), ())}
    Measurement(servers, disk, FULL, lambda _shown: None).turn(turns, turns, found)
    assert found.repeated == repeated
    assert [turn.count for turn in found.turns] == [1 + repeated]
    assert found.used.count == 1 + repeated


def test_a_stall_of_the_disk_is_noticed_while_it_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stalled, resume = threading.Event(), threading.Event()

    def stalling(file: Any) -> float:
        stalled.set()
        resume.wait()
        return append(file)

    with Disk(tmp_path) as disk:
        monkeypatch.setattr(cluster.disk, "append", stalling)
        try:
            assert stalled.wait(60)
            time.sleep(STALL)
            assert disk.take() >= STALL
        finally:
            # The end of the block waits for the append.
            resume.set()


def test_proxy_and_modules_are_short() -> None:
    proxy = REPOSITORY / "benches/locks/workers/rust/src/bin/bench-proxy.rs"
    assert len(proxy.read_text().splitlines()) <= 150


def test_children_of_a_process_are_found(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        assert child.pid in children(os.getpid())
        child.kill()
    assert child.pid not in children(os.getpid())


def test_the_schedules_of_contenders_are_spread_over_a_period(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(REPOSITORY / "benches/locks/workers/python")
    gate, latencies = importlib.import_module("gate"), importlib.import_module("latencies")
    workload = Workload("free", "free", clients=4, each=True, latencies=True, period=40)
    measured = latencies.Latencies(gate.Task(**workload.task("host", "/path")))
    measured.begin()
    pauses = [latencies.Stopwatch(measured).pause() for _ in range(4)]
    assert pauses == pytest.approx([0, 10, 20, 30])
