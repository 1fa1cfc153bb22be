"""Lies about sizes: frames of extreme length, some of which are only announced and not sent."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from harness.liar import jute, tells
from harness.liar.frames import at
from harness.liar.server import Exchange, Lie, Tell

MILLION = 1_000_000


def lies() -> list[Lie]:
    """Return all lies of this module."""
    return [*_frames(), *_listings()]


def _frames() -> Iterator[Lie]:
    for step in ("hello", "list", "beat"):
        yield at("417 MB, announced and sent slowly", step, tells.slow_frame(417_000_000, 40_000_000, 2.5))


@cache
def _names(count: int) -> bytes:
    name = b"_c_%032x-lock-%010d"
    with_length = jute.int32(len(name % (0, 0))) + name
    return jute.int32(count) + b"".join([with_length % (n, n) for n in range(900, 900 + count)])


def _many(count: int) -> Tell:
    # Create the names in advance. This takes a second, and it blocks all servers that run on this thread.
    names = _names(count)

    async def tell(exchange: Exchange) -> None:
        exchange.truth.shown([b"-lock-0000000900"])
        await exchange.reply(names + (b"" if exchange.request.kind == 8 else jute.stat(1, 0)))

    return tell


def _listings() -> Iterator[Lie]:
    yield at("a million children", "list", _many(MILLION), large=True)
    yield at("200,000 children", "list", _many(200_000), large=True)
    yield at("60,000 children", "list", _many(60_000))
