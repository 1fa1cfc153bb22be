"""Lies to a client that logs in with SASL."""

from __future__ import annotations

from collections.abc import Iterator

from harness.liar import jute, tells
from harness.liar.errors import CODES
from harness.liar.server import Lie

CHALLENGES = {
    "a realm that never ends": b'realm="\\x\\y",nonce="abc",qop="auth",charset=utf-8,algorithm=md5-sess',
    "a realm of half a letter": 'nonce="n",realm="\\é",qop="auth",algorithm=md5-sess'.encode(),
    "an open quotation": b'realm="abc',
    "a backslash at the end": b'realm="\\',
    "nothing": b"",
    "no nonce": b'realm="x",qop="auth",algorithm=md5-sess',
    "noise": bytes(range(256)),
    "commas": b"," * 2000,
    "an unknown algorithm": b'realm="x",nonce="abc",qop="auth",algorithm=rot13',
    "a mebibyte": b'realm="' + b"x" * (1 << 20) + b'",nonce="abc",qop="auth",algorithm=md5-sess',
    "ten thousand realms": b'realm="x",' * 10_000 + b'nonce="abc",qop="auth",algorithm=md5-sess',
    "an unrequested success": b"rspauth=00000000000000000000000000000000",
    "control characters": b'realm="\x1b[31m\r\n",nonce="\x00",qop="auth",algorithm=md5-sess',
    "the same challenge repeatedly": b'realm="x",nonce="abc",qop="auth",charset=utf-8,algorithm=md5-sess',
}


def _logins() -> Iterator[Lie]:
    login = {"sasl": ("app", "secret")}
    for name, challenge in CHALLENGES.items():
        yield Lie(f"a challenge: {name}", "sasl", tells.body(jute.buffer(challenge)), options=login)
    yield Lie(
        "no challenge although the client asked for SASL", "sasl", tells.body(jute.int32(-1)), options=login
    )
    yield Lie("a challenge of a huge length", "sasl", tells.body(jute.int32(0x7FFF_FFFF)), options=login)
    yield Lie("silence at a login", "sasl", tells.silence, options=login)
    yield Lie("an end at a login", "sasl", tells.hang_up, options=login)
    for name in ("an unknown error", "UNIMPLEMENTED", "AUTHFAILED", "SESSIONEXPIRED"):
        yield Lie(f"{name} at a login", "sasl", tells.error(CODES[name]), options=login)


def lies() -> list[Lie]:
    """Return all lies of this module."""
    return list(_logins())
