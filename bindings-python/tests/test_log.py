"""The core's events reach `logging`, and handlers do not affect locks."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Literal

import pytest
import scripts
from harness.observer import Observer
from harness.proxy import Proxy

import zklock
from zklock import aio

LOGGER = logging.getLogger("zklock")
# Maximum number of events that wait for a slow handler, as documented.
CAPACITY = 1000


class Collector(logging.Handler):
    """Collects records, for tests that wait for them."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []
        self._news = threading.Condition()

    def emit(self, record: logging.LogRecord) -> None:
        with self._news:
            self.records.append(record)
            self._news.notify_all()

    def wait_for(self, wanted: Callable[[logging.LogRecord], bool]) -> logging.LogRecord:
        """Return the first such record, and wait for it if necessary."""
        with self._news:
            assert self._news.wait_for(lambda: any(map(wanted, self.records)), 10), self.texts()
            return next(filter(wanted, self.records))

    def texts(self) -> list[str]:
        """Return all messages so far."""
        return [record.getMessage() for record in self.records]


def about(path: str, text: str) -> Callable[[logging.LogRecord], bool]:
    """Return a check for records with this text about this lock."""
    return lambda record: record.getMessage().startswith(text) and fields(record).get("path") == path


def fields(record: logging.LogRecord) -> dict[str, str]:
    """Return the fields of an event."""
    found: dict[str, str] = getattr(record, "fields", {})
    return found


@pytest.fixture
def logged() -> Iterator[Collector]:
    """Collect all log records down to debug level. Use this fixture before the client is created."""
    collector = Collector()
    LOGGER.addHandler(collector)
    LOGGER.setLevel(logging.DEBUG)
    yield collector
    LOGGER.setLevel(logging.NOTSET)
    LOGGER.removeHandler(collector)


def test_an_event_arrives(logged: Collector, client: zklock.Client, path: str) -> None:
    before = time.time()
    with zklock.Mutex(client, path) as lease:
        record = logged.wait_for(about(path, "acquired"))
    assert (record.name, record.levelno, record.threadName) == ("zklock", logging.DEBUG, "zklock-log")
    assert before <= record.created <= time.time()
    assert f"{path}/{fields(record)['node']}" == lease.node
    assert f"path={path}" in record.getMessage()
    logged.wait_for(about(path, "no longer held"))
    begun = logged.wait_for(lambda record: fields(record).get("session") == f"{client.session_id:#x}")
    assert begun.levelno == logging.INFO


def test_a_loss_is_a_warning(logged: Collector, observer: Observer, hosts: str, path: str) -> None:
    with zklock.Client(hosts) as client:
        lock = zklock.Mutex(client, path)
        lock.acquire()
        kept = zklock.Mutex(client, path + "-kept")
        kept.acquire()
        assert lock.lease is not None
        observer.delete(lock.lease.node)
        lost = logged.wait_for(about(path, "lock lost"))
    assert (lost.levelno, fields(lost)["reason"]) == (logging.WARNING, "node deleted")
    # The program expects to lose its locks when it closes the client, so this loss is logged at debug level.
    assert logged.wait_for(about(path + "-kept", "lock lost")).levelno == logging.DEBUG


def test_a_child_without_a_sequence_number_is_reported_once(
    logged: Collector, observer: Observer, hosts: str, path: str
) -> None:
    observer.create(f"{path}/config")
    with zklock.Client(hosts) as client:
        # No other contender uses the path, so the library keeps no state about it between the holds.
        for _ in range(3):
            with zklock.Mutex(client, path):
                pass
        with zklock.Mutex(client, path + "-last"):
            logged.wait_for(about(path + "-last", "acquired"))
    warned = about(path, "a child without a sequence number")
    assert len(list(filter(warned, logged.records))) == 1


@pytest.mark.parametrize("naming", ["curator", "kazoo"])
def test_a_contender_on_kazoo_that_may_not_see_us_is_reported_once(
    logged: Collector, observer: Observer, hosts: str, path: str, naming: Literal["curator", "kazoo"]
) -> None:
    theirs = observer.client.Lock(path)
    with zklock.Client(hosts) as client:
        lock = zklock.Mutex(client, path, naming=naming)
        if naming == "curator":
            # The behavior in the warning does occur.
            with lock:
                assert theirs.acquire(timeout=5)
        else:
            theirs.acquire()
        # The first timeout is long enough to detect the other contender, even on a busy machine.
        for timeout in (1, 0.1, 0.1):
            assert not lock.acquire(timeout=timeout)
        theirs.release()
        with lock, zklock.Mutex(client, path + "-last"):
            logged.wait_for(about(path + "-last", "acquired"))
    warnings = [record for record in logged.records if about(path, "a kazoo client")(record)]
    assert len(warnings) == (naming == "curator")
    for warning in warnings:
        assert warning.levelno == logging.WARNING
        assert "extra_lock_patterns=['-lock-']" in warning.getMessage()


