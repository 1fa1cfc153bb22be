"""Tests of the demo's timeline: its bars, hand-offs and kills match the log lines of the processes."""

from __future__ import annotations

import pytest

from demo.figures import figures, sentence
from demo.record import Event, NotUnderstood, What, holds, parse
from demo.timeline import Bar, Handoff, Kill, Kind, Timeline, layout
from harness import history

MS = 1_000_000
PATH = "/lock"


def event(lane: int, at: int, what: What, number: int | None = None) -> Event:
    """Return an event at this time in milliseconds. `number` is the sequence number of a granted node."""
    node = None if number is None else f"{PATH}/_c_x-lock-{number:010}"
    return Event(lane, at * MS, what, node, None if number is None else 100 + number)


# Two processes: one holds and hands on, the other waits from the start.
BOTH = [
    event(0, 5, What.WAITS),
    event(1, 6, What.WAITS),
    event(0, 10, What.HOLDS, 0),
    event(0, 30, What.RELEASES),
    event(1, 31, What.HOLDS, 1),
    event(1, 50, What.RELEASES),
    event(0, 51, What.ENDED),
    event(1, 52, What.ENDED),
]

# The first process is killed while it holds. The second is granted the lock when the session has expired.
KILLED = [*BOTH[:3], event(0, 20, What.KILLED), event(1, 90, What.HOLDS, 1), event(1, 99, What.RELEASES)]


def drawn(events: list[Event], start: int = 0, now: int = 100) -> Timeline:
    return layout(events, ["a", "b"], start * MS, now * MS)


def spans(timeline: Timeline, kind: Kind, lane: int) -> list[tuple[float, float]]:
    return [(bar.start / MS, bar.end / MS) for bar in timeline.of(kind, lane)]


def test_log_lines_are_parsed() -> None:
    assert parse(3, "17 waits\n") == Event(3, 17, What.WAITS)
    assert parse(3, "18 holds /lock/n-0000000001 99\n") == Event(3, 18, What.HOLDS, "/lock/n-0000000001", 99)
    assert parse(3, "19 releases\n") == Event(3, 19, What.RELEASES)


@pytest.mark.parametrize("line", ["", "17", "17 sleeps", "17 holds /lock/n", "17 killed", "waits"])
def test_other_lines_are_ignored(line: str) -> None:
    with pytest.raises(NotUnderstood):
        parse(0, line)


def test_waiting_and_holding_become_bars() -> None:
    timeline = drawn(BOTH)
    assert spans(timeline, Kind.WAITS, 0) == [(5, 10)]
    assert spans(timeline, Kind.HOLDS, 0) == [(10, 30)]
    assert spans(timeline, Kind.WAITS, 1) == [(6, 31)]
    assert spans(timeline, Kind.HOLDS, 1) == [(31, 50)]
    assert [bar.token for bar in timeline.of(Kind.HOLDS)] == [100, 101]
    assert not any(bar.open for bar in timeline.bars)
    assert timeline.span == 100 * MS


def test_events_can_arrive_in_any_order() -> None:
    assert drawn(sorted(BOTH, key=lambda event: (event.lane, event.at))) == drawn(BOTH)
    # The demo learns of a kill immediately, but reads the killed process's earlier output a moment later.
    assert drawn(KILLED[::-1]) == drawn(KILLED)


def test_bars_before_the_picture_are_clipped_or_omitted() -> None:
    timeline = drawn(BOTH, start=20, now=60)
    assert spans(timeline, Kind.WAITS, 0) == []
    assert spans(timeline, Kind.HOLDS, 0) == [(0, 10)]
    # The bar is clipped, but the waiting time is not.
    (taker,) = timeline.of(Kind.HOLDS, 1)
    assert taker.asked == -14 * MS
    assert timeline.span == 40 * MS


def test_unfinished_bars_end_with_the_picture() -> None:
    timeline = drawn(BOTH, now=20)
    assert timeline.of(Kind.HOLDS, 0) == [Bar(0, Kind.HOLDS, 10 * MS, 20 * MS, 100, 5 * MS, open=True)]
    assert timeline.of(Kind.WAITS, 1) == [Bar(1, Kind.WAITS, 6 * MS, 20 * MS, open=True)]
    assert timeline.handoffs == ()


def test_a_wait_that_never_ends_lasts_until_its_process_ends() -> None:
    timeline = drawn([event(0, 5, What.WAITS), event(0, 40, What.ENDED)])
    assert timeline.of(Kind.WAITS) == [Bar(0, Kind.WAITS, 5 * MS, 40 * MS)]
    assert timeline.of(Kind.HOLDS) == []


