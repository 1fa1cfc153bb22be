"""The application of docs/howto/django.md runs in Django, as printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import zklock

from harness.paths import REPOSITORY
from harness.programs import programs
from harness.server import Standalone

# What `django-admin startproject` writes, as far as this application needs it.
MANAGE = """
import os, sys
from django.core.management import execute_from_command_line
os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
execute_from_command_line(sys.argv)
"""
SETTINGS = """
SECRET_KEY, ROOT_URLCONF, INSTALLED_APPS, ALLOWED_HOSTS = "x", "urls", ["reports"], ["*"]
"""
URLS = """
from django.urls import path
from reports.views import write_report
urlpatterns = [path("report", write_report)]
"""
FILES = {
    "reports/locks.py",
    "reports/management/commands/nightly.py",
    "reports/tests.py",
    "reports/views.py",
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with the page's files."""
    shown = {program.name: program.code for program in programs(REPOSITORY / "docs" / "howto" / "django.md")}
    assert shown.keys() == FILES
    empty = (
        "reports/__init__.py",
        "reports/management/__init__.py",
        "reports/management/commands/__init__.py",
    )
    files = {
        **shown,
        **dict.fromkeys(empty, ""),
        "manage.py": MANAGE,
        "settings.py": SETTINGS,
        "urls.py": URLS,
    }
    for name, code in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(code)
    return tmp_path


def manage(project: Path, hosts: str, *arguments: str) -> str:
    """What a command prints."""
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


def test_the_tests_pass(project: Path, server: Standalone) -> None:
    out = manage(project, server.hosts, "test")
    assert re.search(r"Ran 2 tests", out), out
    assert out.rstrip().endswith("OK"), out
