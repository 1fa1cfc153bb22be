"""Both checkers accept the same recorded histories, and reject the same planted anomalies."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from harness.built import require
from harness.histories import History, read, write
from harness.history import NEVER, Hold, by_path, downgrades
from harness.paths import PORCUPINE, TESTS
from harness.porcupine import compare, compared, main, verdicts

RECORDED = TESTS / "unit" / "histories"
"""Directory of the histories that one run of the fault suite and some simulation seeds have recorded."""

MILLISECOND = 1_000_000

Holds = list[Hold]
Mutation = Callable[[Holds], Iterator[Holds]]
"""A function that plants an anomaly in the holds of one lock. It yields a copy for each possible position."""


def recorded() -> list[History]:
    return [history for file in sorted(RECORDED.glob("*.jsonl")) for history in read(file)]


def paths(history: History) -> Iterator[Holds]:
    """Yield the holds of each lock whose sequence numbers do not restart."""
    for path, holds in by_path(history.holds).items():
        if path not in history.restarts:
            yield holds


def changed(holds: Holds, place: int, **fields: object) -> Holds:
    """Return the same holds with one of them changed."""
    different = replace(holds[place], **fields)  # type: ignore[arg-type]
    return [*holds[:place], different, *holds[place + 1 :]]


def pairs(holds: Holds, first: str, second: str) -> Iterator[int]:
    """Yield the index of each hold of kind `first` that directly precedes a hold of kind `second`.

    Both holds have different owners, and neither belongs to a downgrade.
    """
    halves = downgrades(holds)
    for place, (one, other) in enumerate(pairwise(holds)):
        apart = (one.worker, one.owner) != (other.worker, other.owner)
        if apart and kind(one) in first and kind(other) in second and not {one, other} & set(halves):
            yield place


def kind(hold: Hold) -> str:
    return "permit" if hold.permits is not None else "reader" if hold.shared else "writer"


def numbered(node: str | None, number: int | None) -> str:
    """Return the node's name with another sequence number."""
    return re.sub(r"\d{10}$", f"{number:010}", node or "")


# The anomalies.


def a_writer_within_a_writer(holds: Holds) -> Iterator[Holds]:
    for at in pairs(holds, "writer", "writer"):
        if holds[at].until - holds[at].granted > 2:
            inside = (holds[at].granted + holds[at].until) // 2
            yield changed(holds, at + 1, granted=inside, asked=None)


def an_end_stretched_over_the_next_hold(holds: Holds) -> Iterator[Holds]:
    for at in pairs(holds, "writer", "writer"):
        yield changed(holds, at, ended=holds[at + 1].granted + 1)


def a_reader_that_goes_on_beside_a_writer(holds: Holds) -> Iterator[Holds]:
    for at in pairs(holds, "reader", "writer"):
        yield changed(holds, at, ended=holds[at + 1].granted + 1)


def a_writer_that_goes_on_beside_a_reader(holds: Holds) -> Iterator[Holds]:
    for at in pairs(holds, "writer", "reader"):
        yield changed(holds, at, ended=holds[at + 1].granted + 1)


def a_permit_too_many(holds: Holds) -> Iterator[Holds]:
    for at, hold in enumerate(holds):
        if hold.permits is not None and hold.permits < 10 and hold.until - hold.granted > 2:
            others = [
                replace(hold, owner=f"thief {number}", node=f"{number}-{hold.node}", granted=hold.granted + 1)
                for number in range(hold.permits)
            ]
            yield [*holds[: at + 1], *others, *holds[at + 1 :]]


def a_number_of_permits_of_its_own(holds: Holds) -> Iterator[Holds]:
    for at, hold in enumerate(holds[1:], 1):
        if hold.permits is not None and holds[0].permits is not None:
            yield changed(holds, at, permits=hold.permits + 1)


def an_equal_token(holds: Holds) -> Iterator[Holds]:
    for at in pairs(holds, "writer", "writer reader"):
        yield changed(holds, at + 1, token=holds[at].token)


