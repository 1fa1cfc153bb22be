"""The API check finds a public member that one language lacks or declares in another form than the table."""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import api
from harness.paths import REPOSITORY
from surfaces.model import Member, Type

Found = dict[str, api.Surface]


@cache
def real() -> Found:
    return api.surfaces(REPOSITORY)


def problems(change: Callable[[Found], object] | None = None, table: api.Table | None = None) -> list[str]:
    """Return the problems that the check reports after `change` has altered the real surface."""
    found = copy.deepcopy(real())
    if change is not None:
        change(found)
    return api.problems(REPOSITORY, found, table)


def problems_of_leases(
    change: Callable[[Found], object] | None = None, table: api.Table | None = None
) -> list[str]:
    """Return the problems without those of `Leadership`, which must be the same as those of `Lease`."""
    found = problems(change, table)
    leases = [problem for problem in found if ": Leadership." not in problem]
    assert sorted(found) == sorted(leases + [line.replace(": Lease.", ": Leadership.") for line in leases])
    return leases


def member(found: Found, language: str, type_: str, name: str) -> Member:
    return found[language][0][type_].members[name]


def test_the_languages_are_as_the_table_says() -> None:
    assert problems() == []


@pytest.mark.parametrize(
    ("language", "type_", "name"),
    [
        ("aio", "Lease", "remaining"),
        ("aio", "Lock", "contenders"),
        ("node", "Client", "breakLock"),
        ("node", "Lease", "fencingToken"),
        ("python", "Lease", "wait_lost"),
        ("rust", "Lease", "loss_reason"),
        ("node", "Stats", "busy"),
        ("node", "Server", "expire"),
    ],
)
def test_a_missing_member_is_found(language: str, type_: str, name: str) -> None:
    found = problems(lambda found: found[language][0][type_].members.pop(name))
    assert f"{language}: {type_}.{name} is missing" in found


@pytest.mark.parametrize("language", ["rust", "python", "aio", "node"])
def test_a_member_that_the_table_lacks_is_found(language: str) -> None:
    def add(found: Found) -> None:
        found[language][0]["Lease"].members["age"] = Member("int", is_property=True)

    assert problems_of_leases(add) == [f"{language}: Lease.age is not in the table"]


@pytest.mark.parametrize("language", ["rust", "python", "aio", "node"])
def test_a_type_that_the_table_lacks_is_found(language: str) -> None:
    def add(found: Found) -> None:
        types, public = found[language]
        types["Barrier"] = Type()
        public.add("Barrier")

    assert problems(add) == [f"{language}: Barrier is not in the table"]


def test_a_wrong_unit_is_found() -> None:
    def seconds_in_node(found: Found) -> None:
        member(found, "node", "Lease", "remaining").doc = "For how many seconds the lock is held."

    assert problems_of_leases(seconds_in_node) == ["node: Lease.remaining does not say its unit (ms)"]

    def milliseconds_in_python(found: Found) -> None:
        found["python"][0]["Histogram"].doc = "A distribution of durations in milliseconds."

    assert "python: Histogram.sum does not say its unit (seconds)" in problems(milliseconds_in_python)

    def a_number_in_rust(found: Found) -> None:
        member(found, "rust", "Lease", "remaining").type = "u64"

    assert problems_of_leases(a_number_in_rust) == ["rust: Lease.remaining is a u64, not a Duration"]

    def a_double_in_node(found: Found) -> None:
        member(found, "node", "Lease", "fencingToken").type = "number"

    assert problems_of_leases(a_double_in_node) == ["node: Lease.fencingToken is a number, not a bigint"]

    def an_option_in_node(found: Found) -> None:
        option = member(found, "node", "ConnectOptions", "sessionTimeout")
        option.doc = option.doc.replace("ms", "s")

    (problem,) = problems(an_option_in_node)
    assert problem == "node: ConnectOptions: the option sessionTimeout does not say its unit (ms)"


def test_a_missing_option_is_found() -> None:
    found = problems(lambda found: found["aio"][0]["Client"].constructor.pop("label"))
    assert found == ["aio: Client: the option label is missing"]
    found = problems(lambda found: found["node"][0]["LockOptions"].members.pop("naming"))
    assert "node: MutexOptions: the option naming is missing" in found


def test_another_default_is_found() -> None:
    def five_seconds(found: Found) -> None:
        found["aio"][0]["Client"].constructor["connect_timeout"].default = "5.0"

    assert problems(five_seconds) == ["aio: Client: the option connect_timeout has the default 5.0, not 10"]

    def documented(found: Found) -> None:
        option = member(found, "node", "ConnectOptions", "connectTimeout")
        option.doc = option.doc.replace("10 000", "5000")

    (problem,) = problems(documented)
    assert problem == "node: ConnectOptions: the option connectTimeout does not document `Default: 10000`"


def test_what_can_be_awaited_in_one_language_only_is_found() -> None:
    def blocks(found: Found) -> None:
        member(found, "aio", "Lock", "locked").is_async = False

    assert "aio: Lock.locked cannot be awaited" in problems(blocks)


def test_a_property_that_became_a_method_is_found() -> None:
    def call(found: Found) -> None:
        member(found, "aio", "Lease", "remaining").is_property = False

    assert problems_of_leases(call) == ["aio: Lease.remaining is a method, not a property"]


def test_what_should_be_absent_is_found() -> None:
    table = tomllib.loads((REPOSITORY / api.TABLE).read_text())
    table["Lease"]["node"] = {"is": "property", "rust": {"absent": "no reason"}}
    assert problems_of_leases(table=table) == [
        "rust: Lease.node is there, but absent in the table: no reason"
    ]


def test_every_absence_has_a_reason() -> None:
    def reasons(section: object) -> None:
        if isinstance(section, dict):
            for key, one in section.items():
                if key == "absent":
                    given = one.values() if isinstance(one, dict) else [one]
                    assert all(isinstance(reason, str) and reason for reason in given)
                reasons(one)

    reasons(tomllib.loads(Path(REPOSITORY, api.TABLE).read_text()))
