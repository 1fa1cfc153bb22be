"""S852: the timeout error of an owner in a deadlock names both owners."""

from __future__ import annotations

from conftest import Start
from harness.observer import Observer
from harness.server import Standalone

#: The client searches for a deadlock one second before the timeout. The search takes six round trips.
AMPLE = 5.0

#: Timeout in seconds that is longer than the test.
LONG = 120.0


def test_s852_a_deadlock_of_two_in_the_error(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    one, other = start(surface), start(surface)
    for worker, label in ((one, "worker-1"), (other, "worker-2")):
        worker.connect(server.hosts, label=label)
        for name in "ab":
            worker.lock(f"{path}/{name}", lock=name)
    one.enter("held", lock="a", owner="x")
    theirs = other.enter("held", lock="b", owner="y")
    # Owner `x` waits for owner `y`, but no owner waits for `x`, so this is no deadlock.
    alone = one.fail_to_enter(AMPLE / 5, "wanted", lock="b", owner="x", within="held")
    assert alone.reason == "taken"
    assert alone.deadlock is None
    waiting = other.send("enter", lock="a", scope="wanted", owner="y", timeout=LONG, within="held")
    observer.wait_queue(f"{path}/a", 2)
    error = one.fail_to_enter(AMPLE, "wanted", lock="b", owner="x", within="held")
    assert (error.code, error.reason) == ("LOCK_TIMEOUT", "taken")
    assert error.deadlock == {"held": f"{path}/a", "waited": f"{path}/b", "node": theirs["node"]}
    reported = f"; deadlock: you hold {path}/a and wait for {path}/b; worker-2 on "
    assert reported in error.message
    assert error.message.endswith(f" holds {path}/b and waits for {path}/a")
    # The deadlock is resolved when one of the owners releases its lock.
    one.leave("held", owner="x").expect("left")
    assert waiting.result()["event"] == "entered"


def test_s852_owners_of_one_client(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    worker = start(surface)
    worker.connect(server.hosts)
    for name in "ab":
        worker.lock(f"{path}/{name}", lock=name)
    worker.enter("one-held", lock="a", owner="x")
    theirs = worker.enter("other-held", lock="b", owner="y")
    waiting = worker.send(
        "enter", lock="a", scope="other-wanted", owner="y", timeout=LONG, within="other-held"
    )
    observer.wait_queue(f"{path}/a", 2)
    error = worker.fail_to_enter(AMPLE, "one-wanted", lock="b", owner="x", within="one-held")
    assert error.deadlock == {"held": f"{path}/a", "waited": f"{path}/b", "node": theirs["node"]}
    assert f" of this process holds {path}/b and waits for {path}/a" in error.message
    worker.leave("one-held", owner="x").expect("left")
    assert waiting.result()["event"] == "entered"
