"""A checker that cannot fail proves nothing: every rule is shown a history that breaks it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harness.history import Hold, assert_clean, misordered, overlaps, problems, shrinking_tokens, unanswered


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
