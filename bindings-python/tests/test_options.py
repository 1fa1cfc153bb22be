"""Client options of locks with hosts strings, and options from the environment, for secured ensembles."""

from __future__ import annotations

import asyncio
import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

import zklock
from zklock import aio

PASSWORD = "a secret that nobody reads"


@pytest.fixture
def auth_file(tmp_path: Path) -> Path:
    """Write credentials to a file that only its owner can read."""
    file = tmp_path / "login"
    file.touch(mode=0o600)
    file.write_text(f"digest:app:{PASSWORD}\n")
    return file


def refuses_strangers(hosts: str, path: str) -> bool:
    """Return whether a client without credentials is refused."""
    with zklock.Client(hosts) as stranger:
        try:
            zklock.Mutex(stranger, path).acquire(blocking=False)
        except zklock.AuthFailed:
            return True
        # The lock may be taken: that is no refusal.
        return False


def test_locks_with_equal_options_share_a_client(hosts: str, path: str, auth_file: Path) -> None:
    def lock(**options: Any) -> zklock.Mutex:
        return zklock.Mutex(hosts, path, options=zklock.ClientOptions(label="shared", **options))

    one, equal, other = lock(auth_file=auth_file), lock(auth_file=auth_file), lock(session_timeout=7)
    for each in (one, equal, other):
        each.client.connect()
    assert one.client.session_id == equal.client.session_id
    assert one.client.session_id != other.client.session_id
    assert one.client.session_id != zklock.Mutex(hosts, path).client.connect().session_id
    assert other.client.session_timeout == 7
    both = zklock.ReadWriteLock(hosts, path, options=zklock.ClientOptions(label="shared", session_timeout=7))
    assert both.read_lock.client.session_id == other.client.session_id
    one.client.close()
    other.client.close()


def test_options_protect_the_nodes(hosts: str, path: str, auth_file: Path) -> None:
    options = zklock.ClientOptions(auth_file=auth_file, acl="creator")
    with zklock.Mutex(hosts, path, options=options) as lease:
        assert refuses_strangers(hosts, path)
        lease.check()


def test_the_client_of_a_lock(client: zklock.Client, hosts: str, path: str) -> None:
    assert zklock.Mutex(client, path).client.session_id == client.session_id
    assert zklock.Semaphore(client, path, 1).client.session_id == client.session_id
    lazy = zklock.Client(hosts, connect=False)
    with zklock.Mutex(lazy, path) as _:
        assert zklock.Mutex(lazy, path).client.session_id == lazy.session_id != 0
    lazy.close()


def test_in_asyncio(hosts: str, path: str, auth_file: Path) -> None:
    async def main() -> None:
        options = zklock.ClientOptions(auth_file=auth_file, acl="creator", label="aio")
        lock = aio.Mutex(hosts, path, options=options)
        async with lock as lease:
            assert lock.client.session_id == lease.session_id
        assert isinstance(lock.client, aio.Client)
        await lock.client.close()
        async with aio.Client(hosts) as client:
            await client.connect()
            assert aio.Mutex(client, f"{path}/b").client.session_id == client.session_id

    asyncio.run(main())


def test_options_are_for_hosts_strings(client: zklock.Client, path: str) -> None:
    with pytest.raises(zklock.BadArgument, match=r"^options: are only for a lock that is created with"):
        zklock.Mutex(client, path, options=zklock.ClientOptions())
    with pytest.raises(TypeError, match=r"^options must be a zklock.ClientOptions, not dict"):
        zklock.Mutex("zk1", path, options={})  # type: ignore[arg-type]


def test_options_are_pickled_by_the_name_of_the_file(auth_file: Path) -> None:
    options = zklock.ClientOptions(auth_file=auth_file, acl="creator", session_timeout=5)
    lock = zklock.Mutex("zk1", "/a", options=options)
    pickled = pickle.dumps(lock)
    assert PASSWORD.encode() not in pickled
    assert bytes(auth_file.name, "ascii") in pickled
    for twin in (pickle.loads(pickled), copy.deepcopy(lock)):
        assert twin.__reduce__()[1][3]["options"] == options
    assert options != zklock.ClientOptions(auth_file=auth_file)
    assert hash(options) == hash(copy.copy(options))


