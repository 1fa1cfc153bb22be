"""Lies about sessions, owners, transactions and children."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from harness.liar import jute, tells
from harness.liar.frames import at
from harness.liar.server import Exchange, Lie, Tell, welcome

TIMEOUTS = {"0": 0, "1 ms": 1, "-1 ms": -1, "24 days": 0x7FFF_FFFF, "the least": -0x8000_0000}


def _time_outs() -> Iterator[Lie]:
    for name, timeout in TIMEOUTS.items():

        async def tell(exchange: Exchange, timeout: int = timeout) -> None:
            exchange.execute()
            exchange.connection.timeout = timeout / 1000
            await exchange.write(jute.frame(welcome(timeout, exchange.connection.session)))

        yield Lie(f"a session timeout of {name}", "hello", tell)


def _ids() -> Iterator[Lie]:
    numbers = itertools.count(0x5000)

    async def nobody(exchange: Exchange) -> None:
        await exchange.write(jute.frame(welcome(0, 0)))

    async def zero_with_time(exchange: Exchange) -> None:
        await exchange.write(jute.frame(welcome(3000, 0)))

    async def another_each_time(exchange: Exchange) -> None:
        exchange.execute()
        exchange.connection.known_as = next(numbers)
        await exchange.write(jute.frame(welcome(3000, exchange.connection.known_as)))

    yield Lie("an expired session", "hello", nobody)
    yield Lie("the session 0", "hello", zero_with_time)
    yield Lie("another session on each connection", "hello", another_each_time)
    yield Lie("another session after a reconnection", "hello", another_each_time, after=1, cuts=0.8)
    yield Lie("no session after a reconnection", "hello", nobody, after=1, cuts=0.8)


def _stat(change: Callable[[int, int], tuple[int, int]]) -> Tell:
    """Create the node, and reply with a changed czxid and owner."""

    async def tell(exchange: Exchange) -> None:
        code, body = exchange.execute()
        if code:
            return await exchange.reply(error=code)
        path = jute.Reader(body).text()
        node = exchange.truth.nodes[path]
        return await exchange.reply(jute.buffer(path) + jute.stat(*change(node.czxid, node.owner)))

    return tell


def _owners() -> Iterator[Lie]:
    yield at("a foreign owner", "create", _stat(lambda czxid, owner: (czxid, owner + 1)))
    yield at("no owner", "create", _stat(lambda czxid, _: (czxid, 0)))
    yield at("the owner -1", "create", _stat(lambda czxid, _: (czxid, -1)))
    yield at("the czxid 0", "create", _stat(lambda _, owner: (0, owner)))
    yield at("a czxid below 0", "create", _stat(lambda _, owner: (-7, owner)))
    yield at("the least czxid", "create", _stat(lambda _, owner: (-(1 << 63), owner)))


NAMES = {
    "control characters": [b"\x1b]0;owned\x07\x1b[2J_c_1-lock-0000000900", b"a\nb\r\x00-0000000901"],
    "terminal sequences in a queue": [b"\x1b[31m-lock-0000000%03d" % n for n in range(900, 910)],
    "invalid UTF-8": [b"\xff\xfe\xc0\xaf-0000000900", b"\xed\xa0\x80"],
    "empty names": [b"", b"", b""],
    "slashes": [b"../../_c_1-lock-0000000900", b"/", b".."],
    "invalid sequence numbers": [b"_c_1-lock--000000001", b"99999999999999999999", b"-lock-+000000900"],
    "the last number": [b"_c_1-lock-2147483647"],
    "a number beyond": [b"_c_1-lock-9999999999"],
    "long names": [b"x" * 60_000 + b"-lock-0000000900"],
    "the same name repeatedly": [b"_c_1-lock-0000000900"] * 10_000,
    "ten thousand others": [b"_c_%d-lock-%010d" % (n, n + 900) for n in range(10_000)],
    "right-to-left": ["\u202e-lock-0000000900".encode(), "\u2028-0000000901".encode()],
}


def _children() -> Iterator[Lie]:
    for name, names in NAMES.items():
        yield at(f"children with {name}", "list", tells.children(lambda names=names: names))  # type: ignore[misc]
    yield at("nobody", "list", tells.children(list, own=False))
    yield at("only others", "list", tells.children(lambda: [b"_c_1-lock-0000000900"], own=False))
    yield at("more each time", "list", tells.children(_more_and_more()))


def _more_and_more() -> Callable[[], list[bytes]]:
    rounds = itertools.count(1)
    return lambda: [b"_c_%d-lock-%010d" % (n, n) for n in range(900, 900 + 1000 * next(rounds))]


def lies() -> list[Lie]:
    """Return all lies of this module."""
    return [*_time_outs(), *_ids(), *_owners(), *_children()]
