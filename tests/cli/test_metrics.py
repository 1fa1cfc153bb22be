"""Tests of the file that `zklock run --metrics` writes for node_exporter's textfile collector."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml  # type: ignore[import-untyped]
from prometheus_client.parser import text_string_to_metric_families

from harness.command import Command, run
from harness.observer import Observer
from harness.paths import COMMAND, REPOSITORY
from harness.ports import free_port
from harness.server import Standalone
from harness.steps import eventually

RULES = REPOSITORY / "docs" / "prometheus-rules.yml"


def metrics_of(file: Path, path: str) -> dict[str, float]:
    """Return the values by name, without the prefix `zklock_run_`. Assert that each has the label `path`."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(file.read_text()):
        assert family.documentation
        for sample in family.samples:
            assert sample.labels == {"path": path}
            found[sample.name.removeprefix("zklock_run_")] = sample.value
    return found


def test_s746_a_run_and_the_next(server: Standalone, observer: Observer, path: str, tmp_path: Path) -> None:
    file = tmp_path / "nightly.prom"
    words = ("--metrics", str(file), path, "--")
    with Command(server.hosts, "run", path, "--", "sh", "-c", "read end") as before:
        observer.wait_queue(path, 1)
        with Command(server.hosts, "run", *words, "sh", "-c", "echo in; read end; exit 7") as command:
            observer.wait_queue(path, 2)
            waits = metrics_of(file, path)
            assert (waits["waiting"], waits["holding"], waits["losses_total"]) == (1, 0, 0)
            assert set(waits) == {"waiting", "holding", "losses_total", "start_timestamp_seconds"}
            before.type("\n")
            command.read_until("in")
            holds = metrics_of(file, path)
            assert (holds["waiting"], holds["holding"]) == (0, 1)
            assert holds["grant_timestamp_seconds"] >= holds["start_timestamp_seconds"]
            assert holds["waited_seconds"] > 0
            command.type("\n")
            assert command.wait().status == 7
    ended = metrics_of(file, path)
    assert (ended["waiting"], ended["holding"], ended["exit_status"], ended["losses_total"]) == (0, 0, 7, 0)
    assert ended["end_timestamp_seconds"] >= ended["grant_timestamp_seconds"]
    assert 0 < ended["held_seconds"] <= ended["end_timestamp_seconds"] - ended["start_timestamp_seconds"]
    assert "success_timestamp_seconds" not in ended
    assert run(server.hosts, "run", *words, "true").status == 0
    well = metrics_of(file, path)
    assert well["exit_status"] == 0
    assert well["success_timestamp_seconds"] == well["end_timestamp_seconds"] > ended["end_timestamp_seconds"]
    # A run that waits or has failed keeps the time of the last success in the file.
    nowhere = f"127.0.0.1:{free_port()}"
    assert run(nowhere, "run", "--connect-timeout", "0.3", *words, "true").status == 69
    failed = metrics_of(file, path)
    assert failed["exit_status"] == 69
    assert failed["success_timestamp_seconds"] == well["success_timestamp_seconds"]
    assert failed["held_seconds"] == well["held_seconds"]
    assert [one.name for one in tmp_path.iterdir()] == [file.name], "the run left other files"


def test_s746_losses_are_counted(server: Standalone, observer: Observer, path: str, tmp_path: Path) -> None:
    file = tmp_path / "job.prom"
    for number in (1, 2):
        with Command(server.hosts, "run", "--metrics", str(file), path, "--", "sleep", "60") as command:
            (node,) = observer.wait_queue(path, 1)
            eventually(lambda: metrics_of(file, path)["holding"] == 1, "the job holds the lock")
            observer.client.delete(f"{path}/{node}")
            assert command.wait().status == 79
        lost = metrics_of(file, path)
        assert (lost["losses_total"], lost["exit_status"], lost["holding"]) == (number, 79, 0)


def test_s746_an_ignored_loss_is_not_a_success(
    server: Standalone, observer: Observer, path: str, tmp_path: Path
) -> None:
    file = tmp_path / "job.prom"
    words = ("--on-lost", "ignore", "--metrics", str(file), path, "--", "sh", "-c", "read end")
    with Command(server.hosts, "run", *words) as command:
        (node,) = observer.wait_queue(path, 1)
        eventually(lambda: metrics_of(file, path)["holding"] == 1, "the job holds the lock")
        observer.client.delete(f"{path}/{node}")
        command.type("\n")
        assert command.wait().status == 0
    lost = metrics_of(file, path)
    assert (lost["losses_total"], lost["exit_status"]) == (1, 0)
    assert "success_timestamp_seconds" not in lost


def test_s746_a_reader_finds_the_old_file_or_the_new_one(
    server: Standalone, path: str, tmp_path: Path
) -> None:
    """Every read finds a complete file while runs replace it."""
    file = tmp_path / "job.prom"
    words = ("--metrics", str(file), path, "--")
    assert run(server.hosts, "run", *words, "true").status == 0
    seen = set()
    for _ in range(5):
        with Command(server.hosts, "run", *words, "true") as command:
            while command.process.poll() is None:
                now = metrics_of(file, path)
                assert {"waiting", "holding", "losses_total", "exit_status"} <= set(now)
                seen.add(file.stat().st_ino)
            assert command.wait().status == 0
    assert len(seen) > 1


def test_s746_a_wait_that_a_signal_ends(
    server: Standalone, observer: Observer, path: str, tmp_path: Path
) -> None:
    file = tmp_path / "job.prom"
    with Command(server.hosts, "run", path, "--", "sleep", "60"):
        observer.wait_queue(path, 1)
        with Command(server.hosts, "run", "--metrics", str(file), path, "--", "true") as command:
            observer.wait_queue(path, 2)
            command.signal(signal.SIGTERM)
            assert command.wait().status == 128 + signal.SIGTERM
    ended = metrics_of(file, path)
    assert (ended["exit_status"], ended["waiting"]) == (128 + signal.SIGTERM, 0)
    assert ended["waited_seconds"] > 0
    assert "held_seconds" not in ended


