"""The API check finds names that a language lacks or declares differently, or that are not documented."""

from __future__ import annotations

import copy
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import api
from harness.paths import REPOSITORY
from surfaces import Name, Strings, Surface

LANGUAGES = ("rust", "python", "aio", "node")


def problems(
    change: Callable[[dict[str, Surface]], object] | None = None,
    of_strings: Callable[[dict[str, Strings]], object] | None = None,
    table: api.Table | None = None,
) -> list[str]:
    """Return the problems that the check reports if the real names and strings are changed in this way."""
    names, strings = copy.deepcopy(api.found(REPOSITORY))
    if change is not None:
        change(names)
    if of_strings is not None:
        of_strings(strings)
    return api.problems((names, strings), table or api.read(REPOSITORY))


def test_the_languages_are_as_the_table_says() -> None:
    assert problems() == []


@pytest.mark.parametrize(
    ("language", "name"),
    [
        ("aio", "Lease.remaining"),
        ("aio", "Lock.contenders"),
        ("aio", "Client(label)"),
        ("aio", "Lock.acquire(timeout)"),
        ("node", "Client.breakLock"),
        ("node", "Lease.fencingToken"),
        ("node", "LockOptions.naming"),
        ("node", "Stats.busy"),
        ("node", "Server.expire"),
        ("node", "functions.dump"),
        ("node", "Mutex"),
        ("python", "Lease.wait_lost"),
        ("python", "functions.observe(path)"),
        ("rust", "Lease.loss_reason"),
        ("rust", "ClientOptions.identify"),
    ],
)
def test_a_missing_name_is_found(language: str, name: str) -> None:
    assert problems(lambda names: names[language].pop(name)) == [f"{language}: {name} is missing"]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", ["Barrier", "Lease.age"])
def test_a_name_that_the_table_lacks_is_found(language: str, name: str) -> None:
    found = problems(lambda names: names[language].setdefault(name, Name("property", "int")))
    assert found == [f"{language}: {name} is not in the table"]


@pytest.mark.parametrize("name", ["Client(turbo)", "Lock.acquire(turbo)"])
def test_an_option_that_the_table_lacks_is_found(name: str) -> None:
    found = problems(lambda names: names["aio"].setdefault(name, Name("option", default="1")))
    assert found == [f"aio: {name} is not in the table"]


def test_a_wrong_unit_is_found() -> None:
    def change(names: dict[str, Surface]) -> None:
        names["node"]["Lease.remaining"].doc = "For how many seconds the lock is held."
        names["node"]["Lease.fencingToken"].types = "number"
        option = names["node"]["ConnectOptions.sessionTimeout"]
        option.doc = option.doc.replace("ms", "s")
        names["python"]["Histogram.sum"].doc = "A distribution of durations in milliseconds."
        names["rust"]["Lease.remaining"].types = "u64"

    assert problems(change) == [
        "rust: Lease.remaining is no Duration",
        "python: Histogram.sum does not say its unit (seconds)",
        "node: ConnectOptions.sessionTimeout does not say its unit (ms)",
        "node: Lease.fencingToken is no bigint",
        "node: Lease.remaining does not say its unit (ms)",
    ]


def test_another_default_is_found() -> None:
    def change(names: dict[str, Surface]) -> None:
        names["aio"]["Client(connect_timeout)"].default = "5.0"
        option = names["node"]["ConnectOptions.connectTimeout"]
        option.doc = option.doc.replace("10 000", "5000")

    assert problems(change) == [
        "aio: Client(connect_timeout) has the default 5.0, not 10",
        "node: ConnectOptions.connectTimeout does not document `Default: 10000`",
    ]


def test_another_kind_is_found() -> None:
    def change(names: dict[str, Surface]) -> None:
        names["aio"]["Lock.locked"].kind = "method"
        names["aio"]["Lease.remaining"].kind = "method"

    assert problems(change) == [
        "aio: Lease.remaining is a method, not a property",
        "aio: Lock.locked is a method, not a method async",
    ]


def test_an_absent_name_is_found() -> None:
    table = api.read(REPOSITORY)
    table["Lease"]["node"] = {"is": "property", "rust": {"absent": "no reason"}}
    # `Leadership` has all members of `Lease`.
    assert problems(table=table) == [
        "rust: Leadership.node is not in the table",
        "rust: Lease.node is not in the table",
    ]


def test_another_error_and_another_value_are_found() -> None:
    def change(strings: dict[str, Strings]) -> None:
        strings["node"]["errors"].remove("NotHeld NOT_HELD")
        strings["python"]["LeaseState"].add("asleep")
        strings["node"]["ClientState"].add("forked")

    assert problems(of_strings=change) == [
        "python: 'asleep' of LeaseState is not as in Rust",
        "node: 'NotHeld NOT_HELD' of errors is not as in Rust",
        "node: 'forked' of ClientState is not as in Rust",
    ]


def test_every_absence_has_a_reason() -> None:
    def reasons(section: object) -> None:
        if isinstance(section, dict):
            for key, one in section.items():
                if key == "absent":
                    given = one.values() if isinstance(one, dict) else [one]
                    assert all(isinstance(reason, str) and reason for reason in given)
                reasons(one)

    reasons(api.read(REPOSITORY))


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """Copy the files that the check reads."""
    for path in ("docs", "README.md", *api.PAGES.values()):
        source, target = REPOSITORY / path, tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    return tmp_path


def undocumented(
    root: Path, table: api.Table | None = None, strings: dict[str, Strings] | None = None
) -> list[str]:
    """Return the public names that are missing in the documents of `root`."""
    return api.undocumented(root, strings or api.found(REPOSITORY)[1], table or api.read(REPOSITORY))


def test_every_public_name_stands_in_a_document() -> None:
    assert undocumented(REPOSITORY) == []


def test_a_member_without_a_word_is_found() -> None:
    table = api.read(REPOSITORY)
    table["Lease"]["unheard"] = "property"
    assert undocumented(REPOSITORY, table) == [
        "unheard is in no document",
        "unheard is not in bindings-node/README.md",
        "unheard is not in bindings-python/README.md",
    ]


def test_an_error_without_a_word_is_found() -> None:
    strings = copy.deepcopy(api.found(REPOSITORY)[1])
    strings["python"]["errors"].add("Unheard UNHEARD")
    strings["node"]["UnheardError"] = set()
    found = [one for one in undocumented(REPOSITORY, strings=strings) if one.endswith("no document")]
    assert [one.split()[0] for one in found] == ["UNHEARD", "Unheard", "UnheardError"]


def test_only_code_counts(pages: Path) -> None:
    page = pages / "docs/api.md"
    page.write_text(page.read_text().replace("`into_arcs`", "into_arcs"))
    assert undocumented(pages) == ["into_arcs is in no document"]


@pytest.mark.parametrize(
    ("page", "name"),
    [
        ("bindings-node/README.md", "sessionTimeout"),
        ("bindings-node/README.md", "ReadyOptions"),
        ("bindings-node/README.md", "lossReason"),
        ("bindings-python/README.md", "parent_acl"),
        ("bindings-python/README.md", "NOT_HELD"),
    ],
)
def test_a_name_that_a_package_does_not_show_is_found(pages: Path, page: str, name: str) -> None:
    file = pages / page
    file.write_text(file.read_text().replace(name, "elsewhere"))
    assert f"{name} is not in {page}" in undocumented(pages)