def test_a_killed_waiter_leaves_no_orphan() -> None:
    timeline = drawn([event(0, 5, What.WAITS), event(0, 40, What.KILLED)])
    assert timeline.of(Kind.WAITS) == [Bar(0, Kind.WAITS, 5 * MS, 40 * MS)]
    assert timeline.of(Kind.ORPHANED) == []
    assert timeline.kills == (Kill(0, 40 * MS),)


def test_a_killed_holder_is_followed_by_its_session_until_the_next_grant() -> None:
    again = [event(1, 99, What.WAITS), event(1, 99, What.HOLDS, 2)]
    timeline = drawn([*KILLED, *again])
    assert spans(timeline, Kind.HOLDS, 0) == [(10, 20)]
    assert spans(timeline, Kind.ORPHANED, 0) == [(20, 90)]
    assert timeline.of(Kind.ORPHANED)[0].token == 100
    assert timeline.kills == (Kill(0, 20 * MS),)


def test_an_orphan_lasts_until_the_next_grant() -> None:
    timeline = drawn(KILLED, now=80)
    (orphan,) = timeline.of(Kind.ORPHANED)
    assert (orphan.end, orphan.open) == (80 * MS, True)


def test_a_release_before_the_kill_ends_the_orphan() -> None:
    late = [event(0, 21, What.RELEASES), event(0, 22, What.WAITS)]
    timeline = drawn([*KILLED[:4], *late, *KILLED[4:]])
    assert spans(timeline, Kind.ORPHANED, 0) == [(20, 21)]
    # A killed process does not wait either.
    assert spans(timeline, Kind.WAITS, 0) == [(5, 10)]


def test_a_handoff_starts_at_the_release_and_ends_at_the_waiters_grant() -> None:
    assert drawn(BOTH).handoffs == (Handoff(0, 1, 30 * MS, 31 * MS),)
    assert drawn(BOTH).handoffs[0].took == MS


def test_a_handoff_after_a_kill_is_measured_from_the_kill() -> None:
    assert drawn(KILLED).handoffs == (Handoff(0, 1, 20 * MS, 90 * MS, by_expiry=True),)


def test_a_lock_without_waiters_is_not_handed_on() -> None:
    late = [event(1, 40, What.WAITS), event(1, 41, What.HOLDS, 1)]
    assert drawn([*BOTH[:1], *BOTH[2:4], *late]).handoffs == ()


def test_an_overlapping_hold_is_not_a_handoff() -> None:
    thief = [event(1, 6, What.WAITS), event(1, 20, What.HOLDS, 1), event(1, 25, What.RELEASES)]
    timeline = drawn([BOTH[0], BOTH[2], *thief, BOTH[3]])
    # The timeline shows the bars as logged: it must not hide the overlap.
    assert timeline.of(Kind.HOLDS, 0)[0].end > timeline.of(Kind.HOLDS, 1)[0].start
    assert timeline.handoffs == ()


def test_the_timelines_holds_pass_the_history_checker() -> None:
    judged = holds(BOTH, PATH, ["a", "b"])
    assert [(one.worker, one.granted, one.ended, one.asked) for one in judged] == [
        ("a", 10 * MS, 30 * MS, 5 * MS),
        ("b", 31 * MS, 50 * MS, 6 * MS),
    ]
    assert history.problems(judged) == []


def test_a_killed_holders_hold_ends_with_the_kill() -> None:
    killed, _ = holds(KILLED, PATH, ["a", "b"])
    assert killed.ended == 20 * MS
    assert history.problems(holds(KILLED, PATH, ["a", "b"])) == []


def test_the_checker_receives_overlaps_and_unfinished_holds() -> None:
    early = [*BOTH[:4], event(1, 29, What.HOLDS, 1), *BOTH[5:]]
    assert len(history.overlaps(holds(early, PATH, ["a", "b"]))) == 1
    assert history.problems(holds(BOTH[:3], PATH, ["a", "b"])) != []


def test_the_figures_of_a_run() -> None:
    counted = figures(drawn(KILLED))
    assert counted.grants == (1, 1)
    assert counted.longest_wait == (0.005, 0.084)
    assert (counted.handoffs, counted.typical_handoff, counted.after_kill) == (1, None, 0.07)
    assert sentence(figures(drawn(BOTH)), 0) == "2 holds; 0 overlaps; 1 hand-off, typically in 1.0 ms"
    assert sentence(counted, 0).endswith("0.1 s from the kill to the next holder")
