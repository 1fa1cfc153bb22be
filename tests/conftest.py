"""Pytest fixtures and hooks for all tests. One hook runs each scenario on each surface, such as `rust`."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from harness import contract
from harness.built import exclude
from harness.embedded import SERVERS, ZOOKEEPER, NewServer, default_kind
from harness.embedded import new_server as make_server
from harness.observer import Observer
from harness.paths import NODE_PACKAGE, REPOSITORY
from harness.processes import reap_all, survivors
from harness.proxy import Proxy
from harness.server import Ensemble, Standalone
from harness.skipping import pytest_runtest_call as pytest_runtest_call
from harness.skipping import pytest_runtest_setup as pytest_runtest_setup
from harness.surfaces import ALL, SURFACES
from harness.worker import Worker
from parts import PARTS

Start = Callable[..., Worker]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--surface", help="run the scenarios on these surfaces only (comma separated)")
    parser.addoption(
        "--one-surface", action="store_true", help="run each scenario on the first of its surfaces"
    )
    parser.addoption(
        "--rotate-surfaces",
        action="store_true",
        help="run each scenario on one of its surfaces, the next number on the next one",
    )
    parser.addoption("--scenario", help="run these numbers only: S20, or S20,S31, or S20-S29")
    parser.addoption(
        "--server",
        choices=SERVERS,
        help="server for the scenarios; the default is Apache ZooKeeper if this machine has Java",
    )
    parser.addoption("--soak", action="store_true", help="run the long variants too")


def pytest_configure(config: pytest.Config) -> None:
    """On the embedded server, skip tests that need more than it has."""
    if config.getoption("--server") not in (None, ZOOKEEPER):
        exclude("jars")


def server_kind(config: pytest.Config) -> str:
    """Return the kind of server that tests of this run use."""
    return config.getoption("--server") or default_kind()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests that the command line does not ask for."""
    wanted = numbers_of(config)

    def is_asked_for(item: pytest.Item) -> bool:
        if item.get_closest_marker("soak") and not config.getoption("--soak"):
            return False
        return wanted is None or contract.number_of(item.name) in wanted

    if left := [item for item in items if not is_asked_for(item)]:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if is_asked_for(item)]


def numbers_of(config: pytest.Config) -> set[int] | None:
    """Return the numbers of the selected scenarios, or None for all."""
    option: str | None = config.getoption("--scenario")
    try:
        return None if option is None else contract.chosen(option)
    except ValueError as error:
        raise pytest.UsageError(f"--scenario: {error}") from None


def pytest_collection_finish(session: pytest.Session) -> None:
    """Report once which parts are not built, so that hundreds of tests do not fail for this reason."""
    if session.config.option.collectonly:
        return
    used = {item.callspec.params.get("surface") for item in session.items if hasattr(item, "callspec")}
    parts = {SURFACES[name].part for name in used if isinstance(name, str)}
    asked = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    if {"server", "new_server", "ensemble"} & asked:
        parts.add("jars" if server_kind(session.config) == ZOOKEEPER else "embedded")
    if found := [what for part in sorted(parts) if (what := PARTS[part].problem()) is not None]:
        raise pytest.UsageError("\n".join(found))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a scenario on every surface that the contract does not exempt."""
    if "surface" not in metafunc.fixturenames:
        return
    number = contract.number_of(metafunc.function.__name__)
    scenario = contract.scenarios().get(number) if number is not None else None
    exempt = scenario.exempt if scenario is not None else {}
    names = [name for name in surfaces_of(metafunc.config) if name not in exempt]
    if metafunc.config.getoption("--one-surface"):
        names = names[:1]
    elif metafunc.config.getoption("--rotate-surfaces") and number is not None:
        names = names[number % len(names) :][:1] if names else names
    metafunc.parametrize("surface", names)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """List the missing parts: tests that need them are skipped."""
    kind = server_kind(config)
    lines = [] if kind == ZOOKEEPER else [f"server: {kind}, which is no evidence of safety on its own"]
    return lines + [
        f"not built: {what}" for surface in ALL.values() if (what := surface.missing()) is not None
    ]


def surfaces_of(config: pytest.Config) -> list[str]:
    """Return the surfaces (such as `rust`) that this run tests: the selected ones, or all that are built."""
    option: str | None = config.getoption("--surface")
    names = option.split(",") if option else list(SURFACES)
    if unknown := set(names) - set(SURFACES):
        raise pytest.UsageError(
            f"no such surface: {', '.join(sorted(unknown))}; there are {', '.join(SURFACES)}"
        )
    if config.option.collectonly:
        return names
    missing = {name: what for name in names if (what := SURFACES[name].missing()) is not None}
    if missing and (option or len(missing) == len(names)):
        raise pytest.UsageError("\n".join(missing.values()))
    return [name for name in names if name not in missing]


@pytest.fixture(scope="session")
def chosen(request: pytest.FixtureRequest) -> list[str]:
    """Return the surfaces of this run."""
    return surfaces_of(request.config)


@pytest.fixture(scope="session")
def new_server(request: pytest.FixtureRequest) -> NewServer:
    """Return a function that creates an unstarted server of this run's kind for a single test."""
    return partial(make_server, kind=server_kind(request.config))


@pytest.fixture(scope="session")
def server(new_server: NewServer) -> Iterator[Standalone]:
    """Return the server that most scenarios share. Do not stop it."""
    with new_server() as standalone:
        yield standalone


@pytest.fixture(scope="session")
def ensemble() -> Iterator[Ensemble]:
    """Return an ensemble of three servers. Leave all of them running."""
    with Ensemble() as three:
        yield three


@pytest.fixture(scope="session")
def observer(server: Standalone) -> Iterator[Observer]:
    """Return an observer on the shared server."""
    with Observer(server.hosts) as bystander:
        yield bystander


@pytest.fixture
def proxy(server: Standalone) -> Iterator[Proxy]:
    """Return the test's own proxy in front of the shared server."""
    with Proxy(server.hosts) as made:
        yield made


_paths = itertools.count(1)


@pytest.fixture
def path() -> str:
    """Return a lock path that no other test uses. Its parents do not exist."""
    return f"/t-{uuid.uuid4().hex[:8]}/lock-{next(_paths)}"


@pytest.fixture
def node_project(tmp_path: Path) -> Path:
    """Return a directory in which programs find the Node package by name, as if it were installed."""
    modules = tmp_path / "node_modules"
    modules.mkdir()
    (modules / "zklock").symlink_to(NODE_PACKAGE)
    for name in ("@opentelemetry", "prom-client"):
        (modules / name).symlink_to(REPOSITORY / "bindings-node" / "node_modules" / name)
    return tmp_path


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts a worker. All its workers are killed at the end of the test."""
    with ExitStack() as stack:

        def start_one(surface: str) -> Worker:
            return stack.enter_context(Worker(surface))

        yield start_one


@pytest.fixture(scope="session", autouse=True)
def _nothing_survives() -> Iterator[None]:
    """After the last test, assert that all servers and workers, and their child processes, have exited."""
    yield
    left = survivors()
    reap_all()
    assert not left, "left behind:\n" + "\n".join(left)
