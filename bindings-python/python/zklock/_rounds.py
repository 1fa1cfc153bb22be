"""`Election.run()`, which campaigns and leads repeatedly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from zklock import _zklock
from zklock._decorators import check_body
from zklock._errors import Error, LockLost


def run(election: _zklock.Election, body: Callable[[_zklock.Leadership], object]) -> None:
    """Lead whenever possible, until the client is closed."""
    check_body(body, "the leadership is resigned", "an election")
    rounds = _zklock.Rounds(election)
    while (pause := _round(rounds, election, body)) is not None:
        rounds.pause(pause)


def _round(rounds: _zklock.Rounds, election: _zklock.Election, body: Callable[..., object]) -> float | None:
    """Campaign once, and run the body while leading. Return the pause before the next campaign, or None if
    there is no next campaign.
    """
    if rounds.are_over():
        return None
    leadership: _zklock.Leadership | None = None
    try:
        with election.lead() as leadership:
            rounds.begin()
            body(leadership)
    except Error as error:
        return failed(rounds, leadership, error)
    return rounds.end()


def failed(rounds: _zklock.Rounds, leadership: Any, error: Error) -> float | None:
    """Return the pause before the next campaign, after a round failed with this error. Raise the error if it
    ends the run.
    """
    if leadership is None:
        return rounds.fail(error)
    # After the loss of this leadership, campaign again. But the body might also raise the `LockLost` of
    # another lock, which ends the run like any other error.
    if isinstance(error, LockLost) and leadership.loss_reason is not None:
        return rounds.end()
    raise error
