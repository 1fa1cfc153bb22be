"""Backoff: a client repeats a failing operation less and less often."""

from __future__ import annotations

import time

from harness.embedded import NewServer
from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Settings, Standalone
from harness.steps import Start, in_time, user
from harness.worker import Line, Worker, WorkerError

LOGIN = ("app", "secret")

MEBIBYTE = 1_100_000


def refused(error: WorkerError, argument: str, given: int, limit: int) -> None:
    """Assert that the error names the argument, its size and the limit."""
    assert error.code == "BAD_ARGUMENT", error
    assert str(error.message) == f"{argument}: is {given} bytes long; the limit is {limit} bytes"


def write(worker: Worker, *data: str) -> WorkerError:
    """Try to write this data in one transaction, and return the error."""
    operations: list[Line] = [{"op": "set_data", "path": "/x", "data": part} for part in data]
    return worker.send("transact", lease="l", operations=operations).error()


def test_s310_too_large_to_be_sent(surface: str, proxy: Proxy, path: str, start: Start) -> None:
    worker = user(start, surface, proxy.hosts, path)
    worker.hold()
    number = proxy.next_number()

    def lock(**options: str) -> WorkerError:
        return worker.send("lock", **({"lock": "x", "path": path, "client": "c"} | options)).error()

    refused(lock(label="ü" * 513), "label", 1026, 1024)
    refused(lock(label="x" * MEBIBYTE), "label", MEBIBYTE, 1024)
    refused(lock(path="/" + "a" * 4096), "path", 4097, 4096)
    assert lock(path="/" + "a" * MEBIBYTE).code == "BAD_ARGUMENT"
    refused(write(worker, "x" * MEBIBYTE), "data", MEBIBYTE, 0xFFFFF)
    error = write(worker, "x" * 600_000, "x" * 600_000)
    assert error.code == "BAD_ARGUMENT", error
    assert error.message.startswith("transaction: is 1200"), error
    assert error.message.endswith("the limit is 1048575 bytes"), error

    def connect(**options: object) -> WorkerError:
        return worker.send("connect", client="d", hosts=proxy.hosts, **options).error()

    assert connect(auth=[["digest", "x" * MEBIBYTE]]).code == "BAD_ARGUMENT"
    refused(connect(sasl=["app", "x" * 1025]), "sasl", 1025, 1024)
    assert proxy.next_number() == number + 1, "the client did not connect"
    assert worker.call("state", lease="l")["value"] == "held"
    worker.release()


def test_s311_a_server_without_sasl(surface: str, server: Standalone, start: Start) -> None:
    error = start(surface).send("connect", client="c", hosts=server.hosts, sasl=LOGIN).error()
    assert error.code == "AUTH_FAILED", error
    assert "SASL" in error.message, error


def test_s312_a_create_that_every_server_refuses(
    surface: str, new_server: NewServer, path: str, start: Start
) -> None:
    # A server with a limit of 1 KiB closes the connection when a larger request arrives.
    with (
        new_server(Settings(max_frame=1024)) as small,
        Proxy(small.hosts) as proxy,
    ):
        worker = user(start, surface, proxy.hosts, path)
        worker.call("lock", lock="large", path=f"{path}-large", client="c", label="x" * 1024)
        number = proxy.next_number()
        with in_time(5.3):
            worker.acquire("never", lock="large", owner="b", timeout=4.0).expect("timeout")
        # The client opens about twenty connections in the first second, and five in each further second.
        assert proxy.next_number() - number < 40
        # Requests that are small enough are still served.
        worker.hold()
        worker.release()
        with in_time(2.8):
            worker.call("close", client="c")


def test_s313_sessions_that_end_young(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    holder = user(start, surface, server.hosts, path)
    holder.hold()
    with Proxy(server.hosts) as proxy:
        waiter = user(start, surface, proxy.hosts, path)
        waiting = waiter.acquire()
        ended: dict[int, float] = {}
        began = time.monotonic()
        while time.monotonic() < began + 4 or len(ended) < 3:
            session = proxy.newest_session()
            if session not in ended:
                observer.kill_session(session, proxy.passwords[session])
                ended[session] = time.monotonic() - began
            time.sleep(0.01)
        assert sum(after < 4 for after in ended.values()) <= 10, ended
        holder.release()
        waiting.expect("acquired", 15)
        waiter.release()
