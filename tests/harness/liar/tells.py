"""Building blocks of lies: functions that answer a request wrongly."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable

from harness.liar import jute
from harness.liar.server import Tell, Turn


def raw(data: bytes) -> Tell:
    """Send these bytes instead of a reply, and then nothing more."""

    async def tell(turn: Turn) -> None:
        await turn.write(data)
        await turn.silence()

    return tell


def body(data: bytes, *, proves: bool = False) -> Tell:
    """Reply with this body without executing the request. With `proves`, a client can take it as a proof."""

    async def tell(turn: Turn) -> None:
        if proves:
            turn.keep(0, data)
        await turn.reply(data)

    return tell


def error(code: int, *, done: bool = False) -> Tell:
    """Reply with an error. The request is executed only with `done`."""

    async def tell(turn: Turn) -> None:
        if done:
            turn.carry_out()
        await turn.reply(error=code)

    return tell


def altered(alter: Callable[[bytes], bytes], *, harmless: bool = False) -> Tell:
    """Send the true reply with an altered body. With `harmless`, its content is still clear and true."""

    async def tell(turn: Turn) -> None:
        code, truth = turn.carry_out()
        if harmless:
            turn.keep(code, truth)
        await turn.reply(alter(truth), error=code)

    return tell


def with_xid(number: Callable[[int], int]) -> Tell:
    """Send the true reply as a reply to another request."""

    async def tell(turn: Turn) -> None:
        code, truth = turn.carry_out()
        await turn.reply(truth, error=code, xid=number(turn.request.xid))

    return tell


def before(data: Callable[[Turn], bytes]) -> Tell:
    """Send unsolicited data before the true reply."""

    async def tell(turn: Turn) -> None:
        await turn.write(data(turn))
        await turn.honest()

    return tell


def behind(data: Callable[[Turn], bytes], *, pause: float = 0.0) -> Tell:
    """Send unsolicited data after the true reply."""

    async def tell(turn: Turn) -> None:
        await turn.honest()
        await asyncio.sleep(pause)
        await turn.write(data(turn))

    return tell


async def twice(turn: Turn) -> None:
    """Send the true reply twice."""
    code, truth = turn.carry_out()
    turn.keep(code, truth)
    await turn.reply(truth, error=code)
    await turn.reply(truth, error=code)


def part(share: float) -> Tell:
    """Send the first part of the true reply, then cut the connection."""

    async def tell(turn: Turn) -> None:
        code, truth = turn.carry_out()
        whole = turn.framed(truth, error=code)
        await turn.write(whole[: int(len(whole) * share)])
        turn.hang_up()

    return tell


async def hang_up(turn: Turn) -> None:
    """Cut the connection without executing the request."""
    turn.hang_up()


async def do_and_hang_up(turn: Turn) -> None:
    """Execute the request, then cut the connection."""
    turn.carry_out()
    turn.hang_up()


async def answer_and_hang_up(turn: Turn) -> None:
    """Send the true reply, then cut the connection."""
    await turn.honest()
    turn.hang_up()


async def silence(turn: Turn) -> None:
    """Ignore this request and all later ones on this connection."""
    await turn.silence()


async def do_and_be_silent(turn: Turn) -> None:
    """Execute the request, but send nothing more on this connection."""
    turn.carry_out()
    await turn.silence()


async def swallow(turn: Turn) -> None:
    """Ignore this request. Later ones are answered."""


def nth_byte() -> Tell:
    """Cut the first connection after one byte of the reply, the second after two bytes, and so on."""
    count = 0

    async def tell(turn: Turn) -> None:
        nonlocal count
        count += 1
        code, truth = turn.carry_out()
        await turn.write(turn.framed(truth, error=code)[:count])
        turn.hang_up()

    return tell


def flood(data: Callable[[Turn], bytes], seconds: float) -> Tell:
    """Send the true reply, then repeat this data as fast as the client reads."""

    async def tell(turn: Turn) -> None:
        await turn.honest()
        piece = data(turn)
        many = piece * max(1, 16_384 // len(piece))
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            await turn.write(many)
            await asyncio.sleep(0)

    return tell


def slow_frame(size: int, rate: int, seconds: float) -> Tell:
    """Announce a frame of this size and send zeros at `rate` bytes per second; then send nothing."""

    async def tell(turn: Turn) -> None:
        head = b"" if turn.request.op == "hello" else jute.header(turn.request.xid, turn.truth.zxid)
        await turn.write(struct.pack(">i", size) + head)
        piece = bytes(rate // 50)
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            await turn.write(piece)
            await asyncio.sleep(0.02)
        await turn.silence()

    return tell


def children(names: Callable[[], list[bytes]], *, own: bool = True) -> Tell:
    """Reply with a listing of these names, after the true names or instead of them."""

    async def tell(turn: Turn) -> None:
        true = [name.encode() for name in turn.truth.children()] if own else []
        told = [*true, *names()]
        turn.truth.shown(told)
        await turn.reply(jute.buffers(told) + (b"" if turn.request.kind == 8 else jute.stat(1, 0)))

    return tell