@pytest.mark.parametrize("secret", [{"auth": [("digest", f"a:{PASSWORD}")]}, {"sasl": ("a", PASSWORD)}])
def test_passwords_are_not_pickled(secret: dict[str, Any]) -> None:
    options = zklock.ClientOptions(**secret)
    assert PASSWORD not in repr(options)
    for copied in (options, zklock.Mutex("zk1", "/a", options=options)):
        with pytest.raises(TypeError, match=r"contain a password.* auth_file$") as refused:
            pickle.dumps(copied)
        assert PASSWORD not in str(refused.value)


class TestEnvironment:
    """Environment variables set the options that the program does not set."""

    def test_it_secures_what_is_made_from_the_defaults(
        self, monkeypatch: pytest.MonkeyPatch, hosts: str, path: str, auth_file: Path
    ) -> None:
        monkeypatch.setenv("ZKLOCK_AUTH_FILE", str(auth_file))
        monkeypatch.setenv("ZKLOCK_ACL", "creator")
        monkeypatch.setenv("ZKLOCK_SESSION_TIMEOUT", "7s")
        with zklock.Client(hosts) as client:
            made = zklock.Mutex(client, f"{path}/client"), zklock.Mutex(hosts, f"{path}/hosts")
            assert client.session_timeout == 7
            for lock in made:
                with lock, monkeypatch.context() as none:
                    for name in ("ZKLOCK_AUTH_FILE", "ZKLOCK_ACL"):
                        none.delenv(name)
                    assert refuses_strangers(hosts, lock.path)
            made[1].client.close()

    def test_an_argument_wins(self, monkeypatch: pytest.MonkeyPatch, hosts: str, path: str) -> None:
        given: dict[str, Any] = {"auth": [("digest", "a:b")], "acl": "open", "session_timeout": 6}
        for argument, name in zip(given, ("AUTH_FILE", "ACL", "SESSION_TIMEOUT"), strict=True):
            monkeypatch.setenv(f"ZKLOCK_{name}", "/no/such/file")
            rest = {other: value for other, value in given.items() if other != argument}
            with pytest.raises(zklock.BadArgument, match=rf"variable ZKLOCK_{name}\)$"):
                zklock.Client(hosts, connect=False, **rest)
        with zklock.Client(hosts, **given) as client:
            assert client.session_timeout == 6
        options = zklock.ClientOptions(**given | {"auth": []})
        with zklock.Mutex(hosts, path, options=options) as lease:
            assert lease.session_timeout == 6

    @pytest.mark.parametrize("make", [zklock.Client, aio.Client, lambda hosts: zklock.Mutex(hosts, "/a")])
    def test_errors_name_the_variable(
        self, monkeypatch: pytest.MonkeyPatch, hosts: str, auth_file: Path, make: Any
    ) -> None:
        monkeypatch.setenv("ZKLOCK_ACL", "")
        monkeypatch.setenv("ZKLOCK_AUTH_FILE", str(auth_file))
        auth_file.chmod(0o644)
        with pytest.raises(zklock.BadArgument) as refused:
            make(hosts)
        assert str(refused.value) == (
            f"auth_file: {auth_file} contains credentials, and users other than its owner can access it "
            f"(mode 0644): run `chmod 600 {auth_file}` (from the environment variable ZKLOCK_AUTH_FILE)"
        )
        monkeypatch.setenv("ZKLOCK_AUTH_FILE", "")
        monkeypatch.setenv("ZKLOCK_TLS_KEY", "key.pem")
        with pytest.raises(
            zklock.BadArgument, match=r"^tls: .* \(from the environment variable ZKLOCK_TLS_KEY\)$"
        ):
            make(hosts)
        monkeypatch.delenv("ZKLOCK_TLS_KEY")
        monkeypatch.setenv("ZKLOCK_PARENT_ACL", "\udcff")
        with pytest.raises(zklock.BadArgument, match=r"^parent_acl: ZKLOCK_PARENT_ACL is not valid UTF-8$"):
            make(hosts)
