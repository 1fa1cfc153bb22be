"""A lock is granted to the next waiter after its holder's process is killed or stopped."""

from __future__ import annotations

from harness.answers import now
from harness.history import assert_clean
from harness.observer import Observer
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import Start, assert_within, await_loss, line_up, user

SESSION = 2.0


def test_s14_a_killed_holder_frees_the_lock(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    holder = user(start, surface, server.hosts, path, session_timeout=SESSION)
    other = user(start, surface, server.hosts, path)
    holder.hold()
    (waiting,) = line_up(observer, path, [other])
    holder.kill()
    assert holder.killed is not None
    assert_within(waiting.expect("acquired"), holder.killed, SESSION, late=2)
    other.release()
    assert_clean(holder.holds() + other.holds(), at_least=2)
    observer.assert_free(path)


def test_s48_a_paused_holder(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    holder = user(start, surface, proxy.hosts, path, session_timeout=2 * SESSION)
    other = user(start, surface, server.hosts, path)
    holder.hold()
    (waiting,) = line_up(observer, path, [other])
    # The process receives no reply after it resumes. Only its clock can show that the lease is over.
    proxy.black_hole()
    assert holder.check().expect("value")["value"] == "held"
    paused = now()
    holder.presume_lost()
    holder.pause()
    assert_within(waiting.expect("acquired"), paused, 2 * SESSION, late=2)
    # The check is the first action of the resumed process.
    first = holder.check()
    woken = now()
    holder.resume()
    assert first.error().code == "LOCK_LOST"
    reported = holder.wait_line("lost", lease="l")
    assert_within(reported, woken, 0)
    proxy.heal()
    await_loss(holder)
    assert len(observer.queue(path)) == 1
    other.release()
    holder.hold("again", owner="b")
    holder.release("again", owner="b")
    assert_clean(holder.holds() + other.holds(), at_least=3)
    observer.assert_free(path)
