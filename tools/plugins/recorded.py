"""A pytest plugin that records the beginning and the end of each test, so that the record survives if the run
is killed.

With `--record=FILE`, it writes one JSON object per line: `collected` with all tests, then `began`, `failed`,
`passed`, `skipped` and `ended` with one test each, and `reason` with the reason for a skip.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record", help="write down there how each test ended, as it happens")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--record")
    # The workers of xdist report to the process that started them.
    if path is not None and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Record(Path(path)))


class Record:
    """The writer of the record."""

    def __init__(self, path: Path) -> None:
        # Buffered by line, so that written lines survive if the process is killed.
        self._file = path.open("a", buffering=1)

    def _write(self, event: str, what: str | list[str]) -> None:
        self._file.write(json.dumps({event: what}) + "\n")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._write("collected", [item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._write("collected", list(ids))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write("failed", report.nodeid)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._write("began", nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed or report.when == "call":
            self._write(report.outcome, report.nodeid)
        if report.skipped and isinstance(report.longrepr, tuple):
            self._write("reason", report.longrepr[2].removeprefix("Skipped: "))

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._write("ended", nodeid)
