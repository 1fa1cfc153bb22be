"""Building blocks of lies: functions that answer a request wrongly."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable

from harness.liar import jute
from harness.liar.server import Exchange, Tell


def raw(data: bytes) -> Tell:
    """Send these bytes instead of a reply, and then nothing more."""

    async def tell(exchange: Exchange) -> None:
        await exchange.write(data)
        await exchange.silence()

    return tell


def body(data: bytes, *, proves: bool = False) -> Tell:
    """Reply with this body without executing the request.

    With `proves`, the reply proves to the client that its session is alive.
    """

    async def tell(exchange: Exchange) -> None:
        if proves:
            exchange.keep(0, data)
        await exchange.reply(data)

    return tell


def error(code: int, *, done: bool = False) -> Tell:
    """Reply with an error. The request is executed only with `done`."""

    async def tell(exchange: Exchange) -> None:
        if done:
            exchange.execute()
        await exchange.reply(error=code)

    return tell


def altered(alter: Callable[[bytes], bytes], *, harmless: bool = False) -> Tell:
    """Send the true reply with an altered body. With `harmless`, the reply still has the true content."""

    async def tell(exchange: Exchange) -> None:
        code, truth = exchange.execute()
        if harmless:
            exchange.keep(code, truth)
        await exchange.reply(alter(truth), error=code)

    return tell


def with_xid(number: Callable[[int], int]) -> Tell:
    """Send the true reply as a reply to another request."""

    async def tell(exchange: Exchange) -> None:
        code, truth = exchange.execute()
        await exchange.reply(truth, error=code, xid=number(exchange.request.xid))

    return tell


def before(data: Callable[[Exchange], bytes]) -> Tell:
    """Send unsolicited data before the true reply."""

    async def tell(exchange: Exchange) -> None:
        await exchange.write(data(exchange))
        await exchange.honest()

    return tell


def behind(data: Callable[[Exchange], bytes], *, pause: float = 0.0) -> Tell:
    """Send unsolicited data after the true reply."""

    async def tell(exchange: Exchange) -> None:
        await exchange.honest()
        await asyncio.sleep(pause)
        await exchange.write(data(exchange))

    return tell


async def twice(exchange: Exchange) -> None:
    """Send the true reply twice."""
    code, truth = exchange.execute()
    exchange.keep(code, truth)
    await exchange.reply(truth, error=code)
    await exchange.reply(truth, error=code)


def part(share: float) -> Tell:
    """Send the first part of the true reply, then cut the connection."""

    async def tell(exchange: Exchange) -> None:
        code, truth = exchange.execute()
        whole = exchange.framed(truth, error=code)
        await exchange.write(whole[: int(len(whole) * share)])
        exchange.hang_up()

    return tell


async def hang_up(exchange: Exchange) -> None:
    """Cut the connection without executing the request."""
    exchange.hang_up()


async def do_and_hang_up(exchange: Exchange) -> None:
    """Execute the request, then cut the connection."""
    exchange.execute()
    exchange.hang_up()


async def answer_and_hang_up(exchange: Exchange) -> None:
    """Send the true reply, then cut the connection."""
    await exchange.honest()
    exchange.hang_up()


async def silence(exchange: Exchange) -> None:
    """Ignore this request and all later ones on this connection."""
    await exchange.silence()


async def do_and_be_silent(exchange: Exchange) -> None:
    """Execute the request, but send nothing more on this connection."""
    exchange.execute()
    await exchange.silence()


async def swallow(exchange: Exchange) -> None:
    """Ignore this request. Later ones are answered."""


def nth_byte() -> Tell:
    """Cut the first connection after one byte of the reply, the second after two bytes, and so on."""
    count = 0

    async def tell(exchange: Exchange) -> None:
        nonlocal count
        count += 1
        code, truth = exchange.execute()
        await exchange.write(exchange.framed(truth, error=code)[:count])
        exchange.hang_up()

    return tell


def flood(data: Callable[[Exchange], bytes], seconds: float) -> Tell:
    """Send the true reply, then repeat this data as fast as the client reads."""

    async def tell(exchange: Exchange) -> None:
        await exchange.honest()
        piece = data(exchange)
        many = piece * max(1, 16_384 // len(piece))
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            await exchange.write(many)
            await asyncio.sleep(0)

    return tell


def slow_frame(size: int, rate: int, seconds: float) -> Tell:
    """Announce a frame of this size and send zeros at `rate` bytes per second; then send nothing."""

    async def tell(exchange: Exchange) -> None:
        head = (
            b"" if exchange.request.op == "hello" else jute.header(exchange.request.xid, exchange.truth.zxid)
        )
        await exchange.write(struct.pack(">i", size) + head)
        piece = bytes(rate // 50)
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            await exchange.write(piece)
            await asyncio.sleep(0.02)
        await exchange.silence()

    return tell


def children(names: Callable[[], list[bytes]], *, own: bool = True) -> Tell:
    """Reply with a listing of these names. With `own`, the true names come first."""

    async def tell(exchange: Exchange) -> None:
        true = [name.encode() for name in exchange.truth.children()] if own else []
        told = [*true, *names()]
        exchange.truth.shown(told)
        await exchange.reply(jute.buffers(told) + (b"" if exchange.request.kind == 8 else jute.stat(1, 0)))

    return tell
