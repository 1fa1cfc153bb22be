"""Servers that clients with TLS must not trust, or that never get so far."""

from __future__ import annotations

import contextlib
import datetime
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import trustme

HOST = "127.0.0.1"


def certified(authority: trustme.CA, name: str = HOST, *, expired: bool = False) -> ssl.SSLContext:
    """What a server needs to show a certificate of an authority."""
    long_ago = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    leaf = authority.issue_cert(name, not_after=long_ago if expired else None)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    leaf.configure_cert(context)
    return context


@contextmanager
def imposter(context: ssl.SSLContext | None, words: bytes = b"") -> Iterator[str]:
    """A server that offers TLS, and says nothing then; without a context it only says these words.

    Yields its address.
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
            # The client is expected to end it.
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
        # Closing alone does not wake a thread that accepts.
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