@pytest.mark.parametrize("where", ["none/job.prom", "file/job.prom", "."])
def test_s746_a_file_that_cannot_be_written(
    server: Standalone, observer: Observer, path: str, tmp_path: Path, where: str
) -> None:
    (tmp_path / "file").touch()
    file = tmp_path / where
    refused = run(server.hosts, "run", "--metrics", str(file), path, "--", "echo", "ran")
    assert (refused.status, refused.out) == (64, "")
    assert re.match(
        rf"zklock: cannot write --metrics {re.escape(str(file))}: .+; choose a file in ", refused.err
    )
    assert observer.client.exists(path) is None
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("kind", ["a FIFO", "a device", "a symbolic link", "a socket", "a directory"])
def test_s814_only_a_regular_file_is_replaced(
    server: Standalone, observer: Observer, path: str, tmp_path: Path, kind: str
) -> None:
    file, target = tmp_path / "job.prom", tmp_path / "target"
    target.write_text("theirs")
    with socket.socket(socket.AF_UNIX) as listener:
        match kind:
            case "a FIFO":
                os.mkfifo(file)
            case "a device":
                make_null(file)
            case "a symbolic link":
                file.symlink_to(target)
            case "a socket":
                listener.bind(str(file))
            case _:
                file.mkdir()
        before = file.lstat()
        refused = run(server.hosts, "run", "--metrics", str(file), path, "--", "echo", "ran")
        assert (refused.status, refused.out) == (64, "")
        assert f"cannot write --metrics {file}: it is {kind}, not a regular file; choose " in refused.err
        after = file.lstat()
    assert (after.st_ino, after.st_mode) == (before.st_ino, before.st_mode)
    assert target.read_text() == "theirs"
    assert observer.client.exists(path) is None
    assert sorted(one.name for one in tmp_path.iterdir()) == ["job.prom", "target"]


def make_null(file: Path) -> None:
    """Create a device node like /dev/null, which discards everything."""
    try:
        os.mknod(file, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        file.open("rb").close()
    except PermissionError:
        pytest.skip("this user may not make devices")


def test_s814_nothing_is_written_through_a_guessed_name(
    server: Standalone, path: str, tmp_path: Path
) -> None:
    """The unfinished file's name contains the process ID. A symbolic link with that name is not followed."""
    file, target = tmp_path / "job.prom", tmp_path / "target"
    target.write_text("theirs")
    script = 'ln -s "$1" "$2/.job.prom.$$"; exec "$3" run --metrics "$2/job.prom" "$4" -- true'
    words = ["sh", "-c", script, "sh", str(target), str(tmp_path), str(COMMAND), path]
    ran = subprocess.run(words, env={**os.environ, "ZKLOCK_HOSTS": server.hosts}, check=False, timeout=60)
    assert ran.returncode == 0
    assert target.read_text() == "theirs"
    assert not file.is_symlink()
    assert metrics_of(file, path)["exit_status"] == 0
    assert sorted(one.name for one in tmp_path.iterdir()) == ["job.prom", "target"]


def test_s746_any_path_is_a_label(server: Standalone, path: str, tmp_path: Path) -> None:
    file = tmp_path / "job.prom"
    strange = f'{path}/"a\\b'
    assert run(server.hosts, "run", "--metrics", str(file), strange, "--", "true").status == 0
    assert run(server.hosts, "run", "--metrics", str(file), strange, "--", "true").status == 0
    found: dict[str, Any] = metrics_of(file, strange)
    assert found["exit_status"] == 0


def selectors(expression: Any) -> list[Any]:
    """Return all time series that an expression selects."""
    if isinstance(expression, promql_parser.VectorSelector):
        return [expression]
    parts = [getattr(expression, name, None) for name in ("lhs", "rhs", "expr", "vector_selector")]
    parts += getattr(expression, "args", [])
    return [one for part in parts if part is not None for one in selectors(part)]


def test_s747_the_alert_rules_use_existing_metrics(server: Standalone, path: str, tmp_path: Path) -> None:
    """Each alert rule for `zklock run` uses only metrics that `zklock run --metrics` writes.

    bindings-python/tests/test_prometheus.py checks the rules for clients.
    """
    file = tmp_path / "job.prom"
    assert run(server.hosts, "run", "--metrics", str(file), path, "--", "true").status == 0
    written = {f"zklock_run_{name}" for name in metrics_of(file, path)}
    clients, jobs = yaml.safe_load(RULES.read_text())["groups"]
    assert (clients["name"], jobs["name"]) == ("zklock", "zklock-run")
    rules = [*clients["rules"], *jobs["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 10
    for rule in rules:
        assert set(rule) - {"for"} == {"alert", "expr", "labels", "annotations"}, rule
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}
        asked = {one.name for one in selectors(promql_parser.parse(rule["expr"]))}
        assert asked, rule
        assert asked == set(re.findall(r"\bzklock_\w+", rule["expr"])), rule
        if rule in jobs["rules"]:
            assert asked <= written, rule
            used = set(re.findall(r"\$labels\.(\w+)", "".join(rule["annotations"].values())))
            assert used <= ({"path"} if "by (path)" in rule["expr"] else {"path", "job", "instance"}), rule
    # The page's table lists all alerts.
    page = (REPOSITORY / "docs" / "observability.md").read_text()
    assert set(re.findall(r"`(Zklock\w+)`", page)) == {rule["alert"] for rule in rules}
