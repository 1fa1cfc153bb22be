"""Lies about contenders: a client that lists the contenders receives hostile node data."""

from __future__ import annotations

from collections.abc import Iterator

from harness.liar import jute
from harness.liar.server import ANYTHING, Exchange, Lie, Tell
from harness.liar.truth import DIRECTORY, Node

MANY = 20
"""Number of invented contenders. With a megabyte of data each, a reply exceeds the maximum frame size."""

HOSTILE = {
    "a megabyte of JSON": b'{"host":"' + b"x" * 1_000_000 + b'","pid":1}',
    "deep JSON": b"[" * 1_000_000,
    "an escape in every field": b'{"host":"\\u001b[31m\\u0000\\n","pid":1,"language":"\\u001b]0;x\\u0007",'
    b'"label":"\\u202e\\r","since":0}',
    "numbers without end": b'{"host":"h","pid":' + b"9" * 100_000 + b',"since":1e999999}',
    "60,000 keys": b"{" + b",".join(b'"k%d":0' % n for n in range(60_000)) + b"}",
    "bytes that are not UTF-8": b'{"host":"\xff\xfe"}',
}

LEGIBLE = ("an escape in every field", "bytes that are not UTF-8")
"""With these data, the client must still receive its answer."""


def lies() -> list[Lie]:
    """Return all lies of this module."""
    return list(_data())


def _data() -> Iterator[Lie]:
    for name, data in HOSTILE.items():
        harmless = name in LEGIBLE
        yield Lie(f"contenders with {name}", ANYTHING, _crowd(data), curious=True, harmless=harmless)
    large = HOSTILE["a megabyte of JSON"]
    yield Lie(
        "contenders with more data than their Stat says",
        ANYTHING,
        _crowd(large, told=10),
        curious=True,
        large=True,
    )
    yield Lie(
        "contenders with data of a negative size", ANYTHING, _crowd(large, told=-1), curious=True, large=True
    )


def _crowd(data: bytes, *, told: int | None = None) -> Tell:
    """Add contenders with this data to the tree, and reply truthfully.

    If `told` is given, the Stat of an added contender claims that its data has this size.
    """

    async def tell(exchange: Exchange) -> None:
        for number in range(MANY):
            path = f"{DIRECTORY}/_c_{number}-lock-{900 + number:010}"
            exchange.truth.nodes.setdefault(path, Node(0x77, 900, data))
        if exchange.request.op != "exists" or told is None:
            return await exchange.honest()
        node = exchange.truth.nodes.get(jute.Reader(exchange.request.payload).text())
        if node is None or node.owner != 0x77:
            return await exchange.honest()
        return await exchange.reply(jute.stat(node.czxid, node.owner, told))

    return tell
