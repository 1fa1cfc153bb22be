"""Numbers and names of owners: threads, tasks and greenlets."""

from __future__ import annotations

import _thread
import asyncio
import pickle
import threading
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import pytest
import scripts
from harness.observer import Observer

import zklock
from zklock import aio
from zklock.compat import kazoo

T = TypeVar("T")


def in_thread(function: Callable[[], T], **options: Any) -> T:
    """Return the result of a function in a new thread."""
    thread = options.pop("kind", threading.Thread)(target=lambda: outcome.append(function()), **options)
    outcome: list[T] = []
    thread.start()
    thread.join(60)
    (result,) = outcome
    return result


def first_owner(lock: zklock.Lock) -> zklock.OwnerInfo:
    """Return the owner of the first contender."""
    owner = lock.contenders()[0].owner
    assert owner is not None
    return owner


def owner_while_held(lock: zklock.Lock) -> zklock.OwnerInfo:
    with lock:
        return first_owner(lock)


def test_a_contender_names_its_thread(
    client: zklock.Client, other: zklock.Client, observer: Observer, path: str
) -> None:
    ready, end = threading.Event(), threading.Event()

    def hold() -> None:
        with zklock.Mutex(client, path):
            ready.set()
            end.wait(60)

    thread = threading.Thread(target=hold, name="worker-1")
    thread.start()
    assert ready.wait(60)
    observer.client.create(f"{path}/x-lock-", b"10.0.0.1", ephemeral=True, sequence=True)
    lock = zklock.Mutex(other, path)
    ours, theirs = lock.contenders()
    (hold_report,) = client.health().holds
    with pytest.raises(zklock.LockTimeout) as caught:
        lock.hold(timeout=0.1).__enter__()
    end.set()
    thread.join(60)
    assert theirs.owner is None
    assert ours.owner is not None
    assert (ours.owner.name, hold_report.owner.name) == ("worker-1", "worker-1")
    assert ours.owner.number == hold_report.owner.number > 0
    assert ours.owner.process > 0
    number = ours.owner.number
    assert f", owner {number} (worker-1), since " in str(caught.value)
    assert caught.value.blockers[0].owner == ours.owner
    assert repr(ours.owner) == f"<zklock.OwnerInfo {number} (worker-1)>"
    assert repr(hold_report.owner) == f"<zklock.OwnerReport {number} (worker-1)>"
    assert repr(ours).endswith(f", owner {number} (worker-1)>")


def test_an_owner_can_be_pickled_and_counted(client: zklock.Client, path: str) -> None:
    lock = zklock.Mutex(client, path)
    with lock:
        first, again = lock.contenders()[0], lock.contenders()[0]
    assert first.owner is not None
    assert first.owner is not again.owner
    assert {first.owner: 1} == {again.owner: 1}
    for whole in (first, first.owner):
        assert pickle.loads(pickle.dumps(whole)) == whole


def test_a_thread_keeps_its_number_under_each_name(
    client: zklock.Client, other: zklock.Client, path: str
) -> None:
    locks = zklock.Mutex(client, path), zklock.Mutex(other, f"{path}-b", reentrant=False)

    def rename() -> list[zklock.OwnerInfo]:
        seen = [owner_while_held(lock) for lock in locks]
        threading.current_thread().name = "renamed"
        return seen + [owner_while_held(lock) for lock in locks]

    seen, another = (
        in_thread(rename, name="first"),
        in_thread(lambda: owner_while_held(locks[0]), name="first"),
    )
    assert [owner.name for owner in seen] == ["first", "first", "renamed", "renamed"]
    assert len({owner.number for owner in seen}) == 1
    assert another.name == "first"
    assert another.number != seen[0].number
    assert len({owner.process for owner in (*seen, another)}) == 1


