"""The manifests in docs/howto/kubernetes.md are valid, and the programs that they start work."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE
from typing import IO, Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml  # type: ignore[import-untyped]
import zklock

from harness.built import require
from harness.observer import Observer
from harness.paths import COMMAND, REPOSITORY
from harness.processes import reap, spawn
from harness.programs import programs
from harness.server import Standalone

PAGE = REPOSITORY / "docs" / "howto" / "kubernetes.md"
MANIFESTS: dict[str, Any] = {
    manifest["kind"]: manifest
    for manifest in map(yaml.safe_load, re.findall(r"```yaml\n(.*?)```", PAGE.read_text(), re.DOTALL))
}
POD = "pod-1"


def container(kind: str) -> dict[str, Any]:
    """Return the only container of a manifest."""
    spec = MANIFESTS[kind]["spec"]
    if kind == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    (found,) = spec["template"]["spec"]["containers"]
    return dict(found)


def environment(kind: str, hosts: str) -> dict[str, str]:
    """Return the environment variables of a container's program, with the test's server as the host."""
    values = {one["name"]: one.get("value", POD) for one in container(kind)["env"]}
    assert values["ZKLOCK_HOSTS"].startswith("zk-0.zk:2181,")
    return {**values, "ZKLOCK_HOSTS": hosts}


@pytest.mark.parametrize("kind", MANIFESTS)
def test_a_manifest_is_valid(kind: str) -> None:
    kubernetes_validate.validate(MANIFESTS[kind], kubernetes_validate.latest_version(), strict=True)


def test_a_misspelt_field_is_found() -> None:
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(
            {**MANIFESTS["CronJob"], "sepc": {}}, kubernetes_validate.latest_version(), strict=True
        )


def test_a_job_runs_once_for_each_time_that_was_due(server: Standalone, tmp_path: Path) -> None:
    """The job's command runs once per scheduled time, even if a retry and another cluster start it again."""
    require("command")
    (tmp_path / "zklock").symlink_to(COMMAND)
    job = container("CronJob")
    variables = environment("CronJob", f"{server.hosts}/howto-kubernetes-job")

    def pod(name: str, slot: str, output: IO[bytes]) -> subprocess.Popen[bytes]:
        env = {**variables, "POD_NAME": name, "SLOT": slot}
        words = [
            re.sub(r"\$\((\w+)\)", lambda found: env[found[1]], word) for word in job["command"] + job["args"]
        ]
        # Pass the full path, because Python looks up a program in its own `PATH`, not in that of the new
        # process.
        path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
        return spawn([str(tmp_path / words[0]), *words[1:]], env={**env, "PATH": path}, stdout=output)

    printed = tmp_path / "printed"
    slots = [f"nightly-{29_401_620 + 1440 * night}" for night in range(3)]
    for slot in slots:
        with printed.open("ab") as output:
            pods = [pod(f"{slot}-{suffix}", slot, output) for suffix in ("x7k2p", "b9w4q", "m3n8z")]
            try:
                assert [one.wait(60) for one in pods] == [0, 0, 0]
            finally:
                for one in pods:
                    reap(one)
    assert printed.read_text() == "nightly report\n" * len(slots)


def test_the_slot_is_the_name_of_the_job() -> None:
    (slot,) = [
        one["valueFrom"]["fieldRef"]["fieldPath"]
        for one in container("CronJob")["env"]
        if one["name"] == "SLOT"
    ]
    assert slot == "metadata.labels['batch.kubernetes.io/job-name']"
    command = container("CronJob")["command"]
    assert command[command.index("--once") + 1] == "$(SLOT)"


def test_the_label_is_the_pods_name() -> None:
    command = container("CronJob")["command"]
    assert command[command.index("--label") + 1] == "$(POD_NAME)"


def status(port: str, path: str) -> int:
    """Return the HTTP status of the program's reply to a probe."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
            code: int = answer.status
    except urllib.error.HTTPError as error:
        code = error.code
    return code


@contextmanager
def worker(hosts: str, directory: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Start worker.py as the manifest does, and provide its process and the port of its probes."""
    (program,) = programs(PAGE)
    assert container("Deployment")["command"] == ["python", program.name]
    (directory / program.name).write_text(program.code)
    process = spawn(
        [sys.executable, str(directory / program.name)],
        env={**environment("Deployment", hosts), "PORT": "0"},
        stdout=PIPE,
    )
    try:
        assert process.stdout is not None
        listening = re.fullmatch(r"probes on (\d+)\n", process.stdout.readline().decode())
        assert listening is not None
        yield process, listening[1]
        process.terminate()
        assert process.wait(15) == 0
    finally:
        reap(process)


def test_the_probes_are_those_of_the_program() -> None:
    (program,) = programs(PAGE)
    deployed = container("Deployment")
    (port,) = (one["containerPort"] for one in deployed["ports"])
    assert f'"PORT", "{port}"' in program.code
    probes = {name: deployed[f"{name}Probe"]["httpGet"] for name in ("liveness", "readiness")}
    assert probes == {
        "liveness": {"path": "/live", "port": port},
        "readiness": {"path": "/ready", "port": port},
    }


def test_the_leader_answers_probes_and_frees_its_lock(
    server: Standalone, observer: Observer, tmp_path: Path
) -> None:
    hosts = f"{server.hosts}/howto-kubernetes"
    with worker(hosts, tmp_path) as (process, port):
        assert process.stdout is not None
        assert process.stdout.readline().startswith(b"working, with token ")
        assert [status(port, path) for path in ("/live", "/ready", "/leader", "/elsewhere")] == [
            200,
            200,
            200,
            503,
        ]
        with zklock.Client(hosts) as other:
            leader = zklock.Election(other, "/elections/scheduler").leader()
            assert leader is not None
            assert leader.id == POD
    observer.wait_queue("/howto-kubernetes/elections/scheduler", 0, timeout=5)


def test_a_pod_is_live_without_an_ensemble(tmp_path: Path) -> None:
    with worker("127.0.0.1:1", tmp_path) as (_, port):
        assert [status(port, path) for path in ("/live", "/ready", "/leader")] == [200, 503, 503]
