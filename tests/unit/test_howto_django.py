"""The application of docs/howto/django.md runs in Django as printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from subprocess import PIPE

import pytest
import zklock

from harness.instances import instances
from harness.observer import Observer
from harness.paths import REPOSITORY
from harness.processes import reap, spawn
from harness.programs import programs
from harness.server import Standalone

# The part of `django-admin startproject`'s output that this application needs.
MANAGE = """
import os, sys
from django.core.management import execute_from_command_line
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
execute_from_command_line(sys.argv)
"""
SETTINGS = """
SECRET_KEY, ROOT_URLCONF, INSTALLED_APPS, ALLOWED_HOSTS = "x", "urls", ["reports"], ["*"]
"""
FILES = {
    "reports/locks.py",
    "reports/management/commands/monthly.py",
    "reports/management/commands/nightly.py",
    "reports/tests.py",
    "reports/views.py",
    "urls.py",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Provide a Django project with the page's files."""
    shown = {program.name: program.code for program in programs(REPOSITORY / "docs" / "howto" / "django.md")}
    assert shown.keys() == FILES
    # Django finds a command even if the directory of the command is not a package.
    files = {**shown, "reports/__init__.py": "", "manage.py": MANAGE, "settings.py": SETTINGS}
    for name, code in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(code)
    return tmp_path


def manage(project: Path, hosts: str, *arguments: str) -> str:
    """Run a management command and return its output."""
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=project,
        env={**os.environ, "ZKLOCK_HOSTS": hosts},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_the_command_runs_on_one_host(project: Path, server: Standalone) -> None:
    hosts = f"{server.hosts}/howto-django"
    assert manage(project, hosts, "nightly").splitlines() == ["page 0", "page 1", "page 2"]
    with zklock.Client(hosts) as other, zklock.Mutex(other, "/locks/nightly-report"):
        assert manage(project, hosts, "nightly").splitlines() == ["another host is at it"]


def monthly(project: Path, hosts: str) -> list[str]:
    """Start the command on three hosts for one month and then for the next. Return all output, sorted."""
    printed = project / "printed"
    for month in ("2026-10", "2026-11"):
        command = [sys.executable, "manage.py", "monthly", month]
        with instances(command, printed, {"ZKLOCK_HOSTS": hosts}, cwd=project) as started:
            started.wait()
    return sorted(re.sub(r"token \d+", "token N", line) for line in printed.read_text().splitlines())


def test_a_month_is_written_once(project: Path, server: Standalone) -> None:
    assert monthly(project, f"{server.hosts}/howto-django-once") == [
        line
        for month in ("2026-10", "2026-11")
        for line in (f"{month} is written, with token N", *[f"{month} was written"] * 2)
    ]


def test_a_month_is_written_again_under_a_plain_lock(project: Path, server: Standalone) -> None:
    file = project / "reports" / "management" / "commands" / "monthly.py"
    plain = file.read_text().replace(
        "monthly.once(month, write)", "monthly.hold()(lambda: write(monthly.lease))()"
    )
    assert plain != file.read_text()
    file.write_text(plain)
    printed = monthly(project, f"{server.hosts}/howto-django-plain")
    assert len([line for line in printed if "is written" in line]) == 6


def test_the_experiment_with_two_terminals(project: Path, server: Standalone, observer: Observer) -> None:
    """The experiment with two terminals works as the page describes."""
    page = (REPOSITORY / "docs" / "howto" / "django.md").read_text()
    (code,) = re.findall(r'^python manage\.py shell -c "(.*?)"$', page, re.MULTILINE | re.DOTALL)
    hosts = f"{server.hosts}/howto-django-two"
    environment = {**os.environ, "ZKLOCK_HOSTS": hosts}
    first = spawn(
        [sys.executable, "manage.py", "shell", "-c", code], env=environment, cwd=project, stdin=PIPE
    )
    try:
        observer.wait_queue("/howto-django-two/locks/nightly-report", 1)
        assert manage(project, hosts, "nightly").splitlines() == ["another host is at it"]
        assert first.stdin is not None
        first.stdin.write(b"\n")
        first.stdin.close()
        assert first.wait(20) == 0
        observer.wait_queue("/howto-django-two/locks/nightly-report", 0, timeout=5)
    finally:
        reap(first)


def test_the_tests_pass(project: Path, server: Standalone) -> None:
    out = manage(project, server.hosts, "test")
    assert re.search(r"Ran 3 tests", out), out
    assert out.rstrip().endswith("OK"), out
