"""Tests of the history checker: each rule finds a violation in a history that contains one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.history import (
    UNKNOWN,
    Hold,
    assert_clean,
    misordered,
    overlaps,
    oversubscribed,
    problems,
    shrinking_tokens,
    unanswered,
)


def hold(number: int, granted: int, ended: int | None, **other: object) -> Hold:
    plain = Hold(
        path="/lock",
        worker="w",
        owner=f"o{number}",
        granted=granted,
        ended=ended,
        node=f"_c_00000000-0000-0000-0000-00000000000{number}-lock-{number:010}",
        token=100 + number,
    )
    return replace(plain, **other)  # type: ignore[arg-type]


GOOD = [hold(0, 0, 10), hold(1, 11, 20), hold(2, 21, 30)]


def test_a_good_history_passes() -> None:
    assert problems(GOOD) == []
    assert_clean(reversed(GOOD), at_least=3)


def test_touching_holds_do_not_overlap() -> None:
    assert overlaps([hold(0, 0, 10), hold(1, 10, 20)]) == []


def test_overlap_is_found() -> None:
    assert len(overlaps([hold(0, 0, 10), hold(1, 9, 20)])) == 1


def test_overlap_with_a_hold_that_never_ended_is_found() -> None:
    assert len(overlaps([hold(0, 0, None), hold(1, 5, 20)])) == 1


def test_overlap_is_found_behind_a_short_hold_in_between() -> None:
    assert len(overlaps([hold(0, 0, 100), hold(1, 5, 6), hold(2, 50, 60)])) == 2


def test_two_owners_on_one_node_overlap() -> None:
    assert overlaps([hold(0, 0, 10), hold(0, 5, 9, owner="thief")])


def test_other_paths_are_other_locks() -> None:
    assert problems([hold(0, 0, 10), hold(0, 5, 9, path="/other")]) == []


def test_overtaking_is_found() -> None:
    found = misordered([hold(1, 0, 10), hold(0, 11, 20)])
    assert len(found) == 1
    assert "out of order" in found[0]


def test_overtaking_is_not_excused_by_restarts_unless_the_token_says_so() -> None:
    assert misordered([hold(1, 0, 10), hold(0, 11, 20)], restarts=True)


def test_a_restarted_sequence_is_excused_where_it_can_happen() -> None:
    restarted = [hold(1, 0, 10), hold(0, 11, 20, token=500)]
    assert misordered(restarted, restarts=True) == []
    assert misordered(restarted)


def test_one_node_granted_twice_is_found() -> None:
    twice = [hold(1, 0, 10), hold(1, 11, 20, token=500)]
    assert misordered(twice)
    assert misordered(twice, restarts=True)


def test_unknown_nodes_have_no_order() -> None:
    assert misordered([hold(1, 0, 10), hold(0, 11, 20, node=None)]) == []


@pytest.mark.parametrize("token", [100, 99], ids=["same", "smaller"])
def test_a_token_that_does_not_grow_is_found(token: int) -> None:
    assert shrinking_tokens([hold(0, 0, 10), hold(1, 11, 20, token=token)])


def test_a_missing_release_is_found() -> None:
    assert unanswered([hold(0, 0, None)])
    with pytest.raises(AssertionError, match="never released"):
        assert_clean([hold(0, 0, None)])


def test_an_empty_history_proves_nothing() -> None:
    with pytest.raises(AssertionError, match="expected"):
        assert_clean([])


# Readers and writers. `hold` above returns the exclusive hold of a writer or of a mutex.


def reader(number: int, granted: int, ended: int | None, **other: object) -> Hold:
    node = f"_c_00000000-0000-0000-0000-00000000000{number}-__READ__{number:010}"
    return hold(number, granted, ended, **{"shared": True, "node": node, **other})


def downgraded(number: int, granted: int, ended: int, **other: object) -> Hold:
    """Return the read hold of an owner that downgrades from write hold `number`."""
    return reader(number, granted, ended, **{"token": 100 + number, **other})


SHARED = [
    hold(0, 0, 10),
    # Readers may be granted in any order, and hold at the same time.
    reader(3, 11, 20),
    reader(1, 12, 40),
    reader(2, 13, 14),
    hold(4, 41, 50),
    downgraded(4, 45, 60),
    reader(5, 51, 70),
    hold(6, 71, 80),
]


def test_readers_may_overlap_readers() -> None:
    assert problems(SHARED) == []


def test_a_reader_within_a_writer_is_found() -> None:
    assert len(overlaps([hold(0, 0, 10), reader(1, 9, 20)])) == 1


def test_a_writer_within_a_reader_is_found() -> None:
    assert len(overlaps([reader(0, 0, 10), hold(1, 9, 20)])) == 1


def test_a_writer_within_a_reader_is_found_behind_other_readers() -> None:
    assert len(overlaps([reader(0, 0, 100), reader(1, 5, 6), reader(2, 7, 8), hold(3, 50, 60)])) == 1


def test_a_writer_within_every_reader_is_found() -> None:
    assert len(overlaps([reader(0, 0, 100), reader(1, 5, 90), hold(2, 50, 60)])) == 2


def test_a_writer_within_a_downgraded_hold_is_found() -> None:
    assert len(overlaps([hold(0, 0, 10), downgraded(0, 5, 20), hold(1, 15, 30)])) == 1


def test_a_writer_between_the_halves_of_a_downgrade_is_found() -> None:
    # The owner released the write lock before it had the read lock.
    assert overlaps([hold(0, 0, 10), hold(1, 11, 20), downgraded(0, 12, 30)])


def test_a_downgrade_may_outlive_its_lost_writer() -> None:
    late = downgraded(0, 15, 30)
    assert problems([hold(0, 0, 10), late]) == []
    assert problems([hold(0, 0, 10), replace(late, owner="thief")])
    assert problems([hold(0, 0, 10), replace(late, session=8)])
    assert problems([hold(0, 0, 10), replace(late, token=99)])
    assert problems([hold(0, 0, 10), hold(1, 11, 12), late])


def test_another_owners_reader_is_no_downgrade() -> None:
    assert overlaps([hold(0, 0, 10), reader(0, 5, 20, owner="thief")])


def test_a_reader_behind_its_own_writer_in_the_queue_is_no_downgrade() -> None:
    assert overlaps([hold(0, 0, 10), reader(1, 5, 20, owner="o0")])


def test_one_node_for_two_readers_is_found() -> None:
    assert problems([reader(0, 0, 10), reader(0, 5, 20, owner="thief")])


def test_a_reader_that_never_ended_keeps_writers_out() -> None:
    assert overlaps([reader(0, 0, None), hold(1, 5, 20)])


def test_readers_have_no_order() -> None:
    assert misordered([reader(2, 0, 10), reader(0, 1, 11), reader(1, 2, 12)]) == []


def test_a_writer_before_an_earlier_reader_is_found() -> None:
    assert misordered([hold(1, 0, 10), reader(0, 11, 20)])


def test_a_writer_before_an_earlier_reader_is_found_behind_other_readers() -> None:
    assert misordered([hold(2, 0, 10), reader(4, 11, 20), reader(3, 12, 20), reader(1, 13, 20)])


def test_a_reader_before_an_earlier_writer_is_found() -> None:
    found = misordered([reader(1, 0, 10), hold(0, 11, 20)])
    assert len(found) == 1
    assert "reader" in found[0]


def test_a_reader_before_an_earlier_writer_is_found_behind_other_readers() -> None:
    assert misordered([reader(3, 0, 10), reader(0, 1, 10), reader(1, 2, 10), hold(2, 11, 20)])


def test_a_reader_before_an_earlier_writer_is_not_excused_by_restarts() -> None:
    assert misordered([reader(1, 0, 10), hold(0, 11, 20)], restarts=True)


def test_restarts_excuse_the_numbers_of_another_parent_only() -> None:
    # The parent node was created twice, so sequence numbers restarted. The numbers under the first parent are
    # 0 to 5. Under the second parent, readers with the numbers 0 and 2 hold before a writer. This is an error
    # only if the writer's number is 1.
    first = [reader(4, 0, 10), reader(5, 1, 10)]
    second = [reader(0, 20, 30, token=201), reader(2, 21, 30, token=203)]
    assert misordered([*first, *second, hold(3, 31, 40, token=204)], restarts=True) == []
    assert misordered([*first, *second, hold(1, 31, 40, token=202)], restarts=True)


def test_a_downgrade_keeps_its_token_or_has_a_later_one() -> None:
    assert shrinking_tokens([hold(0, 0, 10), downgraded(0, 5, 20, token=99)])
    # Curator creates the reader's node only at the downgrade, so the reader's token is larger than those of
    # waiting writers. This is not an error.
    assert shrinking_tokens([hold(0, 0, 10), downgraded(0, 5, 20, token=150), hold(1, 21, 30)]) == []


def test_tokens_of_readers_are_compared_with_those_of_writers() -> None:
    assert shrinking_tokens([hold(0, 0, 10), reader(1, 11, 20, token=99)])
    assert shrinking_tokens([reader(1, 0, 10), reader(0, 1, 10), hold(2, 11, 20, token=101)])
    assert shrinking_tokens([reader(1, 0, 10), reader(0, 1, 10)]) == []


def permit(number: int, granted: int, ended: int | None, **other: object) -> Hold:
    return hold(number, granted, ended, **{"permits": 2, **other})


def test_permits_are_held_together_in_any_order() -> None:
    assert problems([permit(1, 0, 10), permit(0, 1, 9), permit(2, 10, 20, token=1)]) == []


def test_one_permit_too_many_is_found() -> None:
    found = oversubscribed([permit(0, 0, 10), permit(1, 5, None), permit(2, 9, 20)])
    assert len(found) == 1
    assert "3 of 2 permits" in found[0]


def test_permits_of_different_paths_are_independent() -> None:
    assert problems([permit(0, 0, 10), permit(1, 0, 10), permit(2, 0, 10, path="/other")]) == []


def test_two_numbers_of_permits_are_found() -> None:
    assert len(oversubscribed([permit(0, 0, 10), permit(1, 20, 30, permits=3)])) == 1


def test_a_permit_count_from_other_contenders_is_not_checked() -> None:
    holds = [permit(number, 0, 10, permits=UNKNOWN) for number in range(5)]
    assert problems(holds) == []


def test_one_node_for_two_permits_is_found() -> None:
    assert len(problems([permit(0, 0, 10), permit(0, 5, 9, owner="thief")])) == 1
