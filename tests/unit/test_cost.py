"""The figures of docs/cost.md match the committed results."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cost.__main__ import FULL, PEERS, QUICK, SETTLE, Pace
from cost.packages import imported, size
from cost.process import Activity, activity, between
from cost.process import size as size_of
from cost.report import PAGE, PUBLISHED, Json, figures, idle, locks, per_lock, rest
from locks.report import filled

MIB = 1024


@pytest.fixture
def reported() -> Json:
    read: Json = json.loads(PUBLISHED.read_text())
    return read


def test_a_figure_that_has_changed_is_noticed(reported: Json) -> None:
    changed = copy.deepcopy(reported)
    changed["states"]["rust"]["idle"]["rss_kib"] += 10 * MIB
    assert filled(PAGE.read_text(), figures(changed)) != PAGE.read_text()


def test_every_state_of_every_peer_was_measured(reported: Json) -> None:
    assert set(reported["states"]) == set(PEERS)
    held = {f"hold {count}" for count in FULL.held}
    waited = {f"wait {count}" for count in FULL.waited}
    for peer, states in reported["states"].items():
        expected = {"process", "idle", *held} | (waited if peer != "alone" else set())
        assert set(states) == expected


@pytest.mark.parametrize(("pace", "most"), [(FULL, 240), (QUICK, 130)], ids=["full", "quick"])
def test_plans_leave_time_for_acquiring_the_locks(pace: Pace, most: float) -> None:
    """A run (seven minutes) and a quick run (three minutes) have time left to start and to acquire."""
    states = 2 + len(pace.held) + len(pace.waited)
    assert states * (SETTLE + 1 + pace.rest) < most
    assert pace.rest % pace.session_timeout == 0, "wake-ups are counted for whole session timeouts"


def state(mib: float, wakes: float = 0, threads: int = 1) -> Json:
    kib = round(mib * MIB)
    return {
        "rss_kib": kib,
        "pss_kib": kib // 2,
        "anonymous_kib": kib // 4,
        "threads": threads,
        "files": 3 * threads,
        "wakes": wakes,
        "processor_us": wakes * 100,
    }


@pytest.fixture
def told() -> Json:
    return {
        "states": {
            "rust": {
                "process": state(10, wakes=1),
                "idle": state(12, wakes=21, threads=2),
                "hold 1": state(12, wakes=30, threads=2),
                "hold 100": state(13, wakes=31, threads=2),
                "hold 10000": state(13 + 9_900 * 4 / 1024, wakes=32, threads=2),
                "wait 100": state(20, wakes=40, threads=2),
                "wait 1000": state(20 + 900 * 8 / 1024, wakes=41, threads=1_002),
            },
            "alone": {"process": state(5), "idle": state(6)},
        },
        "packages": {"rust": {"import_ms": 12.4, "size_mb": 3.21}},
    }


def cells(table: str, peer: str) -> list[str]:
    """Return the cells of a peer's row."""
    (row,) = (line for line in table.splitlines() if line.startswith(f"| {peer} |"))
    return [cell.strip() for cell in row.strip("|").split("|")[1:]]


def test_a_lock_costs_the_growth_between_the_two_largest_counts(told: Json) -> None:
    states = told["states"]["rust"]
    assert per_lock(states) == pytest.approx(4 * 1024, rel=1e-3)
    assert per_lock(states, "wait ") == pytest.approx(8 * 1024, rel=1e-3)
    assert per_lock({"hold 1": state(1)}) is None
    assert per_lock(told["states"]["alone"], "wait ") is None


def test_the_costs_of_a_client_are_differences_to_the_process(told: Json) -> None:
    found = cells(idle(told), "zklock, Rust")
    # 2 MiB are 2.1 MB.
    assert found == ["2.1", "1.0", "0.5", "1", "3", "20", "2.0", "12", "3.2"]
    assert cells(idle(told), "the client alone")[-2:] == ["", ""], "no package was measured"


def test_a_peer_without_a_state_has_an_empty_cell(told: Json) -> None:
    threads = cells(locks(told), "zklock, Rust")[2:]
    assert threads == ["2", "2", "2", "2", "1,002"]
    assert cells(locks(told), "the client alone") == [""] * 7


def test_wake_ups_at_rest_are_those_of_the_whole_process(told: Json) -> None:
    found = cells(rest(told), "zklock, Rust")
    assert found[:2] == ["21; 2.1 ms", "30; 3.0 ms"]
    assert cells(rest(told), "the client alone")[0] == "0; 0.0 ms"


def test_activity_is_for_one_session_timeout() -> None:
    before = Activity(100.0, {"1": 5_000_000, "2": 0}, {"1": 10, "2": 7})
    # Thread 2 has exited, and thread 3 has started.
    after = Activity(120.0, {"1": 9_000_000, "3": 2_000_000}, {"1": 30, "3": 4})
    assert between(before, after, 10) == {"processor_us": 3_000, "wakes": 12}


def test_the_operating_system_reports_memory_threads_and_wake_ups() -> None:
    program = "x = bytearray(32 << 20); import time; print(flush=True)\nwhile True: time.sleep(0.02)"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            found = size_of(child.pid)
            before = activity(child.pid)
            time.sleep(0.5)
            spent = between(before, activity(child.pid), 0.5)
        finally:
            child.kill()
    assert found.rss_kib > 32 * MIB
    assert 32 * MIB < found.pss_kib <= found.rss_kib
    assert 32 * MIB < found.anonymous_kib < found.rss_kib
    assert found.threads == 1
    assert found.files >= 3
    assert 5 <= spent["wakes"] <= 40
    assert spent["processor_us"] > 0


def test_the_time_of_an_import_is_a_difference() -> None:
    nothing, text = (f"import time; time.sleep({seconds})" for seconds in (0.3, 0.6))
    assert 200 < imported([sys.executable, "-c"], nothing, text, {}, 1) < 500


def test_a_package_has_the_size_of_its_files(tmp_path: Path) -> None:
    text, library = tmp_path / "a.py", tmp_path / "b.so"
    text.write_bytes(bytes(1_000_000))
    # A file that `strip` cannot read counts with its full size.
    library.write_bytes(bytes(500_000))
    assert size([text, library]) == 1.5
