"""A server that requires a client certificate for encrypted connections, and has a user for SASL."""

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
"""Credentials of an operator with access to every node."""

# The server chooses the realm, and clients accept it.
JAAS = f"""Server {{
  org.apache.zookeeper.server.auth.DigestLoginModule required user_{USER}="{PASSWORD}";
}};
"""


@dataclass(frozen=True)
class Secured:
    """A secured server. `server.hosts` is its plain port."""

    server: Standalone
    # Connect string of the TLS port.
    hosts: str
    # Files that a client needs, in the form that the workers' `connect` command takes.
    tls: dict[str, str]
    # The same files from another authority. The server does not trust it, and it did not sign the server's
    # certificate.
    stranger: dict[str, str]
    directory: Path

    def renew(self) -> None:
        """Restart the server with new certificates, including the authority's, in the same files."""
        authority = trustme.CA()
        _server(authority, self.directory)
        _client(authority, self.directory / "client")
        self.server.restart()


def _digest(credential: str) -> str:
    """Return user and password as they appear in access control lists."""
    user, _, password = credential.partition(":")
    return str(make_digest_acl_credential(user, password))


def _write_store(identity: trustme.LeafCert, store: Path) -> None:
    """Write key and certificate to one file. ZooKeeper reads keys only as PKCS #8."""
    key = load_pem_private_key(identity.private_key_pem.bytes(), password=None)
    encoded = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    store.write_bytes(encoded + identity.cert_chain_pems[0].bytes())


def _client(authority: trustme.CA, directory: Path) -> dict[str, str]:
    """Issue a client certificate. Return the paths of the files that the client needs."""
    directory.mkdir(exist_ok=True)
    files = {name: directory / f"{name}.pem" for name in ("ca", "cert", "key")}
    identity = authority.issue_cert("client@example.org")
    authority.cert_pem.write_to_path(str(files["ca"]))
    identity.cert_chain_pems[0].write_to_path(str(files["cert"]))
    identity.private_key_pem.write_to_path(str(files["key"]))
    return {name: str(path) for name, path in files.items()}


def _server(authority: trustme.CA, directory: Path) -> tuple[Path, Path]:
    """Issue a server certificate. Return the key store and the trust store."""
    store, trusted = directory / "server.pem", directory / "trusted.pem"
    _write_store(authority.issue_cert(HOST), store)
    authority.cert_pem.write_to_path(str(trusted))
    return store, trusted


def _lines(store: Path, trusted: Path) -> tuple[str, ...]:
    return (
        "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
        f"ssl.keyStore.location={store}",
        f"ssl.trustStore.location={trusted}",
        "ssl.clientAuth=need",
    )


@contextmanager
def certificates() -> Iterator[tuple[tuple[str, ...], dict[str, str]]]:
    """Yield the configuration lines of a server with TLS, and the files of a client."""
    with TemporaryDirectory(prefix="zklock-certificates-") as name:
        directory = Path(name)
        authority = trustme.CA()
        yield _lines(*_server(authority, directory)), _client(authority, directory / "client")


@contextmanager
def secured_server() -> Iterator[Secured]:
    """Run a secured server with new keys."""
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
