"""The npm packages in an empty project, and their contents."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from harness import installed
from harness.installed import dev, run
from harness.paths import NODE, NODE_PACKAGE

FORMS = {
    "job.mjs": "import { Client, Mutex } from 'zklock';\n",
    "job.cjs": "const { Client, Mutex } = require('zklock');\n",
}
JOB = """
async function main() {
  const client = await Client.connect(process.argv[2]);
  await new Mutex(client, '/packages/job').using((lease) => lease.check());
  console.log(client.stats().transport);
  await client.close();
}
main();
"""


@pytest.mark.parametrize("form", FORMS)
def test_s592_both_module_systems_lock(form: str, modules: Path) -> None:
    (modules.parent / form).write_text(FORMS[form] + JOB)
    with dev(modules / ".bin" / "zklock") as hosts:
        assert run(NODE, form, hosts, cwd=modules.parent) == "zklock\n"


def test_s592_the_native_parts_are_in_the_package_of_the_platform(modules: Path) -> None:
    manifest = json.loads((modules / "zklock" / "package.json").read_text())
    assert not list((modules / "zklock").rglob("*.node"))
    (here,) = [path for path in modules.glob("zklock-*") if path.is_dir()]
    assert {path.name for path in here.iterdir()} == {
        *("LICENSE", "README.md", "THIRD-PARTY-NOTICES.txt", "package.json", "zklock", "zklock.cdx.json"),
        f"{here.name.replace('-', '.', 1)}.node",
    }
    assert set(manifest["optionalDependencies"].values()) == {manifest["version"]}
    assert here.name in manifest["optionalDependencies"]
    assert json.loads((here / "package.json").read_text())["version"] == manifest["version"]
    assert not {"scripts", "devDependencies"} & set(manifest)


def test_s592_one_list_of_platforms(modules: Path) -> None:
    """The published packages, the addon's error message and the command's script list the same platforms."""
    manifest = json.loads((modules / "zklock" / "package.json").read_text())
    published = {name.removeprefix("zklock-") for name in manifest["optionalDependencies"]}
    script = (modules / "zklock" / "bin" / "zklock").read_text()
    (reported,) = re.findall(r"Supported platforms: ([^.]+)\.", script)
    known = {name for names in re.findall(r"names='?([\w -]+?)'? ;;", script) for name in names.split()}
    assert set(reported.split(", ")) == known == published


@pytest.mark.parametrize(
    ("entry", "needs"), [("prometheus", "prom-client"), ("opentelemetry", "@opentelemetry/api")]
)
def test_s600_an_exporter_names_the_package_that_it_needs(entry: str, needs: str, modules: Path) -> None:
    assert not (modules / needs).exists()
    code = "require('zklock'); require('zklock/testing'); console.log('without'); require(process.argv[1])"
    command = [NODE, "-e", code, f"zklock/{entry}"]
    done = subprocess.run(
        command, cwd=modules.parent, capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (1, "without\n")
    assert f"Cannot find module '{needs}'" in done.stderr


def test_s592_a_stack_trace_has_the_lines_of_the_sources() -> None:
    with tarfile.open(installed.tarballs()[0]) as packed:
        names = packed.getnames()
        compiled = [name for name in names if name.startswith("package/dist/") and name.endswith(".js")]
        assert compiled
        for name in compiled:
            map_file = packed.extractfile(f"{name}.map")
            assert map_file is not None
            described = json.load(map_file)
            (source,) = described["sourcesContent"]
            # The source's path is relative to the map's directory. `dist` and `src` are siblings.
            there = NODE_PACKAGE / Path(name).parent.relative_to("package") / described["sources"][0]
            assert source == there.resolve().read_text()


@pytest.mark.parametrize(
    ("system", "machine", "said"),
    [
        ("Linux", "riscv64", "there is no zklock command for this platform, Linux riscv64."),
        ("Linux", "aarch64", "the zklock command for Linux aarch64 is missing."),
    ],
)
def test_s593_without_a_package_for_the_platform(
    system: str, machine: str, said: str, modules: Path, tmp_path: Path
) -> None:
    pretended = tmp_path / "uname"
    pretended.write_text(f"#!/bin/sh\necho {system} {machine}\n")
    pretended.chmod(0o755)
    env = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    command = [str(modules / ".bin" / "zklock"), "ls", "/"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout) == (70, "")
    assert done.stderr.startswith(f"zklock: {said}")
    assert "Supported platforms: darwin-arm64, " in done.stderr


def test_s593_a_missing_addon_is_reported(modules: Path, tmp_path: Path) -> None:
    copied = tmp_path / "node_modules" / "zklock"
    shutil.copytree(modules / "zklock", copied)
    command = [NODE, "-e", "require('zklock')"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert "ADDON_MISSING" in done.stderr
    assert "--omit=optional" in done.stderr
    assert "Supported platforms: darwin-arm64, " in done.stderr