def test_a_name_is_that_of_the_acquire_and_not_of_a_re_entry(client: zklock.Client, path: str) -> None:
    lock = zklock.Mutex(client, path)

    def re_enter() -> tuple[zklock.OwnerInfo, zklock.OwnerReport]:
        with lock:
            threading.current_thread().name = "renamed"
            with lock:
                return first_owner(lock), client.health().holds[0].owner

    published, reported = in_thread(re_enter, name="first")
    assert (published.name, reported.name) == ("first", "first")


KINDS: dict[str, Callable[[zklock.Client, str], AbstractContextManager[Any]]] = {
    "mutex": zklock.Mutex,
    "without re-entry": lambda client, path: zklock.Mutex(client, path, reentrant=False),
    "hold": lambda client, path: zklock.Mutex(client, path).hold(5),
    "read": lambda client, path: zklock.ReadWriteLock(client, path).read_lock,
    "write": lambda client, path: zklock.ReadWriteLock(client, path).write_lock,
    "permit": lambda client, path: zklock.Semaphore(client, path, 2),
    "permits": lambda client, path: zklock.Semaphore(client, path, 2).acquire_many(1),
    "leadership": lambda client, path: zklock.Election(client, path).lead(),
    "several": lambda client, path: zklock.MultiLock([zklock.Mutex(client, path)]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_of_lock_names_the_thread(client: zklock.Client, path: str, kind: str) -> None:
    def hold() -> zklock.OwnerReport:
        with KINDS[kind](client, path):
            return client.health().holds[0].owner

    mutex = zklock.Mutex(client, f"{path}-mutex")
    number, owner = in_thread(lambda: (owner_while_held(mutex).number, hold()), name="worker-1")
    assert (owner.number, owner.name) == (number, "worker-1")


def test_a_turn_of_a_slot_names_the_thread(client: zklock.Client, path: str) -> None:
    lock = zklock.Mutex(client, path)
    body = lambda _lease: first_owner(lock)  # noqa: E731
    owner = in_thread(lambda: lock.once("monday", body), name="worker-1")
    assert owner is not None
    assert owner.name == "worker-1"


def test_a_lock_in_kazoo_s_words_names_the_thread(client: zklock.Client, path: str) -> None:
    lock = zklock.Mutex(client, path)

    def hold() -> list[zklock.OwnerInfo]:
        with kazoo.Lock(client, path):
            seen = first_owner(lock)
        return [seen, owner_while_held(lock)]

    first, second = in_thread(hold, name="worker-1")
    assert first.name == "worker-1"
    assert first == second


def test_a_client_without_identify_hides_its_owners_from_others(
    hosts: str, other: zklock.Client, path: str
) -> None:
    with zklock.Client(hosts, identify=False) as client, zklock.Mutex(client, path):
        lock = zklock.Mutex(other, path)
        assert lock.contenders()[0].owner is None
        with pytest.raises(zklock.LockTimeout) as caught, lock.hold(timeout=0.1):
            pass
        assert "owner" not in str(caught.value)
        # Its own program can see the name.
        assert client.health().holds[0].owner.name == "MainThread"


def test_a_long_name_is_cut_and_its_control_characters_are_escaped(
    client: zklock.Client, other: zklock.Client, path: str
) -> None:
    name = "a\x1b[2J" + 50 * "é"
    lock = zklock.Mutex(client, path)

    def hold() -> tuple[zklock.OwnerInfo, zklock.OwnerReport, str]:
        with lock:
            with pytest.raises(zklock.LockTimeout) as caught, zklock.Mutex(other, path).hold(timeout=0.1):
                pass
            return first_owner(lock), client.health().holds[0].owner, str(caught.value)

    published, reported, error = in_thread(hold, name=name)
    # Two bytes per character, within the limit of 64.
    beginning = "a\x1b[2J" + 29 * "é"
    assert (published.name, reported.name) == (beginning, name)
    escaped = beginning.replace("\x1b", "\\u{1b}")
    assert f", owner {published.number} ({escaped}), since " in error
    assert "\x1b" not in error + repr(published) + repr(reported)


class Odd(threading.Thread):
    """A thread whose name the test controls."""

    answer: Callable[[], Any] | None = None

    @property
    def name(self) -> Any:
        return "odd" if Odd.answer is None else Odd.answer()

    @name.setter
    def name(self, name: str) -> None:
        pass


def raising(error: BaseException) -> Callable[[], Any]:
    """Return a function that raises."""

    def answer() -> Any:
        raise error

    return answer


NO_NAMES: dict[str, Callable[[], Any]] = {
    "a number": lambda: 5,
    "empty": lambda: "",
    "raises": raising(ValueError("no name")),
    "missing": raising(AttributeError("name")),
}


@pytest.mark.parametrize("case", NO_NAMES)
def test_a_thread_without_a_usable_name_acquires(
    client: zklock.Client, path: str, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = zklock.Mutex(client, path)

    def hold() -> zklock.OwnerInfo:
        monkeypatch.setattr(Odd, "answer", staticmethod(NO_NAMES[case]))
        try:
            return owner_while_held(lock)
        finally:
            monkeypatch.undo()

    owner = in_thread(hold, kind=Odd)
    assert owner.name is None
    assert repr(owner) == f"<zklock.OwnerInfo {owner.number}>"


def test_an_exit_exception_during_the_read_of_a_name_ends_the_acquire(
    client: zklock.Client, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = zklock.Mutex(client, path)

    def interrupted() -> list[zklock.Contender]:
        monkeypatch.setattr(Odd, "answer", staticmethod(raising(KeyboardInterrupt())))
        try:
            with pytest.raises(KeyboardInterrupt):
                lock.acquire()
        finally:
            monkeypatch.undo()
        return lock.contenders()

    assert in_thread(interrupted, kind=Odd) == []


def test_a_lone_surrogate_in_a_name_is_replaced(client: zklock.Client, path: str) -> None:
    owner = in_thread(lambda: owner_while_held(zklock.Mutex(client, path)), name="a\ud800")
    assert owner.name is not None
    assert owner.name.startswith("a")


def test_a_thread_of_another_library_has_a_number_and_no_name(client: zklock.Client, path: str) -> None:
    lock, done = zklock.Mutex(client, path), threading.Event()
    seen: list[zklock.OwnerInfo] = []
    before = set(threading.enumerate())

    def hold() -> None:
        seen.append(owner_while_held(lock))
        seen.append(owner_while_held(lock))
        named.update(set(threading.enumerate()) - before)
        done.set()

    named: set[threading.Thread] = set()
    _thread.start_new_thread(hold, ())
    assert done.wait(60)
    first, second = seen
    assert first == second
    assert first.name is None
    assert not named, "none is made for it"


def run_in_loop(hosts: str, body: Callable[[aio.Client], Coroutine[Any, Any, T]]) -> T:
    """Run a task named `first` with a client, and return its result."""

    async def main() -> T:
        async with aio.Client(hosts) as client:
            return await asyncio.create_task(body(client), name="first")

    return asyncio.run(main())


def test_a_task_is_named_and_its_thread_is_not(hosts: str, path: str) -> None:
    async def body(client: aio.Client) -> None:
        lock, slots = aio.Mutex(client, path), aio.Semaphore(client, f"{path}-s", 2)
        several = aio.MultiLock([aio.Mutex(client, f"{path}-m")])

        async def second() -> zklock.OwnerInfo | None:
            async with lock:
                return (await lock.contenders())[0].owner

        async with lock, slots, slots.acquire_many(1), several:
            waiting = asyncio.create_task(second(), name="second")
            while not client.health().waits:
                await asyncio.sleep(0.01)
            holder, waiter = [contender.owner for contender in await lock.contenders()]
            health = client.health()
        assert holder is not None
        assert waiter is not None
        assert (holder.name, waiter.name) == ("first", "second")
        assert holder.number != waiter.number
        assert [(hold.owner.number, hold.owner.name) for hold in health.holds] == 4 * [
            (holder.number, "first")
        ]
        (wait,) = health.waits
        assert (wait.owner.number, wait.owner.name) == (waiter.number, "second")
        assert await waiting == waiter
        # A different name, but the same owner.
        task = asyncio.current_task()
        assert task is not None
        task.set_name("renamed")
        owner = await lock.once("monday", lambda _lease: first_of(lock))
        assert owner is not None
        assert (owner.number, owner.name) == (holder.number, "renamed")

    run_in_loop(hosts, body)


async def first_of(lock: aio.Lock) -> zklock.OwnerInfo | None:
    """Return the owner of the first contender."""
    return (await lock.contenders())[0].owner


def test_a_coroutine_that_another_task_runs_names_the_task_that_called(hosts: str, path: str) -> None:
    async def body(client: aio.Client) -> zklock.OwnerInfo | None:
        lock = aio.Mutex(client, path)
        await asyncio.create_task(lock.acquire(), name="helper")
        try:
            return await first_of(lock)
        finally:
            await lock.release()

    owner = run_in_loop(hosts, body)
    assert owner is not None
    assert owner.name == "first"


@pytest.mark.parametrize("case", NO_NAMES)
def test_a_task_without_a_usable_name_acquires(hosts: str, path: str, case: str) -> None:
    class OddTask(asyncio.Task[Any]):
        answer: Callable[[], Any] | None = None

        def get_name(self) -> Any:
            return "odd" if OddTask.answer is None else OddTask.answer()

    async def hold(lock: aio.Mutex) -> zklock.OwnerInfo | None:
        OddTask.answer = staticmethod(NO_NAMES[case])
        try:
            async with lock:
                return await first_of(lock)
        finally:
            OddTask.answer = None

    async def body(client: aio.Client) -> zklock.OwnerInfo | None:
        loop = asyncio.get_running_loop()
        odd: asyncio.Task[zklock.OwnerInfo | None] = OddTask(hold(aio.Mutex(client, path)), loop=loop)
        return await odd

    owner = run_in_loop(hosts, body)
    assert owner is not None
    assert owner.name is None


GREENLETS = """
import gevent
lock = zklock.Mutex(hosts, path)
def first_owner():
    with lock:
        return lock.contenders()[0].owner
def named(name, function=first_owner):
    greenlet = gevent.Greenlet(function)
    greenlet.name = name
    greenlet.start()
    return greenlet.get()
def twice():
    first = first_owner()
    gevent.getcurrent().name = "renamed"
    return first, first_owner()
first, again = named("first", twice)
print(first.name, again.name, first.number == again.number)
print(named(5).name, named("").name, named("second").number == first.number)
print(first_owner().name)
"""


@pytest.mark.parametrize("patched", [False, True])
def test_a_greenlet_is_named(hosts: str, path: str, patched: bool) -> None:
    patch = "from gevent import monkey\nmonkey.patch_all()\n" if patched else ""
    threads = """
threading.current_thread()
print(named("third", lambda: (threading.current_thread(), first_owner())[1]).name)
seen = []
thread = threading.Thread(target=lambda: seen.append(first_owner()), name="worker-1")
thread.start()
thread.join()
print(seen[0].name)
"""
    code = GREENLETS + (threads if patched else "")
    done = scripts.run(code, hosts, path, head=patch + scripts.HEAD)
    assert (done.returncode, done.stderr) == (0, "")
    expected = ["first renamed True", "None None False", "MainThread"]
    # If `threading` is patched, a thread is a greenlet, and has the name that the program gave it.
    assert done.stdout.splitlines() == expected + (["third", "worker-1"] if patched else [])


def test_a_dump_says_a_name_once(client: zklock.Client, path: str) -> None:
    def hold() -> str:
        with zklock.Mutex(client, path):
            return zklock.dump()

    name = "worker-of-a-dump"
    text = in_thread(hold, name=name)
    (line,) = [line for line in text.splitlines() if line.startswith(f"  holds {path} ")]
    assert f" (thread {name} at {__file__}:" in line
    assert line.count(name) == 1