def a_token_that_fell(holds: Holds) -> Iterator[Holds]:
    for at in pairs(holds, "writer", "writer"):
        yield changed(holds, at + 1, token=(holds[at].token or 0) - 1)


def a_reader_with_a_token_below_the_writers(holds: Holds) -> Iterator[Holds]:
    for at in pairs(holds, "writer", "reader"):
        yield changed(holds, at + 1, token=(holds[at].token or 0) - 1)


def a_downgrade_with_a_token_below_its_own(holds: Holds) -> Iterator[Holds]:
    for reader, writer in downgrades(holds).items():
        yield changed(holds, holds.index(reader), token=(writer.token or 0) - 1)


def a_stolen_turn(holds: Holds) -> Iterator[Holds]:
    for at in pairs(holds, "writer", "writer"):
        one, other = holds[at], holds[at + 1]
        both = changed(holds, at, node=numbered(one.node, other.sequence))
        yield changed(both, at + 1, node=numbered(other.node, one.sequence))


def a_writer_before_an_earlier_reader(holds: Holds) -> Iterator[Holds]:
    for at in pairs(holds, "writer", "reader"):
        one, other = holds[at], holds[at + 1]
        both = changed(holds, at, node=numbered(one.node, other.sequence))
        yield changed(both, at + 1, node=numbered(other.node, one.sequence))


def a_hold_past_its_end(holds: Holds) -> Iterator[Holds]:
    for at, hold in enumerate(holds):
        if hold.over is not None:
            yield changed(holds, at, ended=hold.over + 1)


