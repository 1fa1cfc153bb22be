"""The figures of docs/scale.md match the committed results."""

from __future__ import annotations

import copy
import json

import pytest

from locks.report import filled
from scale.report import PAGE, PUBLISHED, Json, figures, titles


@pytest.fixture
def reported() -> Json:
    read: Json = json.loads(PUBLISHED.read_text())
    return read


def test_a_figure_that_has_changed_is_noticed(reported: Json) -> None:
    changed = copy.deepcopy(reported)
    changed["runs"]["10"]["hold 1"]["writes_per_second"] *= 1.5
    assert filled(PAGE.read_text(), figures(changed)) != PAGE.read_text()


def test_every_phase_was_measured(reported: Json) -> None:
    resting, done = titles(reported)
    assert {"start", *resting, *done} <= set(reported["runs"]["10"])
    assert {"idle", "hold 1"} <= set(reported["runs"]["30"])
    assert reported["clients"] == 1_000
    assert reported["locks"] == 100_000


def test_holding_costs_a_write_each_sixth_of_the_time_out_however_many_locks(reported: Json) -> None:
    for timeout, phases in reported["runs"].items():
        expected = reported["clients"] * 6 / int(timeout)
        for phase in {"hold 1", "hold all"} & set(phases):
            assert phases[phase]["writes_per_second"] == pytest.approx(expected, rel=0.1)


def test_a_client_that_is_idle_or_far_back_in_a_queue_writes_nothing(reported: Json) -> None:
    for phases in reported["runs"].values():
        assert phases["idle"]["writes"] == 0
    # Only the holder and the two waiters behind it write.
    assert reported["runs"]["10"]["wait in queues of 1000"]["writes_per_second"] < 5


def test_no_hold_was_lost_while_it_was_measured(reported: Json) -> None:
    for phases in reported["runs"].values():
        for phase in {"hold 1", "hold all"} & set(phases):
            assert phases[phase]["losses"] == 0
            assert phases[phase]["sessions"] == reported["clients"]
