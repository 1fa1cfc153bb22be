"""A server that accepts encrypted connections from clients with a certificate, and has a user for SASL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from kazoo.security import make_digest_acl_credential

from harness.server import Settings, Standalone

HOST = "127.0.0.1"
USER, PASSWORD = "app", "secret"

SUPER = ("digest", "super:admin")
"""The credentials of an operator who may use every node."""

# The realm is the server's own; clients accept what it says.
JAAS = f"""Server {{
  org.apache.zookeeper.server.auth.DigestLoginModule required user_{USER}="{PASSWORD}";
}};
"""


@dataclass(frozen=True)
class Secured:
    """Such a server. Its plain port is `server.hosts`."""

    server: Standalone
    # The connect string of the port for TLS.
    hosts: str
    # What a client needs for it, in the form of the workers' command to connect.
    tls: dict[str, str]
    # An authority that the server does not know, and that has not signed the server's certificate.
    stranger: dict[str, str]
    directory: Path

    def renew(self) -> None:
        """Replace all certificates, the authority's too, in the same files. The server restarts."""
        authority = trustme.CA()
        _server(authority, self.directory)
        _client(authority, self.directory / "client")
        self.server.restart()


def _digest(credential: str) -> str:
    """User and password as access control lists have them."""
    user, _, password = credential.partition(":")
    return str(make_digest_acl_credential(user, password))


def _write_store(identity: trustme.LeafCert, store: Path) -> None:
    """Key and certificate in one file, the key in the only format that ZooKeeper reads: PKCS #8."""
    key = load_pem_private_key(identity.private_key_pem.bytes(), password=None)
    encoded = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    store.write_bytes(encoded + identity.cert_chain_pems[0].bytes())


def _client(authority: trustme.CA, directory: Path) -> dict[str, str]:
    """A client of an authority: the files that it needs."""
    directory.mkdir(exist_ok=True)
    files = {name: directory / f"{name}.pem" for name in ("ca", "cert", "key")}
    identity = authority.issue_cert("client@example.org")
    authority.cert_pem.write_to_path(str(files["ca"]))
    identity.cert_chain_pems[0].write_to_path(str(files["cert"]))
    identity.private_key_pem.write_to_path(str(files["key"]))
    return {name: str(path) for name, path in files.items()}


def _server(authority: trustme.CA, directory: Path) -> tuple[Path, Path]:
    """A server of an authority: its key, and whom it trusts."""
    store, trusted = directory / "server.pem", directory / "trusted.pem"
    _write_store(authority.issue_cert(HOST), store)
    authority.cert_pem.write_to_path(str(trusted))
    return store, trusted


def _lines(store: Path, trusted: Path) -> tuple[str, ...]:
    """The configuration of a server that has this key, and trusts these."""
    return (
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
        f"ssl.keyStore.location={store}",
        f"ssl.trustStore.location={trusted}",
        "ssl.clientAuth=need",
    )


@contextmanager
def certificates() -> Iterator[tuple[tuple[str, ...], dict[str, str]]]:
    """What makes servers accept encrypted connections: lines of their configuration, and a client's files."""
    with TemporaryDirectory(prefix="zklock-certificates-") as name:
        directory = Path(name)
        authority = trustme.CA()
        yield _lines(*_server(authority, directory)), _client(authority, directory / "client")


@contextmanager
def secured_server() -> Iterator[Secured]:
    """Start one, with its own keys."""
    with TemporaryDirectory(prefix="zklock-security-") as name:
        directory = Path(name)
        authority = trustme.CA()
        store, trusted = _server(authority, directory)
        jaas = directory / "jaas.conf"
        jaas.write_text(JAAS)
        sasl = "authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
        settings = Settings(
            secure=True,
            config=(*_lines(store, trusted), sasl),
            jvm=(
                f"-Djava.security.auth.login.config={jaas}",
                f"-Dzookeeper.DigestAuthenticationProvider.superDigest={_digest(SUPER[1])}",
            ),
        )
        with Standalone(settings) as server:
            yield Secured(
                server,
                server.secure_hosts,
                _client(authority, directory / "client"),
                _client(trustme.CA(), directory / "stranger"),
                directory,
            )
