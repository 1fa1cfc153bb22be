"""Tests of encrypted connections and authentication."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import trustme
from kazoo.exceptions import NoAuthError
from kazoo.security import make_digest_acl

from harness.history import assert_clean
from harness.imposters import certified, imposter
from harness.observer import Observer
from harness.proxy import Proxy
from harness.security import PASSWORD, USER, Secured, secured_server
from harness.steps import Start, eventually, line_up
from harness.worker import Worker

LOGIN = (USER, PASSWORD)
PATIENCE = 2.0


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    """Provide the server of these scenarios."""
    with secured_server() as made:
        yield made


@pytest.fixture
def plain_observer(secured: Secured) -> Iterator[Observer]:
    """Provide an observer on the server's plain port."""
    with Observer(secured.server.hosts) as made:
        yield made


def test_s130_encrypted(
    surface: str, secured: Secured, plain_observer: Observer, path: str, start: Start
) -> None:
    encrypted, plain = start(surface), start(surface)
    encrypted.connect(secured.hosts, tls=secured.tls)
    plain.connect(secured.server.hosts)
    for worker in (encrypted, plain):
        worker.lock(path)
    encrypted.hold()
    (waiting,) = line_up(plain_observer, path, [plain])
    encrypted.release()
    waiting.expect("acquired")
    plain.release()
    assert_clean(encrypted.holds() + plain.holds(), at_least=2)
    plain_observer.assert_free(path)


def variables(files: dict[str, str]) -> dict[str, str]:
    """Return the environment variables that name these files."""
    return {f"ZKLOCK_TLS_{name.upper()}": file for name, file in files.items()}


def test_s845_encrypted_by_the_environment(
    surface: str, secured: Secured, plain_observer: Observer, path: str
) -> None:
    with Worker(surface, env=variables(secured.tls)) as worker:
        # The port accepts only encrypted connections from clients with a trusted certificate.
        session = worker.connect(secured.hosts, environment=True)
        worker.lock(path)
        assert int(worker.hold()["session"]) == session
        assert [plain_observer.owner(f"{path}/{node}") for node in plain_observer.queue(path)] == [session]
        # The client of a lock created with a hosts string also reads the environment.
        worker.lock(f"{path}-b", lock="on hosts", hosts=secured.hosts, options={"environment": True})
        line = worker.hold("b", lock="on hosts", owner="b")
        assert int(line["session"]) != session
        assert plain_observer.owner(line["node"]) == int(line["session"])
        # Explicit arguments override the environment.
        asked = {"hosts": secured.hosts, "environment": True, "connect_timeout": PATIENCE}
        error = worker.send("connect", client="d", tls=secured.stranger, **asked).error()
        assert error.code == "CONNECTION_FAILED"
        assert "certificate" in str(error)
        worker.release()
        worker.release("b", owner="b")


@pytest.mark.parametrize("left_out", ["key", "cert and key", "all"])
def test_s845_without_one_of_the_variables(
    surface: str, secured: Secured, left_out: str, plain_observer: Observer
) -> None:
    given = {
        "key": {name: secured.tls[name] for name in ("ca", "cert")},
        "cert and key": {"ca": secured.tls["ca"]},
        "all": {},
    }[left_out]
    with Worker(surface, env=variables(given)) as worker:
        asked = {"hosts": secured.hosts, "environment": True, "connect_timeout": PATIENCE}
        error = worker.send("connect", client="c", **asked).error()
    assert error.code == ("BAD_ARGUMENT" if left_out == "key" else "CONNECTION_FAILED")


def test_s131_encrypted_over_a_reconnection(surface: str, secured: Secured, path: str, start: Start) -> None:
    worker = start(surface)
    session = worker.connect(secured.hosts, tls=secured.tls)
    worker.lock(path)
    first = worker.hold()
    secured.server.restart()
    worker.release()
    second = worker.hold()
    assert second["node"] != first["node"]
    assert int(second["session"]) == session
    worker.release()
    with Observer(secured.server.hosts) as observer:
        observer.assert_free(path)


