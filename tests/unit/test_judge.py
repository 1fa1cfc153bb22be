"""Tests of the fault suite's checks: they find the violation in each of these records."""

from __future__ import annotations

from dataclasses import replace

from harness.history import NEVER, Hold, misordered
from harness.nemesis.judge import (
    RESUMING,
    Excuses,
    certain,
    changed_while_reading,
    granted_in_ended_sessions,
    late_writes,
    lost_at_first_check,
    lost_early,
    too_many_inside,
)
from harness.nemesis.record import Entry, FirstCheck, Held, Intervention, Loss, Reading, Write

SECOND = 1_000_000_000

HELD = Held(worker="w", session=7, node="n-0000000001", granted=100 * SECOND, token=5)
LOOK = FirstCheck("/lock", HELD, remaining=1.0, checked=100 * SECOND + 1_000_000, passed=True)
STOPPED = Excuses(stops={"w": [(99 * SECOND, 101 * SECOND)]})
ENDED = Intervention(session=7, node=None, began=90 * SECOND, known=91 * SECOND)


def test_a_grant_lost_at_the_first_check_is_found() -> None:
    lost = replace(LOOK, passed=False)
    assert lost_at_first_check([LOOK], Excuses()) == []
    assert lost_at_first_check([lost], Excuses())
    assert lost_at_first_check([lost], STOPPED) == []


def test_a_grant_without_a_term_is_found() -> None:
    assert lost_at_first_check([replace(LOOK, remaining=0.0)], Excuses())


def test_a_check_after_the_term_is_ignored() -> None:
    late = replace(LOOK, passed=False, checked=102 * SECOND)
    assert lost_at_first_check([late], Excuses()) == []


