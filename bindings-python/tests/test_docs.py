"""All public items are documented, both at run time and in the stub, and the documented examples work."""

from __future__ import annotations

import ast
import asyncio
import contextlib
import doctest
import inspect
import io
import os
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import stub_docs
from harness.observer import Observer
from harness.security import Secured, secured_server

import zklock
from zklock import aio, opentelemetry, prometheus, testing
from zklock.compat import kazoo

Documented = tuple[str, Any]


def members(kind: type) -> Iterator[Documented]:
    """Yield the public attributes of a class, including those inherited from classes of this package."""
    for base in kind.__mro__:
        if base.__module__.startswith("zklock"):
            for name, member in vars(base).items():
                if not name.startswith("_") and not isinstance(member, str):
                    yield f"{kind.__module__}.{kind.__name__}.{name}", member


def public() -> Iterator[Documented]:
    for module in (zklock, aio, kazoo, testing, prometheus, opentelemetry):
        yield module.__name__, module
        for name in module.__all__:
            kind = getattr(module, name)
            if inspect.isclass(kind):
                yield f"{kind.__module__}.{name}", kind
                yield from members(kind)
            elif inspect.isroutine(kind):
                yield f"{module.__name__}.{name}", kind


def needs_example(item: Any) -> bool:
    """Return whether the item is a module, a class, a function or a method."""
    return (
        inspect.ismodule(item)
        or inspect.isclass(item)
        or (inspect.isroutine(item) and not inspect.isdatadescriptor(item))
    )


# Sorted, because a class of the extension lists its attributes in no fixed order.
PUBLIC = dict(sorted(public()))
# Inherited items appear only once.
EXAMPLES = {id(item): name for name, item in reversed(PUBLIC.items()) if needs_example(item)}


def test_the_walk_finds_the_public_items() -> None:
    for name in ("zklock.Lock.acquire", "zklock.Stats.wait", "zklock.aio.Mutex.hold", "zklock.NotHeld"):
        assert name in PUBLIC
    assert len(PUBLIC) > 150
    assert len(EXAMPLES) > 70


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_item_is_documented(name: str) -> None:
    doc = inspect.getdoc(PUBLIC[name])
    assert doc, f"{name} has no documentation"
    summary = doc.splitlines()[0]
    assert summary[-1] in ".:", f"the summary of {name} is no sentence on one line: {summary}"


def test_the_stub_has_the_docstrings_of_the_module() -> None:
    stub = stub_docs.STUB.read_text()
    assert stub == stub_docs.rewritten(stub), f"run {stub_docs.__file__}"


@pytest.fixture(scope="session")
def secured() -> Iterator[Secured]:
    """Provide a server with TLS."""
    with secured_server() as server:
        yield server


@pytest.fixture
def own_hosts(hosts: str, observer: Observer) -> str:
    """Return a hosts string for the shared server, with a chroot that no other test uses."""
    chroot = f"/docs-{uuid.uuid4().hex[:8]}"
    for directory in (chroot, f"{chroot}/state", f"{chroot}/chroot"):
        observer.create(directory)
    return f"{hosts}{chroot}"


async def run_example(example: doctest.Example, names: dict[str, Any]) -> str:
    """Return the output of an example, as a prompt would show it."""
    code = compile(example.source, "<example>", "single", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        result = eval(code, names)
        if inspect.isawaitable(result):
            await result
    return output.getvalue()


async def check(doc: str, names: dict[str, Any]) -> None:
    """Run the examples of a docstring in one task. They build on each other."""
    for example in doctest.DocTestParser().get_examples(doc):
        shown = await run_example(example, names)
        same = doctest.OutputChecker().check_output(example.want, shown, doctest.ELLIPSIS)
        assert same, f"{example.source} shows {shown!r}, not {example.want!r}"


def blocking_names(client: zklock.Client) -> dict[str, Any]:
    """Return the names that examples of `zklock` use without defining them."""

    def write_report(token: int) -> None:
        assert token > 0

    def schedule(leadership: zklock.Leadership) -> None:
        leadership.check()
        client.close()

    return {
        "schedule": schedule,
        "election": zklock.Election(client, "/elections/scheduler", id="scheduler-1"),
        "run_scheduler": write_report,
        "lock": zklock.Mutex(client, "/locks/report"),
        "catalogue": zklock.ReadWriteLock(client, "/locks/catalogue"),
        "semaphore": zklock.Semaphore(client, "/locks/upstream", 5),
        "write_report": write_report,
    }


def awaited_names(client: aio.Client) -> dict[str, Any]:
    """Return the objects that examples of `zklock.aio` use without defining them, by name."""

    async def write_report(token: int) -> None:
        assert token > 0

    async def schedule(leadership: aio.Leadership) -> None:
        leadership.check()
        await client.close()

    return {
        "schedule": schedule,
        "election": aio.Election(client, "/elections/scheduler", id="scheduler-1"),
        "run_scheduler": write_report,
        "lock": aio.Mutex(client, "/locks/report"),
        "catalogue": aio.ReadWriteLock(client, "/locks/catalogue"),
        "semaphore": aio.Semaphore(client, "/locks/upstream", 5),
        "write_report": write_report,
    }


@pytest.mark.parametrize("name", EXAMPLES.values())
def test_the_example_works(
    name: str,
    own_hosts: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    doc = inspect.getdoc(PUBLIC[name]) or ""
    assert ">>> " in doc, f"{name} has no example"
    if "zk1:2281" in doc:
        secured: Secured = request.getfixturevalue("secured")
        for file, original in secured.tls.items():
            (tmp_path / f"{file}.pem").write_text(Path(original).read_text())
        monkeypatch.chdir(tmp_path)
        doc = doc.replace("zk1:2281", secured.hosts)
    doc = doc.replace("zk1:2181,zk2:2181", own_hosts)
    names: dict[str, Any] = {
        "aio": aio,
        "asyncio": asyncio,
        "os": os,
        "threading": threading,
        "zklock": zklock,
    }
    for module in (prometheus, opentelemetry):
        names |= {one: getattr(module, one) for one in module.__all__}

    if name.startswith("zklock.testing"):
        with testing.Server() as server, zklock.Client(server.hosts) as client:
            names |= {"server": server, "client": client, "lock": zklock.Mutex(client, "/locks/report")}
            asyncio.run(check(doc, names))
        return

    async def in_a_loop() -> None:
        async with aio.Client(own_hosts) as client:
            await check(doc, names | {"client": client} | awaited_names(client))

    with zklock.Client(own_hosts) as client, zklock.Client(own_hosts) as other:
        if name.startswith("zklock.aio") or name.endswith("_aio"):
            asyncio.run(in_a_loop())
            return
        with zklock.Mutex(other, "/locks/taken"):
            names |= {"client": client, "taken": zklock.Mutex(client, "/locks/taken")}
            if name.startswith("zklock.compat"):
                names |= vars(kazoo)
            asyncio.run(check(doc, names | blocking_names(client)))
