"""The checks of a client that talks to lying servers find every violation and report no false ones."""

from __future__ import annotations

from collections import Counter
from unittest.mock import MagicMock

import pytest

from harness.liar import (
    bulk,
    crowds,
    errors,
    floods,
    frames,
    headers,
    held,
    jute,
    links,
    logins,
    sessions,
    tells,
)
from harness.liar.judge import MARGIN, ClientResult, Verdict, check_hold, check_record, check_term, judge
from harness.liar.server import Liar, Lie
from harness.liar.truth import DIRECTORY, Proof, Request, Truth

FAMILIES = (bulk, crowds, errors, floods, frames, headers, held, links, logins, sessions)

LIE = Lie("none", "create", tells.hang_up)


def account(accepts: list[float], *, told: bool = True) -> ClientResult:
    """Return the result of a client that connected at these times and was done at the time of the last
    connection.
    """
    liar = Liar(LIE)
    liar.accepts = accepts
    liar.told = [0.0] if told else []
    found = ClientResult(liar, done=accepts[-1])
    check_record(found)
    return found


def test_names_are_used_once() -> None:
    names = Counter(lie.name for family in FAMILIES for lie in family.lies())
    assert [name for name, count in names.items() if count > 1] == []


def test_five_connections_a_second_are_allowed() -> None:
    assert account([n / 5 for n in range(30)]).wrong == []


def test_too_many_connections_are_reported() -> None:
    assert account([n / 8 for n in range(40)]).wrong == ["16 connections in 2.0 s"]


def test_too_many_connections_in_the_first_second_are_reported() -> None:
    assert account([n / 100 for n in range(50)]).wrong == ["50 connections in the first second"]


def test_a_connection_after_close_is_reported() -> None:
    found = account([0.0])
    found.liar.accepts.append(MARGIN + 1)
    check_record(found)
    assert found.wrong == ["1 connections after the client was closed"]


def test_a_lie_that_was_not_told_is_reported() -> None:
    assert account([0.0], told=False).wrong == ["the lie was not told"]


@pytest.mark.parametrize(
    ("acknowledged", "listed", "right"),
    [
        (["a-0000000001"], ["a-0000000001", "b-0000000002"], True),
        (["a-0000000001"], ["b-0000000000", "a-0000000001"], False),
        ([], ["a-0000000001"], False),
        (["a-0000000001"], [], False),
        (["a-0000000001"], ["b", "\x1b[31m", "a-0000000001"], True),
    ],
)
def test_a_hold_needs_an_acknowledged_first_node(
    acknowledged: list[str], listed: list[str], right: bool
) -> None:
    found = ClientResult(Liar(LIE))
    truth = found.liar.truth
    truth.acknowledged.update(f"{DIRECTORY}/{name}" for name in acknowledged)
    truth.shown([name.encode() for name in listed])
    check_hold(found, {"node": f"{DIRECTORY}/a-0000000001", "token": "7"})
    assert (found.wrong == []) == right


def test_an_invalid_token_is_reported() -> None:
    found = ClientResult(Liar(LIE))
    found.liar.truth.acknowledged.add(f"{DIRECTORY}/a-0000000001")
    found.liar.truth.shown([b"a-0000000001"])
    check_hold(found, {"node": f"{DIRECTORY}/a-0000000001", "token": "0"})
    assert found.wrong == ["a fencing token of 0"]


def test_a_lease_that_outlives_its_term_is_reported() -> None:
    found = ClientResult(Liar(LIE))
    found.liar.truth.proofs.append(Proof(asked=10.0, timeout=3.0))
    check_term(found, 11.4, "suspended")
    assert found.wrong == []
    check_term(found, 11.6, "held")
    assert found.wrong == ["held 0.100 s after the end of its proven term"]


def test_lies_that_harm_the_process_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    lies = [Lie(f"lie {n}", "create", tells.hang_up) for n in range(100)]

    def run_lies(worker: object, honest: str, path: str, some: list[Lie]) -> Verdict:
        return Verdict([], ["it died"] if lies[7] in some or lies[93] in some else [])

    monkeypatch.setattr("harness.liar.judge.run_lies", run_lies)
    found = judge(MagicMock(), "", "/lock", lies).problems()
    assert sorted(found) == ["it died", "lie 7 alone: it died", "lie 93 alone: it died"]


@pytest.mark.parametrize(("runs", "problems"), [(1, []), (2, ["lie 1 (at create): the lie was not told"])])
def test_a_lie_that_is_not_told_runs_once_more(
    monkeypatch: pytest.MonkeyPatch, runs: int, problems: list[str]
) -> None:
    lies = [Lie(f"lie {n}", "create", tells.hang_up) for n in range(3)]
    met: list[list[Lie]] = []

    def run_lies(worker: object, honest: str, path: str, some: list[Lie]) -> Verdict:
        met.append(some)
        accounts = [ClientResult(Liar(lie)) for lie in some]
        for account in accounts:
            if account.liar.lie != lies[1] or len(met) > runs:
                account.liar.told = [0.0]
            check_record(account)
        return Verdict(accounts)

    monkeypatch.setattr("harness.liar.judge.run_lies", run_lies)
    assert judge(MagicMock(), "", "/lock", lies).problems() == problems
    assert met == [lies, [lies[1]]]


def test_an_expired_session_gets_a_true_reply() -> None:
    truth = Truth()
    session = truth.begin(0)
    path = truth.add(session)
    check = jute.int32(13) + b"\0" + jute.int32(-1) + jute.buffer(path) + jute.int32(-1)
    end = jute.int32(-1) + b"\1" + jute.int32(-1)
    beat = Request.read(jute.int32(1, 14) + check + end)
    assert beat.op == "beat"
    assert truth.execute(beat, session) == (0, jute.int32(13) + b"\0" + jute.int32(0) + end)
    truth.execute(Request.read(jute.int32(2, -11)), session)
    assert truth.begin(session) == 0
    assert truth.execute(beat, session)[1] == jute.int32(-1) + b"\0" + jute.int32(-101, -101) + end
