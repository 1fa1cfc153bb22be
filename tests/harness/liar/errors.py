"""Lies about success: unknown errors, errors that do not fit the request, and false successes."""

from __future__ import annotations

from collections.abc import Iterator

from harness.liar import tells
from harness.liar.frames import STEPS, at
from harness.liar.server import ANYTHING, Lie

CODES = {
    "an unknown error": -9999,
    "an error above zero": 5,
    "the least error": -0x8000_0000,
    "SYSTEMERROR": -1,
    "CONNECTIONLOSS": -4,
    "MARSHALLINGERROR": -5,
    "UNIMPLEMENTED": -6,
    "OPERATIONTIMEOUT": -7,
    "APIERROR": -100,
    "NONODE": -101,
    "NOAUTH": -102,
    "BADVERSION": -103,
    "NODEEXISTS": -110,
    "NOTEMPTY": -111,
    "SESSIONEXPIRED": -112,
    "INVALIDCALLBACK": -113,
    "AUTHFAILED": -115,
    "SESSIONMOVED": -118,
    "THROTTLEDOP": -127,
}


def _errors() -> Iterator[Lie]:
    for name, code in CODES.items():
        for step in (*STEPS[1:], ANYTHING):
            yield at(name, step, tells.error(code))
    for name in ("CONNECTIONLOSS", "SESSIONEXPIRED", "THROTTLEDOP", "NONODE"):
        yield at(f"{name} although the request was executed", "create", tells.error(CODES[name], done=True))
    yield Lie("a success to everything", ANYTHING, tells.body(b""))
    yield Lie("a success to everything, with zeros", ANYTHING, tells.body(bytes(128)))


def lies() -> list[Lie]:
    """Return all lies of this module."""
    return list(_errors())
