"""Tests of `FairCondition`, the condition that kazoo's tests use."""

from __future__ import annotations

import time
from threading import Thread

import pytest

from clients.fair_condition import FairCondition


class Slow(FairCondition):
    """A condition whose woken threads reacquire the lock slowly."""

    def _acquire_restore(self, saved: object) -> None:
        time.sleep(0.05)
        super()._acquire_restore(saved)  # type: ignore[misc]


def changes(condition: FairCondition, seen: list[int], patience: float | None) -> None:
    """Record the values that this thread sees while another thread sets 1, 2 and 3 as fast as it can."""
    now = 0

    def change() -> None:
        nonlocal now
        for number in (1, 2, 3):
            with condition:
                now = number
                condition.notify_all()

    with condition:
        changing = Thread(target=change)
        changing.start()
        while now < 3:
            condition.wait(patience)
            seen.append(now)
    changing.join()


@pytest.mark.parametrize("patience", [None, 20.0])
def test_a_waiting_thread_sees_every_change(patience: float | None) -> None:
    seen: list[int] = []
    changes(Slow(), seen, patience)
    assert seen == [1, 2, 3]


def test_a_thread_that_times_out_is_not_waited_for() -> None:
    condition = FairCondition()
    with condition:
        assert not condition.wait(0.01)
        condition.notify_all()
    with condition:
        pass
