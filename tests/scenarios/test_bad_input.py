"""Bad input is refused with an error that names the argument. The client sends no request."""

from __future__ import annotations

from typing import Any

import pytest

from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import Start, user
from harness.worker import WorkerError


def refused(error: WorkerError, argument: str) -> None:
    """Assert that the error is `BAD_ARGUMENT` and names the argument."""
    assert error.code == "BAD_ARGUMENT", error
    assert argument in error.message, error


@pytest.mark.parametrize(
    "bad",
    ["", "relative/path", "/", "/slash/at/the/end/", "/an//empty/part", "/a/./b", "/a/../b", "/nul\0inside"],
    ids=["empty", "relative", "root", "trailing", "empty_part", "dot", "dot_dot", "nul"],
)
def test_s28_bad_paths(surface: str, bad: str, proxy: Proxy, start: Start) -> None:
    worker = start(surface)
    worker.connect(proxy.hosts)
    proxy.reset()
    refused(worker.send("lock", lock="m", path=bad, client="c").error(), "path")
    assert proxy.snapshot().total == 0


@pytest.mark.parametrize("bad", [-2.5, -1e9, "NaN"], ids=["negative", "very_negative", "nan"])
def test_s29_bad_timeouts(surface: str, bad: Any, proxy: Proxy, path: str, start: Start) -> None:
    worker = user(start, surface, proxy.hosts, path)
    proxy.reset()
    refused(worker.acquire(timeout=bad).error(), "timeout")
    assert proxy.snapshot().total == 0


@pytest.mark.parametrize(
    "bad",
    ["", ",", "127.0.0.1:port", "127.0.0.1:70000", "127.0.0.1:2181/a//b"],
    ids=["empty", "no_host", "no_number", "no_port", "bad_chroot"],
)
def test_s30_bad_hosts(surface: str, bad: str, start: Start) -> None:
    worker = start(surface)
    refused(worker.send("connect", client="c", hosts=bad, connect_timeout=1.0).error(), "hosts")


def test_s31_wrong_types(surface: str, proxy: Proxy, path: str, start: Start) -> None:
    worker = user(start, surface, proxy.hosts, path)
    proxy.reset()
    for wrong in (5, None, ["/lock"], True):
        assert worker.send("lock", lock="x", path=wrong, client="c").error().type == "TypeError", wrong
    assert worker.send("connect", client="d", hosts=5).error().type == "TypeError"
    assert worker.acquire(timeout="soon").error().type == "TypeError"
    assert proxy.snapshot().total == 0


def test_s305_a_directory_that_is_too_large_to_list(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    least = 64 * 1024
    worker = start(surface)
    refused(worker.send("connect", client="c", hosts=server.hosts, max_frame=least - 1).error(), "rame")
    # A listing can have one name for each 256 bytes of the maximum frame size, which allows 256 names here.
    # The 300 names are refused although their 20 bytes each would fit into a frame.
    observer.create(f"{path}/large")
    for number in range(300):
        observer.create(f"{path}/large/no-contender-{number}")
    worker.connect(server.hosts, max_frame=least)
    for name in ("large", "small"):
        worker.lock(f"{path}/{name}", lock=name)
    worker.hold("kept", lock="small")
    for error in (
        worker.acquire(lock="large").error(),
        worker.send("contenders", lock="large").error(),
        worker.send("locked", lock="large").error(),
    ):
        refused(error, "path")
        # The error states 300 names, or 301 together with the node of the acquire.
        for said in (f"{path}/large", "list of 30", "256 names"):
            assert said in str(error), error
    assert worker.check("kept").result()["value"] == "held"
    observer.wait_queue(f"{path}/large", 0)
