"""Lies about connections: closed at every step or after every byte, silent, or with replies byte by byte."""

from __future__ import annotations

from collections.abc import Iterator

from harness.liar import tells
from harness.liar.frames import STEPS, at
from harness.liar.server import ACCEPT, Exchange, Lie


def lies() -> list[Lie]:
    """Return all lies of this module."""
    return [*_ends(), *_silences(), *_drips()]


def _ends() -> Iterator[Lie]:
    yield Lie("an end", ACCEPT, tells.hang_up)
    for step in (*STEPS, "ping"):
        yield at("an end", step, tells.hang_up)
        yield at("a cut after the request was executed", step, tells.do_and_hang_up)
        yield at("a cut after the answer", step, tells.answer_and_hang_up)
        yield at("a cut in the length", step, tells.part(0.05))
        yield at("a cut in the answer", step, tells.part(0.7))
        yield at("a cut after each byte", step, tells.nth_byte())
    yield at("a cut at the second time", "beat", tells.hang_up, after=1)


def _silences() -> Iterator[Lie]:
    yield Lie("silence", ACCEPT, tells.silence)
    for step in (*STEPS, "ping"):
        yield at("silence", step, tells.silence)
        yield at("silence after the request was executed", step, tells.do_and_be_silent)
    for step in ("create", "list", "watch", "beat", "delete", "close", "ping"):
        yield at("no answer to this request only", step, tells.swallow)


def _drips() -> Iterator[Lie]:
    yield at("a true reply, byte by byte", "list", _honest, drip=0.0, harmless=True)
    yield at("a true reply, byte by byte", "watch", _honest, drip=0.0)
    yield at("a true reply, a byte every 50 ms", "hello", _honest, drip=0.05)


async def _honest(exchange: Exchange) -> None:
    await exchange.honest()
