"""A test runs or compiles every program on the pages for users. `RUN_BY` lists these tests."""

from __future__ import annotations

import re
import runpy
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import zklock
from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

from harness.paths import NODE, REPOSITORY
from harness.programs import programs
from harness.server import Standalone

PYTHON_README = "bindings-python/tests/test_readme.py"
NODE_README = "bindings-node/test/readme.test.mjs"
README = "tests/unit/test_readme.py"
PROGRAMS = "tests/unit/test_programs.py"
HERE = "tests/unit/test_snippets.py"

# The test file that runs the snippets of each page and language. test_programs.py runs the how-to pages.
RUN_BY = {
    ("README.md", "python"): README,
    ("README.md", "js"): README,
    ("README.md", "rust"): "core/src/lib.rs",
    ("bindings-node/README.md", "js"): NODE_README,
    ("bindings-python/README.md", "python"): PYTHON_README,
    ("docs/bundlers.md", "js"): HERE,
    ("docs/caching.md", "js"): README,
    ("docs/caching.md", "python"): README,
    ("docs/caching.md", "rust"): "core/src/lib.rs",
    ("docs/election.md", "js"): README,
    ("docs/election.md", "python"): README,
    ("docs/election.md", "rust"): "core/src/lib.rs",
    ("docs/frameworks.md", "python"): PYTHON_README,
    ("docs/from-advisory-locks.md", "js"): PROGRAMS,
    ("docs/from-advisory-locks.md", "python"): PROGRAMS,
    ("docs/from-curator.md", "js"): PROGRAMS,
    ("docs/from-curator.md", "python"): PROGRAMS,
    ("docs/from-filelock.md", "python"): PROGRAMS,
    ("docs/from-kazoo.md", "python"): PYTHON_README,
    ("docs/from-redis.md", "js"): PROGRAMS,
    ("docs/from-redis.md", "python"): PROGRAMS,
    ("docs/from-shedlock.md", "js"): PROGRAMS,
    ("docs/from-shedlock.md", "python"): PROGRAMS,
    ("docs/interop.md", "python"): HERE,
    ("docs/node.md", "js"): NODE_README,
    ("docs/node.md", "ts"): "bindings-node/test/await-using.test.mjs",
    ("docs/observability.md", "js"): README,
    ("docs/observability.md", "python"): README,
    ("docs/python.md", "python"): PYTHON_README,
    ("docs/rust.md", "rust"): "core/src/lib.rs",
    ("docs/testing.md", "js"): NODE_README,
    ("docs/testing.md", "python"): "bindings-python/tests/test_installed.py",
    ("docs/testing.md", "rust"): "embedded/src/lib.rs",
    ("docs/tutorial.md", "js"): PROGRAMS,
    ("docs/tutorial.md", "python"): PROGRAMS,
}
PAGES = ("README.md", "bindings-*/README.md", "docs/*.md")


def shown() -> set[tuple[str, str]]:
    """Return each page with each language of its snippets."""
    return {
        (str(page.relative_to(REPOSITORY)), language)
        for pattern in PAGES
        for page in REPOSITORY.glob(pattern)
        for language in re.findall(r"^```(python|js|ts|rust|java|go|sql)\b", page.read_text(), re.MULTILINE)
    }


def snippets(page: str, language: str) -> list[str]:
    """Return the snippets of a page in one language."""
    return re.findall(rf"```{language}\n(.*?)```", (REPOSITORY / page).read_text(), re.DOTALL)


def test_every_snippet_is_run_by_a_test() -> None:
    assert shown() == RUN_BY.keys()


@pytest.mark.parametrize(("page", "language"), RUN_BY, ids=lambda one: one)
def test_the_test_of_a_snippet_names_its_page(page: str, language: str) -> None:
    test = REPOSITORY / RUN_BY[page, language]
    # The test names the page by its whole path, or by its file name.
    assert Path(page).name in test.read_text(), f"{test.name} does not run {language} of {page}"


def test_the_shown_teardown_is_the_one_that_runners_use() -> None:
    (code,) = snippets("docs/bundlers.md", "js")
    tests = REPOSITORY / "tests" / "consumers" / "node"
    assert code.strip() in (tests / "jest" / "first.test.js").read_text()


@pytest.fixture
def kazoo(server: Standalone) -> Iterator[KazooClient]:
    """Provide a kazoo client in the chroot of interop.md's snippets."""
    client = KazooClient(hosts=f"{server.hosts}/interop")
    client.start()
    client.ensure_path("/")
    yield client
    client.stop()
    client.close()


def test_kazoo_waits_with_the_pattern_from_interop(kazoo: KazooClient, server: Standalone) -> None:
    """With the pattern in its call, kazoo waits for zklock's node."""
    names: dict[str, object] = {"client": kazoo}
    for code in snippets("docs/interop.md", "python"):
        exec(code, names)
    with zklock.Client(f"{server.hosts}/interop") as client:
        for name, ours in {
            "lock": zklock.Mutex(client, "/locks/report"),
            "reader": zklock.ReadWriteLock(client, "/locks/report").write_lock,
            "writer": zklock.ReadWriteLock(client, "/locks/report").read_lock,
        }.items():
            theirs = names[name]
            with ours, pytest.raises(LockTimeout):
                theirs.acquire(timeout=0.2)  # type: ignore[attr-defined]
            assert theirs.acquire(timeout=10)  # type: ignore[attr-defined]
            theirs.release()  # type: ignore[attr-defined]


def framework(name: str, directory: Path, monkeypatch: pytest.MonkeyPatch, hosts: str) -> dict[str, object]:
    """Return the names that a module of docs/frameworks.md defines."""
    (code,) = [one for one in snippets("docs/frameworks.md", "python") if one.startswith(f"# {name}")]
    (directory / name).write_text(code)
    (directory / "celeryconfig.py").write_text("")
    monkeypatch.setenv("ZKLOCK_HOSTS", f"{hosts}/frameworks")
    monkeypatch.syspath_prepend(str(directory))
    return runpy.run_path(str(directory / name))


def test_the_application_for_gunicorn(
    server: Standalone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The application works if a test calls it like a WSGI server. tests/consumers runs it in gunicorn."""
    application = framework("wsgi.py", tmp_path, monkeypatch, server.hosts)["application"]
    answers: list[str] = []
    body = application({}, lambda status, headers: answers.append(status))  # type: ignore[operator]
    assert (answers, body) == (["200 OK"], [b"written"])


def test_the_task_for_celery(server: Standalone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task works if a test calls it like a worker. tests/consumers runs it in Celery."""
    report = framework("tasks.py", tmp_path, monkeypatch, server.hosts)["report"]
    assert report() < report()  # type: ignore[operator]


def test_express_is_javascript(tmp_path: Path) -> None:
    """The Express program is valid JavaScript. tests/consumers runs it, because it has Express installed."""
    page = REPOSITORY / "docs" / "howto" / "node-servers.md"
    (program,) = [one for one in programs(page) if one.name == "express.mjs"]
    (tmp_path / program.name).write_text(program.code)
    subprocess.run([NODE, "--check", tmp_path / program.name], check=True, timeout=20)
