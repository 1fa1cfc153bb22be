"""Programs of docs/howto/node-servers.md, as printed: express.mjs, nightly.ts in NestJS, ticks.mjs."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import PIPE, Popen

import pytest
import zklock

from consumers.node.project import Project, run
from harness.instances import Records, assert_more_than_once, instances
from harness.observer import Observer
from harness.paths import NODE, REPOSITORY
from harness.processes import reap, spawn
from harness.server import Standalone

PAGE = REPOSITORY / "docs" / "howto" / "node-servers.md"

SLOW = 15.0
"""Maximum time in seconds that the `Source` delays a reply while the test keeps it closed."""


class Source(ThreadingHTTPServer):
    """An HTTP server that the programs query while they hold the lock.

    It replies only while `open` is set, or after `SLOW` seconds.
    """

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.open = threading.Event()
        self.open.set()
        self.asked = threading.Event()
        self.takes = 0.0
        """Delay of a reply in seconds."""

    @property
    def url(self) -> str:
        """URL of the server."""
        return f"http://127.0.0.1:{self.server_address[1]}"


class Answer(BaseHTTPRequestHandler):
    """A handler that replies to each request with `sold`."""

    server: Source

    def do_GET(self) -> None:
        """Wait until the source is open, then reply."""
        self.server.asked.set()
        self.server.open.wait(SLOW)
        time.sleep(self.server.takes)
        self.send_response(200)
        self.end_headers()
        # The client can have cancelled the request.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.wfile.write(b"sold")

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def source() -> Iterator[Source]:
    """Return a source that is open until a test closes it."""
    with Source() as made:
        thread = threading.Thread(target=made.serve_forever, daemon=True)
        thread.start()
        yield made
        made.open.set()
        made.shutdown()
        thread.join()


def answer(port: str) -> tuple[int, str]:
    """Send a POST to the program. Return the status and the body of its reply."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}/reports/sales", method="POST")
    try:
        with urllib.request.urlopen(request, timeout=20) as found:
            return found.status, found.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def line(process: Popen[bytes]) -> str:
    """Return the next line that the process prints."""
    assert process.stdout is not None
    return process.stdout.readline().decode().rstrip()


def test_express(project: Project, server: Standalone, observer: Observer, source: Source) -> None:
    hosts = f"{server.hosts}/howto-express"
    file = project.shown(PAGE, "express.mjs")
    env = {"ZKLOCK_HOSTS": hosts, "PORT": "0", "SOURCE": source.url}
    process = spawn([NODE, str(file)], env=env, stdout=PIPE)
    try:
        listening = re.match(r"listening on (\d+)", line(process))
        assert listening is not None
        port = listening[1]
        code, text = answer(port)
        assert (code, bool(re.fullmatch(r"sold, written with token \d+", text))) == (200, True), text
        with zklock.Client(hosts) as other, ThreadPoolExecutor() as pool:
            with zklock.Mutex(other, "/locks/reports/sales"):
                assert answer(port) == (409, "somebody else is writing it")
            # A loss cancels the work.
            source.open.clear()
            source.asked.clear()
            lost = pool.submit(answer, port)
            assert source.asked.wait(SLOW)
            (holder,) = zklock.Mutex(other, "/locks/reports/sales").contenders()
            other.break_lock(holder.node)
            assert lost.result(SLOW / 2) == (503, "the lock was lost; nothing was written")
            # A request in progress completes before the server exits.
            source.asked.clear()
            last = pool.submit(answer, port)
            assert source.asked.wait(SLOW)
            process.terminate()
            while not refused(port):
                assert process.poll() is None
            source.open.set()
            code, text = last.result(SLOW)
            assert (code, text.startswith("sold")) == (200, True), text
        assert process.wait(15) == 0
        observer.wait_queue("/howto-express/locks/reports/sales", 0, timeout=5)
    finally:
        reap(process)


