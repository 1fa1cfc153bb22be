"""Tests of encrypted connections and credentials with the `zklock` command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.exceptions import NoAuthError

from harness.command import Command, run, write_credentials
from harness.observer import Observer
from harness.security import PASSWORD, USER, Secured, secured_server
from harness.server import Standalone


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


def flags(files: dict[str, str]) -> list[str]:
    """Return the options that name these files."""
    return [word for name, file in files.items() for word in (f"--tls-{name}", file)]


def test_s578_encrypted(secured: Secured, plain_observer: Observer, path: str) -> None:
    with Command(secured.hosts, "run", *flags(secured.tls), path, "--", "sleep", "60"):
        plain_observer.wait_queue(path, 1)
        by_environment = {f"ZKLOCK_TLS_{name.upper()}": file for name, file in secured.tls.items()}
        refused = run(secured.hosts, "run", "-n", path, "--", "true", env=by_environment)
        assert refused.status == 75, refused.err
        assert "sleep" in run(secured.hosts, "ls", *flags(secured.tls), path).out
    assert run(secured.hosts, "doctor", *flags(secured.tls), path).status in (0, 1)


def test_s578_a_client_that_the_server_does_not_trust(secured: Secured, path: str) -> None:
    # Five seconds are enough for a first handshake on a busy machine. Before the handshake, `zklock` does not
    # know the server's certificate.
    patience = ("--connect-timeout", "5")
    untrusted = run(secured.hosts, "run", "--tls-ca", secured.tls["ca"], *patience, path, "--", "echo", "ran")
    assert (untrusted.status, untrusted.out) == (69, "")
    assert "certificate" in untrusted.err
    # The client does not trust the server's certificate either.
    other = secured.tls | {"ca": secured.stranger["ca"]}
    refused = run(secured.hosts, "run", *flags(other), *patience, path, "--", "echo", "ran")
    assert (refused.status, refused.out) == (69, "")
    assert "certificate" in refused.err
    plain = run(secured.hosts, "run", "--connect-timeout", "2", path, "--", "echo", "ran")
    assert (plain.status, plain.out) == (69, "")


def test_s578_certificates_renewed_during_a_hold(
    secured: Secured, plain_observer: Observer, path: str, tmp_path: Path
) -> None:
    """If the certificates are renewed during a hold, `zklock` reconnects with them and releases the lock."""
    lock = ("--session-timeout", "40", path)
    with Command(secured.hosts, "run", *flags(secured.tls), *lock, "--", "sh", "-c", "read end") as command:
        plain_observer.wait_queue(path, 1)
        secured.renew()
        command.type("\n")
        ended = command.wait(60)
    assert (ended.status, ended.err) == (0, "")
    plain_observer.assert_free(path)


@pytest.mark.parametrize("left_out", ["ca", "cert", "key"])
def test_s578_half_an_identity(secured: Secured, path: str, left_out: str) -> None:
    given = {name: file for name, file in secured.tls.items() if name != left_out}
    refused = run(secured.hosts, "run", *flags(given), path, "--", "echo", "ran")
    assert (refused.status, refused.out) == (64, "")
    assert "--tls-" in refused.err


def test_s578_an_invalid_certificate(secured: Secured, path: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.pem"
    bad.write_text("no certificate")
    for given in ({"ca": str(bad)}, {"ca": str(tmp_path / "none.pem")}):
        refused = run(secured.hosts, "run", *flags(given), path, "--", "echo", "ran")
        assert (refused.status, refused.out) == (64, "")
        assert refused.err != ""


@pytest.mark.parametrize("how", ["option", "environment"])
def test_s578_logged_in(
    secured: Secured, plain_observer: Observer, path: str, tmp_path: Path, how: str
) -> None:
    login = tmp_path / "login"
    write_credentials(login, f"sasl:{USER}:{PASSWORD}\n")
    words = ["--auth-file", str(login), "--acl", "creator"] if how == "option" else []
    env = {} if words else {"ZKLOCK_AUTH_FILE": str(login), "ZKLOCK_ACL": "creator"}
    with Command(
        secured.server.hosts, "run", *words, path, "--", "sh", "-c", "echo in; exec sleep 60", env=env
    ) as held:
        held.read_until("in")
        # Only the holder's user can access its nodes.
        with pytest.raises(NoAuthError):
            plain_observer.queue(path)
        for refused in ("ls", "wait", "top"):
            once = ["--once"] if refused == "top" else []
            assert run(secured.server.hosts, refused, *once, path).status == 77, refused
        stranger = run(secured.server.hosts, "run", path, "--", "echo", "ran")
        assert (stranger.status, stranger.out) == (77, "")
        assert run(secured.server.hosts, "run", "-n", *words, path, "--", "true", env=env).status == 75


@pytest.mark.parametrize("login", [(USER, "guess"), ("nobody", PASSWORD)], ids=["password", "user"])
def test_s578_a_wrong_password(secured: Secured, path: str, tmp_path: Path, login: tuple[str, str]) -> None:
    file = tmp_path / "login"
    write_credentials(file, f"sasl:{login[0]}:{login[1]}\n")
    refused = run(secured.server.hosts, "run", "--auth-file", str(file), path, "--", "echo", "ran")
    assert (refused.status, refused.out) == (77, "")
    assert login[1] not in refused.err


@pytest.mark.parametrize("how", ["option", "environment"])
@pytest.mark.parametrize("mode", [0o644, 0o604, 0o660])
def test_s578_a_credentials_file_that_other_users_can_access(
    server: Standalone, observer: Observer, path: str, tmp_path: Path, mode: int, how: str
) -> None:
    login = tmp_path / "login"
    write_credentials(login, "digest:app:secret\n")
    login.chmod(mode)
    words = ["--auth-file", str(login)] if how == "option" else []
    env = {} if words else {"ZKLOCK_AUTH_FILE": str(login)}
    origin = "" if words else " (from the environment variable ZKLOCK_AUTH_FILE)"
    for command in (["run", *words, path, "--", "echo", "ran"], ["ls", *words, path]):
        refused = run(server.hosts, *command, env=env)
        assert (refused.status, refused.out) == (64, "")
        assert refused.err == (
            f"zklock: auth_file: {login} contains credentials, and users other than its owner can access it "
            f"(mode {mode:04o}): run `chmod 600 {login}`{origin}\n"
        )
    assert observer.client.exists(path) is None
    login.chmod(0o600)
    assert run(server.hosts, "run", *words, path, "--", "true", env=env).status == 0


def test_s578_no_secret_is_an_option() -> None:
    for command in ("run", "ls", "wait", "top", "doctor", "break", "revoke"):
        outcome = run("", command, "--help").out
        assert "--auth-file" in outcome
        for secret in ("--password", "--auth ", "--digest", "--sasl"):
            assert secret not in outcome


def test_s578_rights_above_the_lock(
    server: Standalone, observer: Observer, path: str, tmp_path: Path
) -> None:
    """A separate ACL, given by option or environment, applies to the nodes above the lock directory."""
    login = tmp_path / "login"
    write_credentials(login, "digest:app:secret\n")
    words = ("--auth-file", str(login), "--acl", "creator")

    def is_open(parent: str) -> bool:
        try:
            observer.client.get_children(parent)
        except NoAuthError:
            return False
        return True

    given = {
        "option": (("--parent-acl", "creator"), {}),
        "environment": ((), {"ZKLOCK_PARENT_ACL": "creator"}),
        "neither": ((), {}),
    }
    for how, (more, env) in given.items():
        ran = run(server.hosts, "run", *words, *more, f"{path}-{how}/lock", "--", "true", env=env)
        assert (ran.status, ran.err) == (0, "")
    assert [how for how in given if is_open(f"{path}-{how}")] == ["neither"]


@pytest.mark.parametrize("name", ["acl", "parent-acl"])
def test_s578_a_list_that_says_nothing_opens_nothing(
    server: Standalone, observer: Observer, path: str, name: str
) -> None:
    variable = f"ZKLOCK_{name.upper().replace('-', '_')}"
    for words, env in (((f"--{name}", "everybody"), {}), ((f"--{name}", ""), {}), ((), {variable: "\udcff"})):
        refused = run(server.hosts, "run", *words, path, "--", "echo", "ran", env=env)
        assert (refused.status, refused.out) == (64, ""), refused.err
        assert name.replace("-", "_") in refused.err or variable in refused.err
    assert observer.client.exists(path) is None
