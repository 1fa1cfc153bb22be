"""Every number that a client reports matches an independent measurement.

To detect mix-ups, the tests use two clients, two locks, and so on.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from harness.observer import Observer
from harness.proxy import Proxy
from harness.reported import Metrics, Moment, Span, assert_counts, granted, health, queued, released
from harness.server import Server, Standalone
from harness.stalls import STALL_MONITOR
from harness.steps import LATE, Start, await_loss, eventually, line_up
from harness.worker import Line, Worker

PAUSE = 0.06
EXPORTERS = ("prometheus", "opentelemetry")
LONG = 300


@pytest.fixture
def proxies(server: Standalone) -> Iterator[tuple[Proxy, Proxy]]:
    """Provide a proxy to the server for each of two clients."""
    with Proxy(server.hosts) as one, Proxy(server.hosts) as other:
        yield one, other


def granted_time_out(server: Server, session: int) -> float:
    """Return the timeout of a session in seconds, as the server lists it."""
    line = next(line for line in server.four_letter("cons").splitlines() if f"sid={session:#x}" in line)
    found = re.search(r"\bto=(\d+)", line)
    assert found is not None, line
    return int(found[1]) / 1000


def stats(worker: Worker, client: str) -> Line:
    """Return a client's statistics, with times in seconds."""
    value: Line = worker.call("stats", client=client)["value"]
    return value


def test_s775_the_health_of_two_clients_with_two_holds(
    surface: str,
    server: Standalone,
    observer: Observer,
    proxies: tuple[Proxy, Proxy],
    path: str,
    start: Start,
) -> None:
    worker = start(surface)
    asked = {"c": 30.0, "d": 45.0}
    for (client, time_out), proxy in zip(asked.items(), proxies, strict=True):
        worker.connect(proxy.hosts, client=client, session_timeout=time_out, label=f"client {client}")
    worker.lock(f"{path}/b", lock="old", label="the old one")
    worker.lock(f"{path}/a", lock="new", kind="write", label="the new one")
    worker.lock(f"{path}/a", lock="theirs", kind="read", client="d")
    worker.lock(f"{path}/z", lock="other", client="d", label="of the other")
    worker.lock(f"{path}/b", lock="waits", client="d")
    lines, since = {}, {}
    lines["old"], since["old"] = granted(worker.acquire("old", lock="old"))
    time.sleep(PAUSE)
    lines["new"], since["new"] = granted(worker.acquire("new", lock="new"))
    time.sleep(PAUSE)
    lines["other"], since["other"] = granted(worker.acquire("other", lock="other"))
    worker.hold("again", lock="new")
    time.sleep(PAUSE)
    # Two waits that differ in position and start time.
    for number in range(3):
        observer.client.create(f"{path}/b/x{number}-lock-", b"", ephemeral=True, sequence=True)
    since["waits"] = queued(observer, f"{path}/b", worker.acquire("w", lock="waits", owner="w"), 5)
    time.sleep(PAUSE)
    since["theirs"] = queued(observer, f"{path}/a", worker.acquire("t", lock="theirs", owner="t"), 2)
    eventually(
        lambda: all(wait["behind"] for wait in health(worker, "d").value["waits"]),
        "the waits' positions are known",
    )
    for proxy, (client, time_out) in zip(proxies, asked.items(), strict=True):
        report = health(worker, client)
        value = report.value
        held = ["new", "old"] if client == "c" else ["other"]
        assert [hold["path"] for hold in value["holds"]] == [
            f"{path}/{'a' if one == 'new' else 'b'}" for one in held
        ] or (client == "d")
        session = observer.owner(lines[held[0]]["node"])
        assert (value["state"], value["server"], int(value["session"])) == ("connected", proxy.hosts, session)
        assert value["session_timeout"] == granted_time_out(server, session) == time_out
        assert value["responsive"] is True
        for hold, name in zip(value["holds"], held, strict=True):
            node = lines[name]["node"]
            assert (hold["node"], int(hold["token"])) == (node, observer.czxid(node))
            assert observer.owner(node) == session
            assert hold["age"] in report.age_of(since[name]), name
            assert hold["levels"] == (2 if name == "new" else 1)
            assert (hold["state"], hold["pinned"]) == ("held", surface == "node")
            assert hold["mode"] == ("write" if name == "new" else "mutex")
            assert (
                hold["label"] == {"old": "the old one", "new": "the new one", "other": "of the other"}[name]
            )
            # The lease's term is the session's term.
            assert abs(hold["remaining"] - value["remaining"]) <= (report.answered - report.asked) / 1e9
        assert_term(proxy, report.value, report.asked, report.answered, time_out)
    assert health(worker, "c").value["waits"] == []
    report = health(worker, "d")
    behind, first = report.value["waits"]
    for wait, name, place in ((behind, "theirs", 1), (first, "waits", 4)):
        directory = f"{path}/{'a' if name == 'theirs' else 'b'}"
        queue = [f"{directory}/{node}" for node in observer.queue(directory)]
        assert (wait["path"], wait["node"], wait["position"]) == (directory, queue[place], place)
        assert wait["behind"] == queue[place - 1]
        assert wait["age"] in report.age_of(since[name]), name
        assert (wait["mode"], wait["label"]) == ("read" if name == "theirs" else "mutex", "client d")


