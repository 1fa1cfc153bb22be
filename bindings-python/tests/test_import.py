"""An import has no side effects."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import scripts

import zklock


@pytest.mark.parametrize("module", ["zklock", "zklock.aio"])
def test_importing_starts_no_thread_and_opens_no_socket(module: str) -> None:
    code = f"""
import os
before = set(os.listdir("/proc/self/fd"))
import {module}
after = [os.readlink("/proc/self/fd/" + fd) for fd in set(os.listdir("/proc/self/fd")) - before]
print(len(os.listdir("/proc/self/task")), after)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20
    )
    assert done.stdout.strip() == "1 []", done


def test_importing_the_blocking_part_leaves_asyncio_alone() -> None:
    code = "import sys, zklock; print('asyncio' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20
    )
    assert done.stdout.strip() == "False", done


def test_a_callback_is_checked_without_inspect(hosts: str) -> None:
    """The import of `inspect` would take as long as that of zklock."""
    code = """
import sys, zklock

async def later(state): ...

class Service:
    async def later(self, state): ...
    def now(self, state): ...

client = zklock.Client(sys.argv[1])
for callback in (later, Service().later, Service().now, id):
    try:
        client.on_state(callback)
        print("accepted")
    except TypeError as error:
        print("has no event loop" in str(error))
    print("inspect" in sys.modules)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, hosts], capture_output=True, text=True, check=True, timeout=20
    )
    # The last callback is no function written in Python.
    checks = [("True", "False"), ("True", "False"), ("accepted", "False"), ("accepted", "True")]
    assert done.stdout.split() == [word for check in checks for word in check], done


def test_the_asyncio_part_is_an_attribute() -> None:
    code = "import zklock, sys; print(zklock.aio.Mutex.__module__, zklock.aio is sys.modules['zklock.aio'])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20
    )
    assert done.stdout.split() == ["zklock.aio", "True"], done
    with pytest.raises(AttributeError, match="'zklock' has no attribute 'aioo'"):
        zklock.aioo  # noqa: B018


def test_a_sub_interpreter_is_refused_and_does_no_harm(hosts: str, path: str) -> None:
    done = scripts.run(
        """
        import textwrap

        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters

        with zklock.Mutex(hosts, path) as lease:
            sub = interpreters.create()
            interpreters.run_string(sub, textwrap.dedent('''
                try:
                    import zklock
                except ImportError as error:
                    print("refused:", error)
            '''))
            interpreters.destroy(sub)
            print(lease.state)
        """,
        hosts,
        path,
    )
    assert re.fullmatch("refused: .+\nheld\n", done.stdout), done
    assert (done.stderr, done.returncode) == ("", 0)


def test_an_import_that_is_repeated(hosts: str, path: str) -> None:
    """A test runner can discard and reload modules. Both instances of the package then work together."""
    done = scripts.run(
        """
        first = zklock
        for name in [name for name in sys.modules if name.startswith("zklock")]:
            del sys.modules[name]
        import zklock as second
        assert first is not second
        with first.Mutex(hosts, path) as lease, second.Mutex(hosts, path + "-2"):
            print(lease.state, second.Mutex(second.Client(hosts), path).acquire(blocking=False))
        lock = second.Mutex(hosts, path)
        lock.acquire()
        """,
        hosts,
        path,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("held False\n", "", 0)


OPTIONAL = {"_eventlet", "_exporters", "_gevent", "opentelemetry", "prometheus"}
"""Modules that import a package which need not be installed, and the module that only they use."""


@pytest.mark.parametrize("package", ["zklock", "zklock.aio"])
def test_an_import_includes_all_modules_that_a_lock_can_need(package: str) -> None:
    """If a thread imported one of them later, while another forks, the child would wait for it forever."""
    code = f"import sys, {package}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20
    )
    files = Path(sys.modules[package].__file__ or "").parent.glob("*.py")
    modules = {f"{package}.{name}" for name in {file.stem for file in files} - {"__init__"} - OPTIONAL}
    assert len(modules) > 10
    assert modules - set(done.stdout.split()) == set()
