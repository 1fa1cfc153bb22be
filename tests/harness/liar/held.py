"""Lies about heartbeats, deletions and watches, to a client that holds the lock or waits for it."""

from __future__ import annotations

from collections.abc import Iterator

from harness.liar import jute, tells
from harness.liar.errors import CODES
from harness.liar.frames import at
from harness.liar.server import Exchange, Lie, Tell


def lies() -> list[Lie]:
    """Return all lies of this module."""
    return [*_heartbeats(), *_deletes(), *_watches()]


def _heartbeats() -> Iterator[Lie]:
    for name, code in CODES.items():
        failed = jute.int32(-1) + b"\0" + jute.int32(code, code) + jute.int32(-1) + b"\1" + jute.int32(-1)
        # A server checks that a node exists before it checks access, so NOAUTH proves that the node exists.
        yield at(f"a heartbeat that fails with {name}", "beat", tells.body(failed, proves=name == "NOAUTH"))
        yield at(f"the second heartbeat is {name}", "beat", tells.error(code), after=1)
    yield at("silence from the second heartbeat on", "beat", tells.silence, after=1)
    yield at("the second heartbeat has no answer", "beat", tells.swallow, after=1)
    yield at("a reset at the second heartbeat", "beat", tells.hang_up, after=1)
    yield at("the second heartbeat is garbage", "beat", tells.raw(b"\xff" * 64), after=1)


def _deletes() -> Iterator[Lie]:
    yield at("a false success of a delete", "delete", tells.body(b""))
    for name in ("NONODE", "NOAUTH", "NOTEMPTY", "CONNECTIONLOSS", "an unknown error"):
        yield at(
            f"a delete that is executed but fails with {name}", "delete", tells.error(CODES[name], done=True)
        )


def _about_own(kind: int) -> Tell:
    """Send an event about the client's own node, although the node is unchanged."""
    return tells.behind(lambda exchange: jute.event(kind, _checked(exchange)))


def _checked(exchange: Exchange) -> str:
    reader = jute.Reader(exchange.request.payload)
    reader.int32(), reader.flag(), reader.int32()
    return reader.text()


def watched(exchange: Exchange) -> str:
    """Return the path in a request that sets a watch."""
    return jute.Reader(exchange.request.payload).text()


def _watches() -> Iterator[Lie]:
    for name, kind in {"created": 1, "deleted": 2, "changed": 3, "children changed": 4}.items():
        yield at(f"its own node {name}", "beat", _about_own(kind))
        if kind != 2:
            event = tells.behind(lambda exchange, kind=kind: jute.event(kind, watched(exchange)))  # type: ignore[misc]
            yield at(f"the node before it {name}", "watch", event)