@pytest.mark.parametrize("who", ["nobody", "stranger"])
def test_s132_no_certificate_that_the_server_trusts(
    surface: str, secured: Secured, start: Start, who: str
) -> None:
    trusted = {"ca": secured.tls["ca"]}
    shown = {} if who == "nobody" else {name: secured.stranger[name] for name in ("cert", "key")}
    worker = start(surface)
    pending = worker.send(
        "connect", client="c", hosts=secured.hosts, tls=trusted | shown, connect_timeout=PATIENCE
    )
    error = pending.error()
    assert error.code == "CONNECTION_FAILED"
    assert "certificate" in str(error)


def test_s133_a_server_that_we_do_not_trust(surface: str, secured: Secured, start: Start) -> None:
    worker = start(surface)
    tls = secured.tls | {"ca": secured.stranger["ca"]}
    error = worker.send("connect", client="c", hosts=secured.hosts, tls=tls, connect_timeout=PATIENCE).error()
    assert error.code == "CONNECTION_FAILED"
    assert "certificate" in str(error)
    # An encrypted connection to the plain port fails as well.
    pending = worker.send(
        "connect", client="c", hosts=secured.server.hosts, tls=secured.tls, connect_timeout=PATIENCE
    )
    assert pending.error().code == "CONNECTION_FAILED"


@pytest.mark.parametrize("name", ["ca", "cert"])
def test_s134_an_invalid_certificate_file(
    surface: str, secured: Secured, tmp_path: Path, start: Start, name: str
) -> None:
    bad = tmp_path / "bad.pem"
    bad.write_text("no certificate")
    tls = secured.tls | {name: str(bad)}
    error = start(surface).send("connect", client="c", hosts=secured.hosts, tls=tls).error()
    assert error.code == "BAD_ARGUMENT"
    assert "tls" in str(error)
    assert name in str(error)


def test_s135_logged_in(
    surface: str, secured: Secured, plain_observer: Observer, path: str, start: Start
) -> None:
    worker = start(surface)
    worker.connect(secured.server.hosts, sasl=LOGIN, acl="creator")
    worker.lock(path)
    worker.hold()
    # Only the user can access the user's nodes.
    with pytest.raises(NoAuthError):
        plain_observer.queue(path)
    # Test this while the lock is held. After the release, the server removes the parent, and any client can
    # create it.
    stranger = start(surface)
    stranger.connect(secured.server.hosts)
    stranger.lock(path)
    assert stranger.acquire().error().code == "AUTH_FAILED"
    worker.release()
    both = start(surface)
    both.connect(secured.hosts, sasl=LOGIN, acl="creator", tls=secured.tls)
    both.lock(path)
    both.hold()
    both.release()


@pytest.mark.parametrize("scheme", ["sasl", "digest"])
def test_s293_rules_for_a_login(
    surface: str, scheme: str, secured: Secured, plain_observer: Observer, path: str, start: Start
) -> None:
    plain_observer.create(path)
    worker = start(surface)
    identity = USER if scheme == "sasl" else make_digest_acl(USER, PASSWORD, all=True).id.id
    rules = f"{scheme}:{identity}:cdrwa,world:anyone:r"
    worker.connect(secured.server.hosts, sasl=LOGIN, acl=rules)
    worker.lock(f"{path}/lock")
    if scheme == "sasl":
        worker.hold()
        assert len(plain_observer.queue(f"{path}/lock")) == 1
        worker.release()
    else:
        # A SASL login gives no rights to an identity of another scheme, even with the same password.
        assert worker.acquire().error().code == "AUTH_FAILED"


