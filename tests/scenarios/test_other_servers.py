"""Tests of servers that use ZooKeeper's protocol but differ from the reference server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.imposters import clickhouse_keeper
from harness.liar import logins
from harness.liar.server import Liars
from harness.observer import Observer
from harness.security import JAAS, PASSWORD, USER
from harness.server import Settings, Standalone
from harness.steps import Start, await_loss, eventually
from harness.worker import Worker

WAYS_OUT = ("FIPS mode", "`digest`", "certificate")


def logged(worker: Worker, words: str) -> int:
    """Return the number of the worker's log events that contain these words."""
    lines = [line for line in worker.lines() if line["event"] == "log"]
    return sum(words in " ".join([line["text"], *line["fields"]]) for line in lines)


@pytest.fixture(scope="module")
def without_digest_md5(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """Provide a server without DIGEST-MD5.

    A setting of the Java runtime disables it, because ZooKeeper before 3.9.6 has no setting for this.
    """
    directory: Path = tmp_path_factory.mktemp("fips")
    jaas, security = directory / "jaas.conf", directory / "java.security"
    jaas.write_text(JAAS)
    security.write_text("jdk.sasl.disabledMechanisms=DIGEST-MD5\n")
    sasl = "authProvider.sasl=org.apache.zookeeper.server.auth.SASLAuthenticationProvider"
    jvm = (f"-Djava.security.auth.login.config={jaas}", f"-Djava.security.properties={security}")
    with Standalone(Settings(config=(sasl,), jvm=jvm)) as server:
        yield server


def assert_refused(surface: str, start: Start, hosts: str) -> None:
    """Assert that a login fails and that the error names the remedies."""
    worker = start(surface)
    error = worker.send("connect", client="c", hosts=hosts, sasl=(USER, PASSWORD)).error()
    assert error.code == "AUTH_FAILED"
    for words in WAYS_OUT:
        assert words in str(error)
    assert PASSWORD not in str(error)


def test_s682_a_server_without_the_mechanism(
    surface: str, without_digest_md5: Standalone, path: str, start: Start
) -> None:
    assert_refused(surface, start, without_digest_md5.hosts)
    # The client can still use digest credentials.
    worker = start(surface)
    worker.connect(without_digest_md5.hosts, auth=[("digest", f"{USER}:{PASSWORD}")], acl="creator")
    worker.lock(path)
    worker.hold()
    worker.release()


def test_s682_a_server_in_fips_mode(surface: str, start: Start) -> None:
    # ZooKeeper 3.9.6 and later replies AUTHFAILED to the first token and closes the connection.
    (lie,) = (lie for lie in logins.lies() if lie.name == "AUTHFAILED at a login")
    with Liars() as liars:
        assert_refused(surface, start, liars.start(lie).hosts)


def test_s683_clickhouse_keeper(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    with clickhouse_keeper(server.hosts) as keeper:
        worker = start(surface)
        worker.call("log")
        worker.connect(keeper.hosts, session_timeout=4)
        worker.lock(path)
        first = worker.hold()
        eventually(lambda: logged(worker, "ClickHouse Keeper") == 1, "a warning")
        # The next connection has another session, so the lease is lost before the end of its term.
        keeper.cut()
        await_loss(worker)
        # The client cannot close the old session, so the old node stays until that session expires. Only then
        # is the lock granted.
        again = worker.hold("again", owner="again")
        assert again["session"] != first["session"]
        assert int(again["token"]) > int(first["token"])
        worker.release("again", owner="again")
        observer.wait_queue(path, 0)
        assert logged(worker, "ClickHouse Keeper") == 1