def test_only_a_process_stopped_at_that_time_is_excused() -> None:
    lost = replace(LOOK, passed=False)
    for stop in [(90 * SECOND, 91 * SECOND), (101 * SECOND, None)]:
        assert lost_at_first_check([lost], Excuses(stops={"w": [stop]}))
    assert lost_at_first_check([lost], Excuses(stops={"other": [(99 * SECOND, None)]}))
    # A process can perform an action just before it is stopped and take the timestamp only after it
    # continues, up to `RESUMING` later.
    went_on = (98 * SECOND, 100 * SECOND - RESUMING // 2)
    assert lost_at_first_check([lost], Excuses(stops={"w": [went_on]})) == []


def test_an_intervention_does_not_excuse_later_grants() -> None:
    lost = replace(LOOK, passed=False)
    later = replace(ENDED, began=99 * SECOND, known=101 * SECOND)
    assert lost_at_first_check([lost], Excuses(interventions=[later])) == []
    assert lost_at_first_check([lost], Excuses(interventions=[ENDED]))
    assert granted_in_ended_sessions([LOOK], [ENDED])
    assert granted_in_ended_sessions([LOOK], [later]) == []


def test_a_deleted_node_excuses_its_own_hold_only() -> None:
    lost = replace(LOOK, passed=False)
    mine = Intervention(session=7, node=HELD.node, began=99 * SECOND, known=NEVER)
    assert lost_at_first_check([lost], Excuses(interventions=[mine])) == []
    assert lost_at_first_check([lost], Excuses(interventions=[replace(mine, node="n-0000000002")]))


def test_a_loss_before_the_end_of_the_term_is_found() -> None:
    loss = Loss("/lock", HELD, remaining=1.0, t=100 * SECOND + SECOND // 2, reason="term ended")
    assert lost_early([loss], Excuses())
    assert lost_early([replace(loss, t=101 * SECOND)], Excuses()) == []
    assert lost_early([loss], STOPPED) == []


def hold(granted: int, ended: int, **other: object) -> Hold:
    plain = Hold(path="/lock", worker="w", owner="o", granted=granted, ended=ended, session=7)
    return replace(plain, **other)  # type: ignore[arg-type]


def test_holds_count_after_their_client_knew_that_the_session_ended() -> None:
    excuses = Excuses(interventions=[ENDED])
    assert certain([hold(90 * SECOND, 95 * SECOND)], excuses, (), []) == []
    later = hold(92 * SECOND, 95 * SECOND)
    assert certain([later], excuses, (), []) == [later]


def test_a_hold_counts_until_its_node_is_deleted() -> None:
    held = hold(100 * SECOND, 110 * SECOND, node=HELD.node)
    deleted = Intervention(session=7, node=HELD.node, began=104 * SECOND, known=NEVER)
    assert certain([held], Excuses(interventions=[deleted]), (), []) == [replace(held, ended=104 * SECOND)]
    for other in (replace(deleted, node="n-0000000002"), replace(deleted, session=8)):
        assert certain([held], Excuses(interventions=[other]), (), []) == [held]


def test_a_peers_hold_counts_until_servers_fail() -> None:
    trouble = [(10 * SECOND, 20 * SECOND)]
    before, across = hold(5 * SECOND, 9 * SECOND), hold(5 * SECOND, 15 * SECOND)
    within, behind = hold(12 * SECOND, 25 * SECOND), hold(20 * SECOND, 25 * SECOND)
    found = certain([before, across, within, behind], Excuses(), {"w"}, trouble)
    assert found == [before, replace(across, ended=10 * SECOND), behind]
    assert certain([across], Excuses(), (), trouble) == [across]


WRITE = Write("/lock", "w", 5, 101 * SECOND, undid_plain=False, undid_fenced=False, refused=False, held=HELD)


def test_a_late_write_needs_an_excuse() -> None:
    late = replace(WRITE, refused=True)
    assert late_writes([WRITE], Excuses()) == []
    assert late_writes([late], Excuses())
    assert late_writes([late], Excuses(interventions=[ENDED]))
    assert late_writes([late], STOPPED) == []


def test_a_stop_before_the_grant_does_not_excuse_a_late_write() -> None:
    late = replace(WRITE, refused=True)
    assert late_writes([late], Excuses(stops={"w": [(97 * SECOND, 99 * SECOND)]}))


def test_an_undone_update_needs_an_excuse() -> None:
    spoilt = replace(WRITE, undid_plain=True)
    assert late_writes([spoilt], Excuses())
    other = Held("x", 8, "n-0000000000", 90 * SECOND, 4)
    late = replace(WRITE, writer="x", held=other, token=4, t=100 * SECOND + 1, refused=True)
    stopped = Excuses(stops={"x": [(91 * SECOND, 100 * SECOND)]})
    assert late_writes([late, spoilt], stopped) == []


def test_repeated_tokens_and_undone_fenced_writes_are_found() -> None:
    """The checks find a repeated token and a fenced write that was undone."""
    assert late_writes([WRITE, replace(WRITE, t=102 * SECOND)], Excuses())
    assert late_writes([replace(WRITE, undid_fenced=True)], Excuses())


READING = Reading("/lock", HELD, 100 * SECOND, 101 * SECOND, changed_plain=True, changed_fenced=False)


def test_a_register_that_changes_under_a_reader_is_found() -> None:
    assert changed_while_reading([READING], [], Excuses())
    assert changed_while_reading([READING], [], STOPPED) == []
    late = replace(WRITE, refused=True, t=100 * SECOND + 1)
    assert changed_while_reading([READING], [late], Excuses()) == []
    fenced = replace(READING, changed_fenced=True)
    assert changed_while_reading([fenced], [late], Excuses())


def test_too_many_permit_holders_in_a_room_are_found() -> None:
    first, second = (replace(HELD, worker=name, node=name) for name in "ab")
    entry = Entry("/permits", 2, HELD, 101 * SECOND, (first, second))
    assert too_many_inside([entry], Excuses())
    assert too_many_inside([replace(entry, others=(first,))], Excuses()) == []
    assert too_many_inside([entry], Excuses(killed={"a": 100 * SECOND})) == []
    assert too_many_inside([entry], Excuses(killed={"a": 102 * SECOND}))


def test_numbers_restart_only_where_a_directory_is_deleted() -> None:
    names = [f"_c_00000000-0000-0000-0000-00000000000{number}-lock-{number:010}" for number in (1, 0)]
    first = hold(0, 10, node=names[0], token=100)
    second = hold(11, 20, node=names[1], token=200)
    assert misordered([first, second], restarts={"/lock"}) == []
    assert misordered([first, second], restarts={"/other"})
