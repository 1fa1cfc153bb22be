"""`close_on_signals()`: SIGTERM ends the process after its locks are freed. The exit status names SIGTERM."""

from __future__ import annotations

import signal

import pytest
import scripts
from harness.observer import Observer
from harness.proxy import Proxy

import zklock

# The session timeout is long, so a lock that is left behind stays taken for much longer than a test runs.
HOLD = """
zklock.close_on_signals()
zklock.close_on_signals()
client = zklock.Client(hosts, session_timeout=40)
lock = zklock.Mutex(client, path)
lock.acquire()
"""

WAYS = {
    "asleep": "print('ready'); threading.Event().wait()",
    "busy": "print('ready')\nwhile True: pass",
    "waiting for a lock": """
        print('ready')
        zklock.Mutex(client, path + '-busy').acquire()
        """,
    "waiting for a lock in a thread": """
        def wait():
            zklock.Mutex(client, path + '-busy').acquire()
            print('acquired')
        threading.Thread(target=wait).start()
        while not client.health().waits: time.sleep(0.01)
        print('ready')
        threading.Event().wait()
        """,
    "in asyncio": """
        async def main():
            async with aio.Mutex(hosts, path + '-free') as lease:
                lease.on_lost(lambda lease: print('lost'))
                print('ready')
                await aio.Mutex(hosts, path + '-busy').acquire()
        asyncio.run(main())
        """,
    "in gevent": """
        import gevent
        gevent.spawn(zklock.Mutex(client, path + '-busy').acquire)
        while not client.health().waits: gevent.sleep(0.01)
        print('ready')
        gevent.sleep(60)
        """,
    "with a callback": """
        lock.lease.on_lost(lambda lease: print('lost'))
        print('ready'); threading.Event().wait()
        """,
    "called in a thread": """
        thread = threading.Thread(target=zklock.close_on_signals)
        thread.start(); thread.join()
        print('ready'); threading.Event().wait()
        """,
}


def indented(code: str) -> str:
    """Return a program that holds a lock, and then runs `code`."""
    return HOLD + scripts.textwrap.dedent(code)


@pytest.mark.parametrize("way", WAYS)
def test_sigterm_closes_the_clients_and_ends_the_process(
    client: zklock.Client, observer: Observer, hosts: str, path: str, way: str
) -> None:
    with (
        zklock.Mutex(client, path + "-busy"),
        scripts.start(indented(WAYS[way]), hosts, path) as program,
    ):
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        program.send_signal(signal.SIGTERM)
        # The output is empty: the program gets no error about closed clients.
        assert program.communicate(timeout=20) == ("", "")
        assert program.returncode == -signal.SIGTERM
        # Check without waiting, because the session was closed before the process ended.
        observer.assert_free(path)
        assert len(observer.queue(path + "-busy")) == 1


@pytest.mark.parametrize("way", [way for way in WAYS if way not in ("asleep", "busy")])
def test_a_program_gets_no_error_while_another_client_is_slow_to_close(
    client: zklock.Client, hosts: str, path: str, way: str
) -> None:
    """One client waits for the server's reply, so the program lives on while its other client is closed."""
    with Proxy(hosts) as proxy, zklock.Mutex(client, path + "-busy"):
        slow = f"slow = zklock.Client({proxy.hosts!r}, session_timeout=4).connect()\n"
        with scripts.start(HOLD + slow + scripts.textwrap.dedent(WAYS[way]), hosts, path) as program:
            assert program.stdout is not None
            assert program.stdout.readline() == "ready\n"
            proxy.black_hole()
            program.send_signal(signal.SIGTERM)
            assert program.communicate(timeout=20) == ("", "")
            assert program.returncode == -signal.SIGTERM


def test_without_close_on_signals_the_lock_stays_taken(observer: Observer, hosts: str, path: str) -> None:
    """Without `close_on_signals()` the lock stays taken. Otherwise the tests above would prove nothing."""
    code = indented("print('ready'); threading.Event().wait()").replace("zklock.close_on_signals()", "")
    with scripts.start(code, hosts, path) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        program.send_signal(signal.SIGTERM)
        program.communicate(timeout=20)
        assert program.returncode == -signal.SIGTERM
    assert len(observer.queue(path)) == 1
    observer.delete(f"{path}/{observer.queue(path)[0]}")


HANDLED = {
    "before": "signal.signal(signal.SIGTERM, handler); zklock.close_on_signals()",
    "after": "zklock.close_on_signals(); signal.signal(signal.SIGTERM, handler)",
    "asyncio": None,
}


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_handler_of_the_program_comes_first(observer: Observer, hosts: str, path: str, when: str) -> None:
    done = scripts.run(
        f"""
        received = []
        def handler(number, frame): received.append(number)
        {HANDLED[when]}
        with zklock.Mutex(hosts, path) as lease:
            os.kill(os.getpid(), signal.SIGTERM)
            while not received: time.sleep(0.01)
            lease.check()
        print("done")
        """,
        hosts,
        path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    observer.assert_free(path)


def test_ctrl_c_still_raises_keyboard_interrupt(observer: Observer, hosts: str, path: str) -> None:
    with scripts.start(
        """
        zklock.close_on_signals()
        try:
            with zklock.Mutex(hosts, path):
                print("ready")
                threading.Event().wait()
        except KeyboardInterrupt:
            print("interrupted")
        """,
        hosts,
        path,
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        program.send_signal(signal.SIGINT)
        assert program.communicate(timeout=20) == ("interrupted\n", "")
        assert program.returncode == 0
    observer.assert_free(path)


def test_an_ignored_signal_is_ignored(hosts: str, path: str) -> None:
    done = scripts.run(
        """
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        zklock.close_on_signals()
        os.kill(os.getpid(), signal.SIGTERM)
        print("done")
        """,
        hosts,
        path,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


def test_a_forked_child_ends_by_the_signal_and_may_call_it_for_itself(
    observer: Observer, hosts: str, path: str
) -> None:
    done = scripts.run(
        """
        zklock.close_on_signals()
        for again in (False, True):
            reader, writer = os.pipe()
            child = os.fork()
            if child == 0:
                if again:
                    zklock.close_on_signals()
                    lock = zklock.Mutex(zklock.Client(hosts, session_timeout=40), path)
                    lock.acquire()
                os.write(writer, b"x")
                threading.Event().wait()
            os.read(reader, 1)
            os.kill(child, signal.SIGTERM)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        # The parent still works.
        with zklock.Mutex(hosts, path):
            print("done")
        """,
        hosts,
        path,
    )
    assert (done.stdout, done.stderr) == (f"{-signal.SIGTERM}\n" * 2 + "done\n", "")
    assert done.returncode == 0
    observer.assert_free(path)