def test_levels_filter(logged: Collector, hosts: str, path: str) -> None:
    LOGGER.setLevel(logging.INFO)
    with zklock.Client(hosts) as client:
        # Clients of earlier tests might still log events.
        own = {path, f"{client.session_id:#x}"}

        def levels() -> set[int]:
            return {record.levelno for record in logged.records if own & set(fields(record).values())}

        lock = zklock.Mutex(client, path)
        with lock:
            logged.wait_for(lambda _record: bool(levels()))
        assert levels() == {logging.INFO}
        # A program can change the level later.
        LOGGER.setLevel(logging.DEBUG)
        deadline = time.monotonic() + 10
        while not any(map(about(path, "acquired"), logged.records)):
            assert time.monotonic() < deadline
            with lock:
                time.sleep(0.01)


def test_a_handler_that_raises(
    logged: Collector, hosts: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Faulty(logging.Handler):
        def emit(self, _record: logging.LogRecord) -> None:
            raise KeyError("on purpose")

    received: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", received.append)
    faulty = Faulty()
    LOGGER.addHandler(faulty)
    try:
        with zklock.Client(hosts) as client:
            for _ in range(3):
                with zklock.Mutex(client, path):
                    pass
            logged.wait_for(about(path, "no longer held"))
    finally:
        LOGGER.removeHandler(faulty)
    assert {args.exc_type for args in received} == {KeyError}


@pytest.fixture
def blocked(logged: Collector) -> Iterator[tuple[threading.Event, threading.Event]]:
    """Install a handler that blocks. Yield an event that it sets when it blocks, and one that unblocks it."""
    begun, release = threading.Event(), threading.Event()

    class Blocking(logging.Handler):
        def emit(self, _record: logging.LogRecord) -> None:
            begun.set()
            release.wait()

    # Install the handler only for zklock's logger, because a handler that blocks also stops other loggers.
    handler = Blocking()
    LOGGER.addHandler(handler)
    yield begun, release
    release.set()
    LOGGER.removeHandler(handler)


def test_a_handler_that_blocks_delays_nothing(
    blocked: tuple[threading.Event, threading.Event], logged: Collector, hosts: str, path: str
) -> None:
    async def awaiting() -> None:
        async with aio.Client(hosts) as client, aio.Mutex(client, path + "-aio") as lease:
            lease.check()

    with zklock.Client(hosts, session_timeout=2) as client, zklock.Mutex(client, path) as lease:
        # The first record can also come from the client of an earlier test.
        assert blocked[0].wait(10)
        before = len(logged.records)
        asyncio.run(asyncio.wait_for(awaiting(), 5))
        # Longer than the term would last without heartbeats.
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline:
            lease.check()
            time.sleep(0.1)
    assert len(logged.records) == before


def test_a_handler_that_blocks_costs_no_memory(
    blocked: tuple[threading.Event, threading.Event], logged: Collector, hosts: str, path: str
) -> None:
    turns = CAPACITY
    begun, release = blocked
    with zklock.Client(hosts) as client:
        lock = zklock.Mutex(client, path)
        with lock:
            assert begun.wait(10)
        for _ in range(turns):
            with lock:
                pass
        release.set()
        logged.wait_for(lambda record: "arrived too fast" in record.getMessage())
        about_locks = [record for record in logged.records if fields(record).get("path") == path]
        # The logged records are those of the full queue, and at most three earlier ones that the handler had
        # already received.
        assert len(about_locks) <= CAPACITY + 3
        (dropped,) = (record.args for record in logged.records if "arrived too fast" in record.msg)
        # Every dropped record is counted.
        assert isinstance(dropped, tuple)
        assert isinstance(dropped[0], int)
        assert len(about_locks) + dropped[0] >= 2 * turns


LOUD = """
    import logging
    logging.basicConfig(level=logging.DEBUG, stream=sys.stdout, format="%(threadName)s %(message)s")
    """


def test_the_last_events_before_the_exit_are_logged(hosts: str, path: str) -> None:
    done = scripts.run(f"{LOUD}\n    mutex = zklock.Mutex(hosts, path)\n    mutex.acquire()\n", hosts, path)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert any(line.startswith("zklock-log acquired") for line in lines)
    assert any(line.startswith("zklock-log closed") for line in lines)


def test_the_exit_waits_for_a_client_without_references(hosts: str, path: str) -> None:
    """The client is being closed in the background."""
    with Proxy(hosts, delay=0.1) as distant:
        done = scripts.run(
            f"""{LOUD}
    class Farewell(logging.Handler):
        def emit(self, record):
            if record.getMessage().startswith("no longer held"): said.set()

    import warnings
    # The lock is forgotten on purpose.
    warnings.simplefilter("ignore", ResourceWarning)
    said = threading.Event()
    logging.getLogger("zklock").addHandler(Farewell())
    zklock.Mutex(zklock.Client(hosts), path).acquire()
    said.wait()
            """,
            distant.hosts,
            path,
        )
    assert (done.returncode, done.stderr) == (0, "")
    assert any(line.startswith("zklock-log closed") for line in done.stdout.splitlines()), done.stdout


def test_the_end_waits_for_a_thread_that_begins_late(hosts: str, path: str) -> None:
    """The exit waits for a log thread that is still starting, as can happen on a busy machine."""
    done = scripts.run(
        """
        import logging
        from zklock import _log, _zklock

        class Slow(logging.Handler):
            def emit(self, record):
                # All events must be logged within the second for which the exit waits.
                time.sleep(0.01)
                print(record.getMessage())

        def begin_late():
            # Delay the start of the thread. The exit must wait for it.
            time.sleep(0.3)
            begin()

        begin, _log.begin = _log.begin, begin_late
        logging.getLogger("zklock").addHandler(Slow())
        logging.getLogger("zklock").setLevel(logging.DEBUG)
        mutex = zklock.Mutex(hosts, path)
        mutex.acquire()
        _zklock.shutdown()
        print("ended")
        """,
        hosts,
        path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    words = [line.split()[0] for line in done.stdout.splitlines()]
    assert words[-2:] == ["closed", "ended"], done.stdout


def test_the_end_does_not_wait_for_a_handler(hosts: str, path: str) -> None:
    done = scripts.run(
        """
        import logging

        class Blocking(logging.Handler):
            def handle(self, record):
                sys.stdout.write("blocked\\n")
                threading.Event().wait()

        logging.getLogger("zklock").addHandler(Blocking())
        logging.getLogger("zklock").setLevel(logging.DEBUG)
        lock = zklock.Mutex(zklock.Client(hosts), path)
        lock.acquire()
        """,
        hosts,
        path,
        timeout=10,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "blocked\n", "")


def test_no_log_thread_starts_if_no_event_reaches_the_logger_level(hosts: str, path: str) -> None:
    done = scripts.run(
        """
        import logging
        logging.basicConfig(level=logging.WARNING)
        with zklock.Mutex(hosts, path): pass
        print(threading.active_count())
        """,
        hosts,
        path,
    )
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_without_logging_nothing_is_printed(path: str) -> None:
    # The client crate warns about a server that it cannot reach.
    done = scripts.run(
        """
        try: zklock.Client("127.0.0.1:1", connect_timeout=0.3)
        except zklock.ConnectionFailed: pass
        """,
        path=path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_first_event_finds_the_level(hosts: str, path: str) -> None:
    """The server can reply before the requesting thread runs again."""
    done = scripts.run(
        f"""{LOUD}
    from zklock import _log

    def verbosity_late():
        # Delay the read of the level for longer than the server needs for its reply.
        time.sleep(0.3)
        return verbosity()

    verbosity, _log.verbosity = _log.verbosity, verbosity_late
    with zklock.Mutex(hosts, path): pass
    """,
        hosts,
        path,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert any(line.startswith("zklock-log acquired") for line in done.stdout.splitlines()), done.stdout


def test_a_forked_child_logs_for_itself(hosts: str, path: str) -> None:
    done = scripts.run(
        f"""{LOUD}
    with zklock.Mutex(hosts, path): pass
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        with zklock.Mutex(hosts, path + "-child"): pass
        sys.exit(0)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """,
        hosts,
        path,
    )
    assert done.returncode == 0, done
    acquired = [line for line in done.stdout.splitlines() if " acquired " in line]
    # Each event appears once. The parent's thread might log its event after the child's.
    assert sorted(f"path={path}-child" in line for line in acquired) == [False, True], done


def test_a_fork_waits_for_the_event_that_is_being_logged(hosts: str, path: str) -> None:
    """A fork waits for a running log handler, which would otherwise stay locked forever in the child."""
    done = scripts.run(
        """
        import io, logging

        class Slow(io.RawIOBase):
            def writable(self):
                return True

            def write(self, data):
                if threading.current_thread().name == "zklock-log":
                    begun.set()
                    # The fork must wait for the end of this call.
                    time.sleep(0.2)
                return len(data)

        begun = threading.Event()
        logging.basicConfig(level=logging.DEBUG, stream=io.TextIOWrapper(io.BufferedWriter(Slow())))
        with zklock.Mutex(hosts, path): pass
        begun.wait()
        child = os.fork()
        logging.warning("of the process itself")
        if child:
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """,
        hosts,
        path,
    )
    assert done.returncode == 0, done


def test_a_fork_does_not_wait_for_ever(hosts: str, path: str) -> None:
    """A handler can wait for the forking thread."""
    done = scripts.run(
        """
        import logging

        class Waiting(logging.Handler):
            def handle(self, record):
                begun.set()
                forked.wait()

        begun, forked = threading.Event(), threading.Event()
        logging.getLogger("zklock").addHandler(Waiting())
        logging.getLogger("zklock").setLevel(logging.DEBUG)
        with zklock.Mutex(hosts, path): pass
        begun.wait()
        child = os.fork()
        forked.set()
        with zklock.Mutex(hosts, path): pass
        if child:
            sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """,
        hosts,
        path,
    )
    assert done.returncode == 0, done