def test_s775_what_the_servers_and_the_program_limit(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    """`health` reports the granted session timeout, and the remaining time of a hold that has a time
    limit.
    """
    observer.create(f"{path}/root")
    worker = start(surface)
    for client, asked, hosts in (("c", 600, f"{server.hosts}{path}/root"), ("d", 0.001, server.hosts)):
        session = worker.connect(hosts, client=client, session_timeout=asked)
        report = health(worker, client).value
        assert report["session_timeout"] == granted_time_out(server, session) != asked
    limits = {"brief": 6.0, "longer": 9.0, "free": None}
    since = {}
    for name, limit in limits.items():
        given: dict[str, Any] = {} if limit is None else {"max_hold": limit}
        worker.lock(f"/{name}", lock=name, **given)
        _, since[name] = granted(worker.acquire(name, lock=name))
        time.sleep(PAUSE)
    report = health(worker)
    for hold, (name, limit) in zip(report.value["holds"], sorted(limits.items()), strict=True):
        # Paths are below the chroot, as in the lease.
        (node,) = observer.queue(f"{path}/root/{name}")
        assert (hold["path"], hold["node"]) == (f"/{name}", f"/{name}/{node}")
        assert int(hold["token"]) == observer.czxid(f"{path}/root/{name}/{node}")
        if limit is None:
            assert hold["remaining"] <= report.value["session_timeout"] / 2
            assert hold["remaining"] > max(one for one in limits.values() if one is not None)
        else:
            assert limit - hold["remaining"] in report.age_of(since[name]), name


def assert_term(proxy: Proxy, value: Line, asked: int, answered: int, time_out: float) -> None:
    """Assert that the term is half of the session timeout, counted from the last acknowledged write."""
    assert abs(value["remaining"] + value["last_proof"] - time_out / 2) <= (answered - asked) / 1e9 + 0.001
    writes = {"create", "create2", "multi", "delete", "setData", "createContainer"}
    flights = [
        flight for flight in proxy.snapshot().flights if writes & set(flight.requests) and flight.closed
    ]
    last = max(flight.opened for flight in flights if flight.opened < asked / 1e9)
    # The client takes its time stamp before the proxy does.
    late = LATE + STALL_MONITOR.stalled_seconds(int(last * 1e9), answered)
    assert asked / 1e9 - last - late <= value["last_proof"] <= answered / 1e9 - last + late


def test_s776_the_statistics_of_two_clients(
    surface: str, observer: Observer, proxies: tuple[Proxy, Proxy], path: str, start: Start
) -> None:
    """Each client counts its own operations, and the requests on its own connections."""
    worker = start(surface)
    for client, proxy in zip("cd", proxies, strict=True):
        worker.connect(proxy.hosts, client=client, session_timeout=30)
        worker.lock(f"{path}/{client}", lock=client, client=client)
        worker.lock(f"{path}/both", lock=f"both {client}", client=client)
        worker.lock(f"{path}/gpu", lock=f"gpu {client}", client=client, kind="semaphore", permits=2)
    spans: dict[str, list[Span]] = {"c": [], "d": []}
    for client, times in (("c", 3), ("d", 1)):
        for number in range(times):
            _, since = granted(worker.acquire(client, lock=client))
            time.sleep(PAUSE * number)
            spans[client].append(since.until(released(worker, client, "a")))
    # The other client waits, tries and times out.
    _, since = granted(worker.acquire("h", lock="both c"))
    asked = worker.acquire("w", lock="both d", owner="w")
    observer.wait_queue(f"{path}/both", 2)
    for number in range(2):
        assert worker.try_acquire(f"t{number}", lock="both d", owner="b")["event"] == "busy"
    worker.acquire("late", lock="both d", owner="b", timeout=0.1).expect("timeout")
    spans["c"].append(since.until(released(worker, "h", "a")))
    _, since = granted(asked)
    spans["d"].append(since.until(released(worker, "w", "w")))
    # Two permits count as two holds. Of the three failed attempts, two are tries (they do not wait).
    worker.hold("p", lock="gpu c", count=2)
    for number in range(2):
        assert worker.try_acquire(f"q{number}", lock="gpu d", owner="b")["event"] == "busy"
    worker.acquire("late", lock="gpu d", owner="b", timeout=0.3).expect("timeout")
    worker.release("p")
    mine, theirs = stats(worker, "c"), stats(worker, "d")
    names = ("acquisitions", "contended", "busy", "timeouts", "losses", "sessions", "reconnections")
    assert {name: mine[name] for name in names} == dict(zip(names, (6, 0, 0, 0, 0, 1, 0), strict=True))
    assert {name: theirs[name] for name in names} == dict(zip(names, (2, 1, 4, 2, 0, 1, 0), strict=True))
    for report, client in ((mine, "c"), (theirs, "d")):
        # The time of the two permits was not measured.
        few = len(spans[client])
        assert report["hold"]["count"] == few + (2 if client == "c" else 0)
        assert report["wait"]["count"] == report["acquisitions"]
        if client == "d":
            assert report["hold"]["sum"] in spans[client][0] + spans[client][1]
            assert report["hold"]["max"] <= max(span.most for span in spans[client]) + 0.002
            assert_counts(report["hold"]["buckets"], spans[client])
    for proxy, report in zip(proxies, (mine, theirs), strict=True):
        seen = proxy.snapshot().requests
        for kind, ops in {
            "create": ("create", "create2"),
            "list": ("getChildren", "getChildren2"),
            "sync": ("sync",),
            "delete": ("delete",),
        }.items():
            assert report["requests"][kind] == sum(seen[op] for op in ops), (kind, report["requests"], seen)


def test_s776_sessions_and_losses(
    surface: str, observer: Observer, proxies: tuple[Proxy, Proxy], path: str, start: Start
) -> None:
    worker = start(surface)
    for client, proxy in zip("cd", proxies, strict=True):
        # Longer than any pause of a busy machine: the session must not expire before the test ends it.
        worker.connect(proxy.hosts, client=client, session_timeout=60)
        for number in range(3):
            worker.lock(f"{path}/{client}{number}", lock=f"{client}{number}", client=client)
            worker.hold(f"{client}{number}", lock=f"{client}{number}")
    cuts = {"c": 2, "d": 0}
    for number in range(1, cuts["c"] + 1):
        proxies[0].cut()
        eventually(lambda n=number: stats(worker, "c")["reconnections"] == n, "it is counted")  # type: ignore[misc]
        assert len(proxies[0].snapshot().arrivals) == 1 + number
    for client, number in (("c", 0), ("d", 0), ("d", 1)):
        (node,) = observer.queue(f"{path}/{client}{number}")
        observer.delete(f"{path}/{client}{number}/{node}")
        await_loss(worker, f"{client}{number}")
    assert {client: stats(worker, client)["reconnections"] for client in cuts} == cuts
    session = worker.sessions["c"]
    # Disconnect the client first. Otherwise it could learn that its nodes are deleted before it learns that
    # its session has ended.
    proxies[0].refuse()
    observer.kill_session(session, proxies[0].passwords[session])
    proxies[0].accept()
    for number in (1, 2):
        await_loss(worker, f"c{number}")
    worker.hold("next", lock="c0")
    lost = {client: stats(worker, client) for client in "cd"}
    for client, wanted in {
        "c": {"node deleted": 1, "session expired": 2},
        "d": {"node deleted": 2},
    }.items():
        report = lost[client]
        assert {why: count for why, count in report["losses_by_reason"].items() if count} == wanted
        assert report["losses"] == sum(wanted.values())
    assert lost["c"]["sessions"] == len(set(proxies[0].passwords) - {0}) == 2
    assert lost["d"]["sessions"] == len(set(proxies[1].passwords) - {0}) == 1


@pytest.mark.parametrize("exporter", EXPORTERS)
def test_s777_exporters_with_two_clients(
    surface: str,
    exporter: str,
    observer: Observer,
    proxies: tuple[Proxy, Proxy],
    path: str,
    start: Start,
) -> None:
    worker = start(surface)
    for client, proxy in zip("cd", proxies, strict=True):
        worker.connect(proxy.hosts, client=client, session_timeout=20 if client == "c" else 40)
    for name, kind, client in [
        ("m", "mutex", "c"),
        ("r", "read", "c"),
        ("w", "write", "d"),
        ("mw", "mutex", "d"),
        ("e", "election", "d"),
        ("s", "semaphore", "c"),
    ]:
        options: dict[str, Any] = {"permits": 2} if kind == "semaphore" else {}
        worker.lock(f"{path}/{name[0]}", lock=name, kind=kind, client=client, **options)
    # The write lock is on the path of the read lock.
    worker.lock(f"{path}/r", lock="w", kind="write", client="d")
    # Two holds that have ended: a short one and a longer one.
    spans = []
    for pause in (0, 5 * PAUSE):
        _, since = granted(worker.acquire("s", lock="s"))
        time.sleep(pause)
        spans.append(since.until(released(worker, "s", "a")))
    # Load the exporter, so that the next query takes almost no time.
    Metrics(worker, exporter, "cd")
    began: dict[str, Moment] = {}
    # Acquire the locks in another order than that of their paths.
    for name in ("r", "m", "e"):
        _, began[name] = granted(worker.acquire(name, lock=name))
        time.sleep(5 * PAUSE)
    worker.hold("permits", lock="s", count=2)
    assert worker.try_acquire("b", lock="mw", owner="b")["event"] == "busy"
    for number in range(2):
        worker.acquire(f"late {number}", lock="mw", owner="b", timeout=0.05).expect("timeout")
    observer.wait_queue(f"{path}/m", 1)
    began["w"] = queued(observer, f"{path}/r", worker.acquire("w", lock="w", owner="w"), 2)
    time.sleep(5 * PAUSE)
    began["mw"] = queued(observer, f"{path}/m", worker.acquire("mw", lock="mw", owner="mw"), 2)
    # Wait until the client knows the position of each wait. After that, it has no request in progress.
    eventually(
        lambda: all(wait["behind"] for wait in health(worker, "d").value["waits"]),
        "the waits' positions are known",
    )
    report = Metrics(worker, exporter, "cd")
    counts = {"acquisitions": (6, 1), "contended": (0, 0), "busy": (0, 1), "timeouts": (0, 2)}
    counts |= {"sessions": (1, 1), "reconnections": (0, 0)}
    for name, (mine, theirs) in counts.items():
        assert (report(name, client="c"), report(name, client="d")) == (mine, theirs), name
    assert set(report.all("losses").values()) == {0}
    for client, proxy in zip("cd", proxies, strict=True):
        seen = proxy.snapshot().requests
        for kind, ops in {"create": ("create", "create2"), "delete": ("delete",)}.items():
            assert report("requests", client=client, kind=kind) == sum(seen[op] for op in ops), kind
        # The state "forked" does not exist in Node.
        for state in ("idle", "connecting", "connected", "suspended", "closed", "forked")[
            : 5 + (surface != "node")
        ]:
            assert report("state", client=client, state=state) == (state == "connected")
        assert report("responsive", client=client) == 1
        half = (20 if client == "c" else 40) / 2
        left = report.seconds("term_remaining", client)
        # A heartbeat is sent when a third of the term has passed.
        assert half / 2 < left <= half
    assert now_by_mode(report, "holders", path) == {
        ("c", "mutex", "/m"): 1,
        ("c", "read", "/r"): 1,
        ("c", "permit", "/s"): 2,
        ("d", "leadership", "/e"): 1,
    }
    assert now_by_mode(report, "waiters", path) == {("d", "write", "/r"): 1, ("d", "mutex", "/m"): 1}
    assert report.seconds("oldest_hold", "c") in report.age_of(began["r"])
    assert report.seconds("oldest_hold", "d") in report.age_of(began["e"])
    assert report.seconds("oldest_wait", "d") in report.age_of(began["w"])
    assert report.seconds("oldest_wait", "c") == 0
    if exporter == "prometheus":
        assert report("hold_seconds_count", client="c") == 2
        assert report("hold_seconds_sum", client="c") in spans[0] + spans[1]
        assert report("hold_seconds_count", client="d") == 0
        assert report("wait_seconds_count", client="c") == 6
        buckets = {
            float(dict(labels)["le"].replace("+Inf", "inf")): value
            for labels, value in report.all("hold_seconds_bucket").items()
            if ("client", "c") in labels
        }
        bounds = sorted(buckets)
        assert bounds[:3] == [0.0001, 0.0002, 0.0005]
        assert bounds[-2:] == [1000.0, float("inf")]
        assert_counts(sorted(buckets.items()), spans)


def now_by_mode(report: Metrics, name: str, path: str) -> dict[tuple[str, str, str], float]:
    """Return the nonzero values of a gauge by client, mode and path."""
    found = {}
    for labels, value in report.all(name).items():
        by = dict(labels)
        if value:
            found[by["client"], by["mode"], by["path"].removeprefix(path)] = value
    return found


def test_s778_a_long_listing(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    """`contenders()` lists hundreds of contenders, each with its own position, session, token and data."""
    mine = start(surface)
    mine.connect(server.hosts, label="ours")
    mine.lock(path)
    held = mine.hold()
    with ExitStack() as stack:
        others = [stack.enter_context(Observer(server.hosts)) for _ in range(3)]
        made = [
            others[number % 3].client.create_async(
                f"{path}/_c_{number:032}-lock-", b"%d" % number, ephemeral=True, sequence=True
            )
            for number in range(LONG)
        ]
        for one in made:
            one.get(timeout=30)
        waiting = mine.acquire("w", owner="b")
        observer.wait_queue(path, LONG + 2)
        found = mine.call("contenders", lock="m")["value"]
        asked = [(node, observer.client.get_async(f"{path}/{node}")) for node in observer.queue(path)]
        for position, (one, (node, read)) in enumerate(zip(found, asked, strict=True)):
            data, stat = read.get(timeout=30)
            assert (one["position"], one["node"]) == (position, f"{path}/{node}")
            assert (int(one["token"]), int(one["session"])) == (stat.czxid, stat.ephemeralOwner)
            assert (one["data"].encode("latin-1"), one["data_length"]) == (data, stat.dataLength)
        sessions = {int(one["session"]) for one in found}
        assert sessions == {mine.sessions["c"], *(other.client.client_id[0] for other in others)}
        assert found[0]["token"] == held["token"]
        eventually(
            lambda: health(mine).value["waits"][0]["position"] == LONG + 1, "the waiter's position is known"
        )
    # The contenders' nodes are deleted when their sessions expire.
    observer.wait_queue(path, 2, timeout=30)
    mine.release()
    waiting.expect("acquired", 30)
    mine.release("w", owner="b")


def test_s778_candidates(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    workers = [start(surface) for _ in range(2)]
    for number, worker in enumerate(workers):
        worker.connect(server.hosts)
        worker.lock(path, kind="election", candidate=f"candidate {number}")
    workers[0].hold()
    line_up(observer, path, workers[1:])
    found = workers[1].call("candidates", lock="m")["value"]
    queue = [f"{path}/{node}" for node in observer.queue(path)]
    assert [
        (one["position"], one["node"], int(one["session"]), int(one["token"]), one["id"]) for one in found
    ] == [
        (place, node, observer.owner(node), observer.czxid(node), f"candidate {place}")
        for place, node in enumerate(queue)
    ]
    assert [int(one["session"]) for one in found] == [worker.sessions["c"] for worker in workers]
    leader = workers[0].call("leader", lock="m")["value"]
    assert leader == found[0]


def test_s779_blockers_in_the_error(
    surface: str, server: Standalone, observer: Observer, path: str, start: Start
) -> None:
    """A timeout error has the numbers of all blocking contenders: two readers, or two permit holders."""
    workers = [start(surface) for _ in range(2)]
    late = start(surface)
    for number, worker in enumerate([*workers, late]):
        worker.connect(server.hosts, label=f"worker {number}")
        worker.lock(f"{path}/r", lock="r", kind="write" if worker is late else "read")
        worker.lock(f"{path}/s", lock="s", kind="semaphore", permits=2)
    for lock, directory in (("r", f"{path}/r"), ("s", f"{path}/s/leases")):
        for number, worker in enumerate(workers):
            worker.hold(lock, lock=lock)
            observer.wait_queue(directory, number + 1)
        error = late.fail_to_enter(1.0, lock=lock)
        assert error.code == "LOCK_TIMEOUT"
        seen = {blocker["node"]: blocker for blocker in error.blockers}
        assert seen, "the error names a contender"
        for place, node in enumerate(observer.queue(directory)[:2]):
            if (blocker := seen.get(f"{directory}/{node}")) is not None:
                owner = observer.owner(f"{directory}/{node}")
                assert (blocker["position"], int(blocker["session"])) == (place, owner)
                number = [worker.sessions["c"] for worker in workers].index(owner)
                assert (blocker["pid"], blocker["label"]) == (workers[number].pid, f"worker {number}")
        if lock == "s":
            assert len(seen) == 2