def an_end_before_the_holder_knew(holds: Holds) -> Iterator[Holds]:
    for at, hold in enumerate(holds):
        if hold.until < NEVER and hold.until - hold.granted > 2:
            yield changed(holds, at, over=(hold.granted + hold.until) // 2)


def one_node_for_two(holds: Holds) -> Iterator[Holds]:
    for at in pairs(holds, "writer reader permit", "writer reader permit"):
        if kind(holds[at]) == kind(holds[at + 1]):
            yield changed(holds, at + 1, node=holds[at].node)


def a_downgrade_that_lets_a_writer_in(holds: Holds) -> Iterator[Holds]:
    for reader, writer in downgrades(holds).items():
        later = [other for other in holds if not other.shared and other.granted > reader.granted]
        inside = (writer.until + reader.until) // 2
        if later and writer.until < inside < reader.until:
            yield changed(holds, holds.index(later[0]), granted=inside, asked=None)


ANOMALIES: dict[Mutation, str] = {
    a_writer_within_a_writer: "overlap",
    an_end_stretched_over_the_next_hold: "overlap",
    a_reader_that_goes_on_beside_a_writer: "overlap",
    a_writer_that_goes_on_beside_a_reader: "overlap",
    a_downgrade_that_lets_a_writer_in: "overlap",
    a_permit_too_many: "too many permits",
    a_number_of_permits_of_its_own: "too many permits",
    an_equal_token: "token fell",
    a_token_that_fell: "token fell",
    a_reader_with_a_token_below_the_writers: "token fell",
    a_downgrade_with_a_token_below_its_own: "token fell",
    a_stolen_turn: "turn stolen",
    a_writer_before_an_earlier_reader: "turn stolen",
    a_hold_past_its_end: "held past its end",
    an_end_before_the_holder_knew: "held past its end",
    one_node_for_two: "one node for two",
}

EACH = 12
"""Number of places in which each anomaly is planted."""


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    require("porcupine", "the independent checker")


def test_both_checkers_accept_recorded_histories(tmp_path: Path) -> None:
    histories = recorded()
    # The histories contain all kinds of locks, downgrades and losses.
    holds = [hold for history in histories for hold in history.holds]
    assert {kind(hold) for hold in holds} == {"writer", "reader", "permit"}
    assert sum(hold.over is not None for hold in holds) > 5
    write(tmp_path / "all", histories)
    comparison = compare(tmp_path / "all")
    assert comparison.problems == []
    assert (comparison.histories, comparison.holds) == (len(histories), len(holds))


@pytest.mark.parametrize("anomaly", ANOMALIES, ids=lambda anomaly: str(anomaly.__name__))
def test_both_checkers_reject_an_anomaly(anomaly: Mutation, tmp_path: Path) -> None:
    planted: list[History] = []
    for history in recorded():
        ways = [way for holds in paths(history) for way in anomaly(holds)]
        # The anomalies are spread over the whole history.
        planted += [History(f"{len(planted)}", tuple(way)) for way in ways[:: max(1, len(ways) // EACH)]]
    assert len(planted) >= EACH / 2
    file = tmp_path / "planted"
    write(file, planted)
    for history, verdict in zip(planted, verdicts(file), strict=True):
        assert ANOMALIES[anomaly] in history.broken_rules()
        assert ANOMALIES[anomaly] in verdict.rules
    comparison = compare(file)
    assert (len(comparison.refused), comparison.disagreements) == (len(planted), [])


def disturbed(history: History, chance: random.Random) -> History:
    """Return a copy with small random changes, many of which break no rule."""
    path = chance.choice(sorted({hold.path for hold in history.holds}))
    holds = by_path(history.holds)[path]
    begin = chance.randrange(len(holds))
    holds = holds[begin : begin + 40]
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(holds))
        hold, other = holds[at], chance.choice(holds)
        shift = chance.randint(-3, 3) * MILLISECOND
        change = chance.choice(["end", "grant", "token", "number", "over", "shared", "owner"])
        if change == "end":
            holds = changed(holds, at, ended=max(hold.granted + 1, hold.until + shift))
        elif change == "grant":
            holds = changed(holds, at, granted=min(hold.until - 1, hold.granted + shift), asked=None)
        elif change == "token":
            holds = changed(holds, at, token=(hold.token or 0) + chance.randint(-20, 20))
        elif change == "number" and hold.sequence is not None and other.sequence is not None:
            holds = changed(holds, at, node=numbered(hold.node, other.sequence))
        elif change == "over":
            holds = changed(holds, at, over=max(1, hold.until + shift))
        elif change == "shared" and hold.permits is None:
            holds = changed(holds, at, shared=not hold.shared)
        elif change == "owner":
            holds = changed(holds, at, worker=other.worker, owner=other.owner)
        holds.sort(key=lambda one: one.granted)
    return History("disturbed", tuple(holds), history.restarts)


def test_both_checkers_agree_on_random_disturbances(tmp_path: Path) -> None:
    chance = random.Random(30)
    known = recorded()
    histories = [
        replace(disturbed(chance.choice(known), chance), name=f"disturbed {number}") for number in range(1500)
    ]
    write(tmp_path / "disturbed", histories)
    comparison = compare(tmp_path / "disturbed")
    assert comparison.disagreements == []
    # Both verdicts occur often enough.
    assert 200 < len(comparison.refused) < 1300


def test_a_recorders_other_verdict_is_a_disagreement() -> None:
    history = recorded()[0]
    assert compared(replace(history, breaches=())).problems == []
    assert compared(replace(history, breaches=("held twice",))).disagreements


def test_a_history_is_read_as_it_was_written(tmp_path: Path) -> None:
    histories = recorded()
    write(tmp_path / "again", histories)
    assert list(read(tmp_path / "again")) == histories


def test_too_few_histories_fail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "one", recorded()[:1])
    assert main([str(tmp_path / "one")]) == 0
    assert main([str(tmp_path / "one"), "--at-least", "2"]) == 1
    assert "2 histories expected, but only 1 checked" in capsys.readouterr().out


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    history = recorded()[0]
    write(tmp_path / "one", [history])
    subprocess.run([PORCUPINE, "-pictures", tmp_path, tmp_path / "one"], check=True, capture_output=True)
    (picture,) = tmp_path.glob("*.html")
    text = picture.read_text()
    assert all(hold.node in text for hold in history.holds if hold.node)


def test_the_model_refuses_the_same_with_intervals_and_with_points() -> None:
    if shutil.which("go") is None:
        pytest.skip("needs go on the PATH")
    done = subprocess.run(
        ["go", "test", "./..."], cwd=TESTS / "porcupine", capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
