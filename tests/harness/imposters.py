"""Fake servers: untrusted TLS servers, TLS servers that stall, and an imitation of ClickHouse Keeper."""

from __future__ import annotations

import contextlib
import datetime
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import trustme

HOST = "127.0.0.1"


def certified(authority: trustme.CA, name: str = HOST, *, expired: bool = False) -> ssl.SSLContext:
    """Return the TLS context of a server with a certificate of this authority."""
    long_ago = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    leaf = authority.issue_cert(name, not_after=long_ago if expired else None)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    leaf.configure_cert(context)
    return context


@contextmanager
def imposter(context: ssl.SSLContext | None, words: bytes = b"") -> Iterator[str]:
    """Run a server that completes the TLS handshake and then sends nothing. Yield its address.

    If `context` is None, the server does not use TLS. It sends `words` and then nothing.
    """
    with contextlib.ExitStack() as open_sockets, socket.create_server((HOST, 0)) as listener:

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                open_sockets.callback(connection.close)
                threading.Thread(target=shake_hands, args=(connection,), daemon=True).start()

        def shake_hands(connection: socket.socket) -> None:
            # The server waits until the client closes the connection.
            with contextlib.suppress(OSError):
                if context is not None:
                    with context.wrap_socket(connection, server_side=True) as encrypted:
                        while encrypted.recv(4096):
                            pass
                else:
                    connection.sendall(words)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"{HOST}:{listener.getsockname()[1]}"
        # Closing the listener does not wake a thread that is blocked in accept().
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


# The replies as ClickHouse's documentation shows them.
KEEPER_REPLIES = {
    b"srvr": (
        b"ClickHouse Keeper version: v23.8.1.1-testing-7a4a0b0edef0ad6e0aa662cd3b90c3f4acf796e7\n"
        b"Latency min/avg/max: 0/0/0\nReceived: 2\nSent : 2\nConnections: 1\nOutstanding: 0\n"
        b"Zxid: 34\nMode: leader\nNode count: 4\n"
    ),
    b"conf": b"server_id=1\ntcp_port=9181\nfour_letter_word_allow_list=conf,srvr\nsession_timeout_ms=30000\n",
}
WORD = 4
LENGTH = struct.Struct(">i")
# Offsets of the session id in a client's handshake and of the password in a server's handshake.
ASKED = slice(16, 24)
PASSWORD = slice(20, 36)
HANDSHAKE = 36


class Keeper:
    """A proxy in front of ZooKeeper that behaves towards clients like ClickHouse Keeper.

    It imitates Keeper's `KeeperTCPHandler`:

    - It ignores the session id in a client's handshake, so every connection gets a new session.
    - Its reply to the handshake has a password of zeros, and no extra byte at the end.
    - It replies to the four-letter words in `KEEPER_REPLIES`.
    """

    def __init__(self, hosts: str) -> None:
        host, _, port = hosts.rpartition(":")
        self._upstream = (host, int(port))
        self._listener = socket.create_server((HOST, 0))
        self._open: set[socket.socket] = set()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def hosts(self) -> str:
        """Address of this server."""
        return f"{HOST}:{self._listener.getsockname()[1]}"

    def cut(self) -> None:
        """Close all connections."""
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Stop the server."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            word = client.recv(WORD, socket.MSG_WAITALL)
            if said := KEEPER_REPLIES.get(word):
                client.sendall(said)
            elif len(word) == WORD:
                self._converse(client, word)
        self._open.discard(client)

    def _converse(self, client: socket.socket, length: bytes) -> None:
        with socket.create_connection(self._upstream) as server:
            asks = bytearray(client.recv(LENGTH.unpack(length)[0], socket.MSG_WAITALL))
            asks[ASKED] = bytes(8)
            server.sendall(length + asks)
            says = bytearray(
                server.recv(LENGTH.unpack(server.recv(WORD, socket.MSG_WAITALL))[0], socket.MSG_WAITALL)
            )
            says[PASSWORD] = bytes(16)
            client.sendall(LENGTH.pack(HANDSHAKE) + says[:HANDSHAKE])
            back = threading.Thread(target=_pump, args=(server, client), daemon=True)
            back.start()
            _pump(client, server)
            back.join()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    """Forward data until one of the two connections ends."""
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            sink.sendall(data)
    for one in (source, sink):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


@contextmanager
def clickhouse_keeper(hosts: str) -> Iterator[Keeper]:
    """Run a fake ClickHouse Keeper in front of the server at `hosts`."""
    keeper = Keeper(hosts)
    try:
        yield keeper
    finally:
        keeper.close()
