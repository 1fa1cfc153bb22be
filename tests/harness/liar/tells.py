"""How lies are told."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable

from harness.liar import jute
from harness.liar.server import Tell, Turn


def raw(data: bytes) -> Tell:
    """These bytes instead of an answer, and then nothing more."""

    async def tell(turn: Turn) -> None:
        await turn.write(data)
        await turn.silence()

    return tell


def body(data: bytes, *, proves: bool = False) -> Tell:
    """A well-formed answer with this body; nothing is done. `proves`: a client may take it for a proof."""

    async def tell(turn: Turn) -> None:
        if proves:
            turn.keep(0, data)
        await turn.reply(data)

    return tell


def error(code: int, *, done: bool = False) -> Tell:
    """An error; nothing is done, unless it is."""

    async def tell(turn: Turn) -> None:
        if done:
            turn.carry_out()
        await turn.reply(error=code)

    return tell


def altered(alter: Callable[[bytes], bytes], *, harmless: bool = False) -> Tell:
    """The truth with its body altered. Harmless: what it says is still clear, and true."""

    async def tell(turn: Turn) -> None:
        code, truth = turn.carry_out()
        if harmless:
            turn.keep(code, truth)
        await turn.reply(alter(truth), error=code)

    return tell


def with_xid(number: Callable[[int], int]) -> Tell:
    """The truth, as an answer to another request."""

    async def tell(turn: Turn) -> None:
        code, truth = turn.carry_out()
        await turn.reply(truth, error=code, xid=number(turn.request.xid))

    return tell


def before(data: Callable[[Turn], bytes]) -> Tell:
    """The truth, and something that nobody asked for before it."""

    async def tell(turn: Turn) -> None:
        await turn.write(data(turn))
        await turn.honest()

    return tell


def behind(data: Callable[[Turn], bytes], *, pause: float = 0.0) -> Tell:
    """The truth, and something that nobody asked for behind it."""

    async def tell(turn: Turn) -> None:
        await turn.honest()
        await asyncio.sleep(pause)
        await turn.write(data(turn))

    return tell


async def twice(turn: Turn) -> None:
    """The truth, and the same answer once more."""
    code, truth = turn.carry_out()
    turn.keep(code, truth)
    await turn.reply(truth, error=code)
    await turn.reply(truth, error=code)


def part(share: float) -> Tell:
    """The first part of the truth; then the connection ends."""

    async def tell(turn: Turn) -> None:
        code, truth = turn.carry_out()
        whole = turn.framed(truth, error=code)
        await turn.write(whole[: int(len(whole) * share)])
        turn.hang_up()

    return tell


async def hang_up(turn: Turn) -> None:
    """Nothing is done, and the connection ends."""
    turn.hang_up()


async def do_and_hang_up(turn: Turn) -> None:
    """What was asked for is done, and the connection ends."""
    turn.carry_out()
    turn.hang_up()


async def answer_and_hang_up(turn: Turn) -> None:
    """The truth; then the connection ends."""
    await turn.honest()
    turn.hang_up()


async def silence(turn: Turn) -> None:
    """Nothing is done or said, now or later on this connection."""
    await turn.silence()


async def do_and_be_silent(turn: Turn) -> None:
    """What was asked for is done; nothing is said, now or later on this connection."""
    turn.carry_out()
    await turn.silence()


async def swallow(turn: Turn) -> None:
    """Nothing is done or said; what comes next is answered."""


def nth_byte() -> Tell:
    """The first connection ends after one byte of the answer, the second after two, and so on."""
    count = 0

    async def tell(turn: Turn) -> None:
        nonlocal count
        count += 1
        code, truth = turn.carry_out()
        await turn.write(turn.framed(truth, error=code)[:count])
        turn.hang_up()

    return tell


def flood(data: Callable[[Turn], bytes], seconds: float) -> Tell:
    """The truth, and behind it the same again and again, as fast as the client reads."""

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
    """A frame of that size is announced, and zeros come at that rate; then nothing more."""

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
    """A listing with these names, behind the true ones or instead of them."""

    async def tell(turn: Turn) -> None:
        true = [name.encode() for name in turn.truth.children()] if own else []
        told = [*true, *names()]
        turn.truth.shown(told)
        await turn.reply(jute.buffers(told) + (b"" if turn.request.kind == 8 else jute.stat(1, 0)))

    return tell