@pytest.mark.parametrize("login", [(USER, "guess"), ("nobody", PASSWORD)], ids=["password", "user"])
def test_s136_a_wrong_password(surface: str, secured: Secured, start: Start, login: tuple[str, str]) -> None:
    with Proxy(secured.server.hosts) as proxy:
        worker = start(surface)
        pending = worker.send("connect", client="c", hosts=proxy.hosts, sasl=login)
        error = pending.error()
        assert error.code == "AUTH_FAILED"
        assert login[1] not in str(error)
        # The server can reply to a login's first message before it grants the session. The client must not
        # open a second connection because of that.
        assert proxy.next_number() == 2, "one connection"


def test_s136_a_right_password(surface: str, secured: Secured, start: Start) -> None:
    with Proxy(secured.server.hosts) as proxy:
        start(surface).connect(proxy.hosts, sasl=LOGIN)
        assert proxy.next_number() == 2, "one connection"


def test_s253_certificates_are_replaced(surface: str, path: str, start: Start) -> None:
    worker = start(surface)
    with secured_server() as own:
        session = worker.connect(own.hosts, session_timeout=20, tls=own.tls)
        worker.lock(path)
        worker.hold()
        own.renew()
        eventually(
            lambda: worker.call("state", lease="l")["value"] == "held", "the client is connected again", 15
        )
        assert worker.sessions["c"] == session
        worker.release()
        # The client has kept its session. With a new session it could also hold the lock again, so compare
        # the ids.
        assert int(worker.hold("again")["session"]) == session
        worker.release("again")


def test_s300_the_next_server_is_tried(surface: str, secured: Secured, path: str, start: Start) -> None:
    worker = start(surface)
    # No certificate can contain the first four server names. The client usually tries one of them first.
    nameless = ",".join(f"no..name:{port}" for port in range(1, 5))
    for number in range(3):
        worker.connect(f"{nameless},{secured.hosts}", client=f"nameless-{number}", tls=secured.tls)
    with imposter(certified(trustme.CA())) as stranger:
        for number in range(3):
            worker.connect(f"{stranger},{secured.hosts}", client=f"stranger-{number}", tls=secured.tls)
    worker.lock(path, client="nameless-0")
    worker.hold()
    worker.release()


def test_s301_a_key_of_another_certificate(surface: str, secured: Secured, start: Start) -> None:
    tls = secured.tls | {"key": secured.stranger["key"]}
    with Proxy(secured.hosts) as proxy:
        error = start(surface).send("connect", client="c", hosts=proxy.hosts, tls=tls).error()
        assert error.code == "BAD_ARGUMENT"
        assert "tls" in str(error)
        assert "is not the key of the certificate" in str(error)
        assert proxy.next_number() == 1, "nothing was sent"


def test_s302_why_no_server_was_trusted(surface: str, tmp_path: Path, start: Start) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    contexts = {
        "has expired": certified(authority, expired=True),
        "does not match the name": certified(authority, "elsewhere.example"),
        "no authority that this client trusts": certified(trustme.CA()),
        "accepted a connection, but did not answer": certified(authority),
        "did not finish the TLS handshake": None,
    }
    with ExitStack() as imposters:
        reasons = {imposters.enter_context(imposter(context)): why for why, context in contexts.items()}
        reasons[imposters.enter_context(imposter(None, b"HTTP/1.1 400 \r\n"))] = "does not speak TLS"
        reasons["127.0.0.1:9"] = "refused the connection"
        reasons["no..name:1"] = "not a name that a certificate can contain"
        tls = {"ca": str(tmp_path / "ca.pem")}
        # The client divides the session timeout among the servers. Each part is long enough for a handshake
        # on a busy machine.
        asked = {"hosts": ",".join(reasons), "session_timeout": 3 * PATIENCE, "connect_timeout": 4 * PATIENCE}
        error = start(surface).send("connect", client="c", tls=tls, **asked).error()
    assert error.code == "CONNECTION_FAILED"
    # "… within 8s: one server did this; another did that; check …"
    reported = dict(part.split(" ", 1) for part in str(error).partition("s: ")[2].split("; ")[:-1])
    assert reported.keys() == reasons.keys()
    for server, why in reasons.items():
        assert why in reported[server]
