"""The embedded server's four-letter words have the format that tools expect from the real server."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError

from harness.embedded import SERVERS, new_server
from harness.server import Settings, Standalone

SETTINGS = Settings()
PATIENCE = 2.0

CLIENT = re.compile(
    r"^ /((?:\d{1,3}\.){3}\d{1,3}:\d+)\[\d+\]"
    r"\(queued=(\d+),recved=(\d+),sent=(\d+),sid=(0x[A-Za-z0-9]+),lop=(\w+),est=(\d+),to=(\d+),"
    r"lcxid=(0x[A-Za-z0-9]+),lzxid=(0x[A-Za-z0-9]+),lresp=(\d+),llat=(\d+),minlat=(\d+),avglat=(\d+),maxlat=(\d+)\)$"
)
"""The regular expression that go-zookeeper's `FLWCons` uses for the line of a client with a session."""

VARIES = re.compile(r":\d+(?=\[)|(?<=sid=0x)\w+|(?<=est=)\d+|(?<=lzxid=0x)\w+|(?<=lresp=)\d+|(?<=lat=)\d+")
"""Values that differ between two servers: ports, session ids, times and transaction ids (zxids)."""


@pytest.fixture
def servers() -> Iterator[list[Standalone]]:
    """Provide a real server and an embedded one."""
    with ExitStack() as stack:
        yield [stack.enter_context(new_server(SETTINGS, kind=kind)) for kind in SERVERS]


def lines(server: Standalone, word: str) -> list[str]:
    """Return the sorted lines of the reply to a four-letter word, with server-specific values masked."""
    text = server.four_letter(word)
    assert text.endswith("\n"), text
    return sorted(VARIES.sub("*", line) for line in text.splitlines())


def cons_lines(server: Standalone, expected: list[list[str]] | None = None) -> list[list[str]]:
    """Return the output of the four-letter word `cons` about a client, after each of the client's requests.

    A real server can count a reply shortly after sending it. If the output differs, try again for a while.
    """
    cons_lines: list[list[str]] = []

    def tell(word: str = "cons") -> None:
        deadline = time.monotonic() + PATIENCE
        said = lines(server, word)
        while expected and said != expected[len(cons_lines)] and time.monotonic() < deadline:
            said = lines(server, word)
        cons_lines.append(said)

    tell()
    client = KazooClient(hosts=server.hosts, timeout=20.0)
    client.start()
    tell()
    client.create("/a", b"x")
    tell()
    with pytest.raises(NodeExistsError):
        client.create("/a")
    tell()
    with pytest.raises(NoNodeError):
        client.get("/b")
    tell()
    requests: tuple[Callable[[], object], ...] = (
        lambda: client.exists("/b"),
        lambda: client.get("/a"),
        lambda: client.set("/a", b"y"),
        lambda: client.get_children("/a"),
        lambda: client.get_acls("/a"),
        lambda: client.set_acls("/a", client.get_acls("/a")[0]),
        lambda: client.sync("/a"),
        lambda: client.transaction().commit(),
        lambda: client.add_auth("digest", "ann:secret"),
        lambda: client.delete("/a"),
    )
    for request in requests:
        request()
        tell()
    for line in server.four_letter("cons").splitlines():
        assert CLIENT.match(line) or "sid=" not in line, line
    client.stop()
    client.close()
    return cons_lines


@pytest.mark.timeout(60)
def test_both_servers_describe_clients_the_same(servers: list[Standalone]) -> None:
    real, embedded = servers
    ours = cons_lines(embedded)
    assert cons_lines(real, ours) == ours
    operations = set(re.findall(r"lop=(\w+)", str(ours)))
    assert operations == {
        *["SESS", "CREA", "NA", "GETD", "EXIS", "SETD", "GETC", "GETA", "SETA", "SYNC", "MULT", "DELE"]
    }
