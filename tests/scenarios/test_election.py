"""Tests of elections between candidates of zklock and Curator, and of observers of the leader."""

from __future__ import annotations

import pytest

from harness.history import assert_clean
from harness.observer import Observer, watched_by
from harness.proxy import Proxy
from harness.server import Standalone
from harness.steps import Start, assert_granted_later, assert_within, eventually, line_up, watch_losses
from harness.worker import Worker

SESSION = 2.0


def runner(
    start: Start, surface: str, hosts: str, path: str, name: str, session_timeout: float = 10
) -> Worker:
    """Return a worker with a client `c` and a candidate `m` of this name."""
    worker = start(surface)
    worker.connect(hosts, session_timeout=session_timeout)
    worker.lock(path, kind="election", candidate=name)
    return worker


def ask(worker: Worker, what: str) -> object:
    """Ask a worker whether it leads, or which candidate leads or would lead."""
    return worker.call(what, lock="m")["value"]


def leader(worker: Worker) -> str | None:
    """Return the ID of the leader, as the worker reports it."""
    found = worker.call("leader", lock="m")["value"]
    return None if found is None else str(found["id"])


def seen(worker: Worker) -> list[str | None]:
    """Return the leaders that were reported to a worker."""
    lines = (line for line in worker.lines() if line["event"] == "leader")
    return [line["leader"] and line["leader"]["id"] for line in lines]


def assert_observed(worker: Worker, *leaders: str | None) -> None:
    """Wait until the latest leaders reported to a worker are these."""
    eventually(lambda: seen(worker)[-len(leaders) :] == list(leaders), f"{leaders} lead", 15)


