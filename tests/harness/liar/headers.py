"""Lies in headers: wrong, repeated, reordered and unsolicited replies, and unsolicited events."""

from __future__ import annotations

from collections.abc import Iterator

from harness.liar import jute, tells
from harness.liar.frames import at
from harness.liar.server import Exchange, Lie
from harness.liar.truth import DIRECTORY

REQUESTS = ("create", "list", "watch", "beat", "delete", "close")


def _xids() -> Iterator[Lie]:
    for step in REQUESTS:
        yield at("the next xid", step, tells.with_xid(lambda xid: xid + 1))
        yield at("the xid before", step, tells.with_xid(lambda xid: xid - 1))
        yield at("the xid of pings", step, tells.with_xid(lambda _: -2))
        yield at("the xid of events", step, tells.with_xid(lambda _: -1))
        yield at("the xid of logins", step, tells.with_xid(lambda _: -4))
        yield at("the greatest xid", step, tells.with_xid(lambda _: 0x7FFF_FFFF))
        yield at("each answer twice", step, tells.twice)
        yield at("an answer to no request", step, tells.behind(lambda exchange: _to(exchange, 4711)))
        yield at("an answer to no ping", step, tells.behind(lambda exchange: _to(exchange, -2)))
        yield at("an answer to no login", step, tells.behind(lambda exchange: _to(exchange, -4)))
        yield at("an answer to no watches", step, tells.behind(lambda exchange: _to(exchange, -8)))
        yield at("the answer to the next request first", step, tells.before(_next))


def _to(exchange: Exchange, xid: int) -> bytes:
    return exchange.framed(xid=xid)


def _next(exchange: Exchange) -> bytes:
    return exchange.framed(jute.buffers(exchange.truth.children()), xid=exchange.request.xid + 1)


EVENTS = {
    "an event of an unknown kind": jute.frame(
        jute.header(-1, -1) + jute.int32(99, 3) + jute.buffer(DIRECTORY)
    ),
    "an event with an unknown state": jute.frame(
        jute.header(-1, -1) + jute.int32(4, 99) + jute.buffer(DIRECTORY)
    ),
    "an event without a path": jute.frame(jute.header(-1, -1) + jute.int32(4, 3)),
    "an event with a path that is not UTF-8": jute.event(4, b"/lock\xff\xfe"),
    "an event with a huge path": jute.frame(jute.header(-1, -1) + jute.int32(4, 3, 0x7FFF_FFFF)),
    "an event of a persistent watch": jute.event(3, f"{DIRECTORY}/nothing/below"),
    "an event without a slash": jute.event(3, "éé"),
    "an event with an empty path": jute.event(3, ""),
    "an event that the session has expired": jute.frame(
        jute.header(-1, -1) + jute.int32(-1, -112) + jute.buffer("")
    ),
}


def _events() -> Iterator[Lie]:
    for name, data in EVENTS.items():
        for step in ("list", "watch"):
            yield at(name, step, tells.behind(lambda _, data=data: data))  # type: ignore[misc]


def lies() -> list[Lie]:
    """Return all lies of this module."""
    return [*_xids(), *_events()]