def refused(port: str) -> bool:
    """Return whether the program refuses new connections."""
    try:
        answer_of = urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5)
        answer_of.close()
    except urllib.error.HTTPError:
        return False
    except OSError:
        return True
    return False


def test_express_reports_a_taken_port(project: Project, server: Standalone, source: Source) -> None:
    file = project.shown(PAGE, "express.mjs")
    env = {"ZKLOCK_HOSTS": server.hosts, "PORT": source.url.rpartition(":")[2]}
    process = spawn([NODE, str(file)], env=env, stdout=PIPE, stderr=PIPE)
    try:
        _, said = process.communicate(timeout=15)
        assert b"EADDRINUSE" in said
    finally:
        reap(process)


def compiled(project: Project, name: str) -> Path:
    """Compile a TypeScript program to JavaScript. Return its path."""
    file = project.shown(PAGE, name)
    (file.parent / "tsconfig.json").write_text(
        json.dumps({"compilerOptions": {"experimentalDecorators": True, "target": "es2022"}})
    )
    made = file.with_suffix(".mjs")
    esbuild = project.modules / ".bin" / "esbuild"
    if not esbuild.exists():
        esbuild = Path(__file__).parent / "node_modules" / ".bin" / "esbuild"
    run(esbuild, file, "--format=esm", f"--outfile={made}", cwd=file.parent)
    return made


def test_a_job_in_nest(project: Project, server: Standalone, observer: Observer, source: Source) -> None:
    """A job in progress completes before the client is closed."""
    env = {"ZKLOCK_HOSTS": f"{server.hosts}/howto-nest", "SOURCE": source.url}
    process = spawn([NODE, str(compiled(project, "nightly.ts"))], env=env, stdout=PIPE)
    try:
        assert re.match(r"sold, written with token \d+", line(process))
        source.open.clear()
        source.asked.clear()
        assert source.asked.wait(SLOW)
        process.terminate()
        while (reported := line(process)) != "waiting for the job":
            assert reported
        source.open.set()
        assert re.match(r"sold, written with token \d+", line(process))
        process.wait(15)
        observer.wait_queue("/howto-nest/jobs/nightly-report", 0, timeout=5)
    finally:
        reap(process)


JOBS = {"nightly.ts": "/jobs/nightly-report", "ticks.mjs": "/jobs/nightly"}


def job(project: Project, name: str) -> Path:
    """Return a job's program in a form that Node can run."""
    return compiled(project, name) if name.endswith(".ts") else project.shown(PAGE, name)


@pytest.mark.parametrize("name", JOBS)
def test_a_tick_runs_once(
    project: Project, server: Standalone, observer: Observer, source: Source, tmp_path: Path, name: str
) -> None:
    """Three instances have clocks that differ by more time than the job takes. Exactly one runs each tick."""
    source.takes = 0.05
    chroot = f"/once-{name.partition('.')[0]}"
    records = Records(observer, chroot + JOBS[name])
    env = {"ZKLOCK_HOSTS": server.hosts + chroot, "SOURCE": source.url}
    with instances([NODE, str(job(project, name))], tmp_path / "ran", env) as started:
        started.wait_lines(6)
        started.end()
        records.assert_once_each([reported for reported in started.lines() if "token" in reported])
    observer.assert_free(chroot + JOBS[name])


@pytest.mark.parametrize("name", JOBS)
def test_a_tick_runs_again_under_a_plain_lock(
    project: Project, server: Standalone, source: Source, tmp_path: Path, name: str
) -> None:
    source.takes = 0.05
    file = job(project, name)
    once = file.read_text()
    # The compiler writes 1000 as 1e3.
    file.write_text(re.sub(r"oncePer\(1(000|e3), ", "using(", once))
    assert file.read_text() != once
    env = {"ZKLOCK_HOSTS": f"{server.hosts}/plain-{name.partition('.')[0]}", "SOURCE": source.url}
    with instances([NODE, str(file)], tmp_path / "ran", env) as started:
        assert_more_than_once(started.lines, 8)