def test_s360_candidates_of_both_libraries_lead_in_order(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    ids = ["ours-ä", "theirs-1", "", "ours-2", "theirs-ö"]
    surfaces = [surface, "curator", surface, surface, "curator"]
    workers = [
        runner(start, each, server.hosts, path, name) for each, name in zip(surfaces, ids, strict=True)
    ]
    waiting = line_up(observer, path, workers)
    for worker in workers[:2]:
        assert leader(worker) == ids[0]
        found = worker.call("candidates", lock="m")["value"]
        assert [(each["position"], each["id"]) for each in found] == list(enumerate(ids))
    for place, (worker, pending) in enumerate(zip(workers, waiting, strict=True)):
        pending.expect("acquired")
        assert [leader(each) for each in workers[:2]] == [ids[place]] * 2
        assert [ask(each, "leads") for each in workers if each.name.startswith(surface)] == [
            each is worker for each in workers if each.name.startswith(surface)
        ]
        assert not any(later.done for later in waiting[place + 1 :])
        worker.release()
    # Curator's release deletes the node in the background.
    eventually(lambda: leader(workers[0]) is None, "no candidate leads")
    assert_clean([hold for worker in workers for hold in worker.holds()], at_least=len(ids))
    observer.wait_queue(path, 0)


def test_s361_one_leads_at_a_time(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    workers = [runner(start, each, server.hosts, path, "first") for each in (surface, surface, "curator")]
    workers[0].hold()
    contests = [
        worker.contend(path, kind="election", owners=3, rounds=4, hold_ms=(0, 10)) for worker in workers
    ]
    # Java starts slowly, so the first leader releases the lock only after all candidates have joined.
    observer.wait_queue(path, 10)
    workers[0].release()
    for contest in contests:
        contest.expect("done", 60)
    assert_clean([hold for worker in workers for hold in worker.holds()], at_least=37)
    observer.wait_queue(path, 0)


@pytest.mark.parametrize("killed", ["ours", "theirs"])
def test_s362_a_killed_leader(
    surface: str, killed: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    names = (surface, "curator") if killed == "ours" else ("curator", surface)
    first = runner(start, names[0], server.hosts, path, "first", SESSION)
    second = runner(start, names[1], server.hosts, path, "second")
    first.hold()
    (waiting,) = line_up(observer, path, [second])
    first.kill()
    assert first.killed is not None
    assert_within(waiting.expect("acquired"), first.killed, SESSION + 2)
    assert leader(second) == "second"
    second.release()
    assert_clean(first.holds() + second.holds(), at_least=2)


def test_s363_a_leader_that_is_cut_off_resigns_before_curator_leads(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    ours = runner(start, surface, proxy.hosts, path, "ours", SESSION)
    theirs = runner(start, "curator", server.hosts, path, "theirs")
    ours.hold()
    (waiting,) = line_up(observer, path, [theirs])
    assert ask(ours, "leads") is True
    proxy.black_hole()
    lost = watch_losses(ours, ["l"])
    assert ask(ours, "leads") is False
    assert_granted_later(lost, theirs, {"l": waiting})
    proxy.heal()
    # The candidate can be elected again.
    ours.acquire("again").expect("acquired", 30)
    assert ask(ours, "leads") is True
    ours.release("again")


def test_s364_a_campaign_that_ends_leaves_no_candidate(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    first, second = (runner(start, surface, server.hosts, path, name) for name in ("first", "second"))
    first.hold()
    assert second.try_acquire("try")["event"] == "busy"
    second.acquire("in time", timeout=0.3).expect("timeout")
    observer.wait_queue(path, 1)
    if not second.surface.cancels_by_signal:
        (waiting,) = line_up(observer, path, [second])
        second.cancel(waiting)
        waiting.expect("cancelled")
    observer.wait_queue(path, 1)
    assert ask(second, "leads") is False
    first.release()
    second.hold("again")
    second.release("again")
    observer.assert_free(path)


def test_s365_a_candidate_continues_in_a_new_session(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    first = runner(start, "curator", server.hosts, path, "first")
    second = runner(start, surface, proxy.hosts, path, "second")
    first.hold()
    (waiting,) = line_up(observer, path, [second])
    old = observer.queue(path)[1]
    session = second.sessions["c"]
    observer.kill_session(session, proxy.passwords[session])
    observer.wait(path, lambda nodes: len(nodes) == 2 and old not in nodes, "new node")
    assert not waiting.done
    first.release()
    assert int(waiting.expect("acquired")["session"]) != session
    assert leader(second) == "second"
    second.release()


def test_s366_an_observer_is_notified_of_each_leader(
    surface: str, server: Standalone, proxy: Proxy, observer: Observer, path: str, start: Start
) -> None:
    watcher = runner(start, surface, proxy.hosts, path, "watcher")
    ours = runner(start, surface, server.hosts, path, "ours")
    theirs = runner(start, "curator", server.hosts, path, "theirs")
    # The directory does not exist yet.
    watcher.call("observe", lock="m")
    assert_observed(watcher, None)
    ours.hold()
    assert_observed(watcher, None, "ours")
    (waiting,) = line_up(observer, path, [theirs])
    ours.release()
    assert_observed(watcher, "ours", "theirs")
    waiting.expect("acquired")
    # The watcher still reports the current leader after it loses its connection, and after it loses its
    # session.
    proxy.black_hole()
    theirs.release()
    ours.hold()
    proxy.heal()
    assert_observed(watcher, "ours")
    session = watcher.sessions["c"]
    observer.kill_session(session, proxy.passwords[session])
    ours.release()
    theirs.hold()
    assert_observed(watcher, "theirs")
    theirs.release()
    assert_observed(watcher, None)
    assert ask(watcher, "leads") is False


def test_s367_observing_costs_one_watch(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    watcher, first, second = (
        runner(start, surface, server.hosts, path, name) for name in ("watcher", "first", "second")
    )
    first.hold()
    watcher.call("observe", lock="m")
    assert_observed(watcher, "first")
    (waiting,) = line_up(observer, path, [second])
    (node, _) = observer.queue(path)
    assert watched_by(server, watcher.sessions["c"], path) == {f"{path}/{node}"}
    before = watcher.call("stats", client="c")["value"]["requests"]
    # Another candidate behind the leader causes no report.
    third = runner(start, surface, server.hosts, path, "third")
    line_up(observer, path, [third])
    first.release()
    assert_observed(watcher, "first", "second")
    waiting.expect("acquired")
    after = watcher.call("stats", client="c")["value"]["requests"]
    sent = {kind: after[kind] - before[kind] for kind in after if after[kind] != before[kind]}
    assert sent == {"list": 1, "watch": 1, "read": 1}
    second.release()
    watcher.call("close", client="c")
    eventually(lambda: watched_by(server, watcher.sessions["c"], path) == set(), "nothing is watched")
