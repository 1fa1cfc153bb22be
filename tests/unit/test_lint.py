"""The checks of `make lint` find planted faults, and all of them run even if one fails."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harness.paths import REPOSITORY


def lint(directory: Path, files: dict[str, str], *checks: str) -> subprocess.CompletedProcess[str]:
    """Run checks in a repository with these files."""
    for name in (".markdownlint-cli2.jsonc", "bindings-node/node_modules"):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).symlink_to(REPOSITORY / name)
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text)
    subprocess.run(["git", "init", "--quiet"], cwd=directory, check=True)
    subprocess.run(["git", "add", *files], cwd=directory, check=True)
    command = ["make", "--file", str(REPOSITORY / "tools" / "lint.mk"), "--keep-going", *checks]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)


CODE = {
    "core/src/a.rs": "/// The lock. Who holds it?\nfn a() {}\n\n// That is planned.\n",
    "a.py": '"""Whole words only."""\n# The rest\n',
    "bindings-node/README.md": "# What this is\n\n[a page](https://example.org)\n\n[A link](#what-this-is)\n",
    "page.md": "# A page\n\nA [part](sub/other.md#part).\n\n```sh\nmake\n```\n",
    "sub/other.md": "# Other\n\n## Part\n",
}
W = "What"
CHECKS = ("planted", "subjects", "markdown")


def test_good_files_pass(tmp_path: Path) -> None:
    done = lint(tmp_path, CODE, *CHECKS)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("check", "name", "text", "told"),
    [
        ("planted", "core/src/b.rs", "fn b() { planted(); }\n", ""),
        ("subjects", "b.rs", f"//! {W} it is.\n", ""),
        ("subjects", "b.rs", f"fn b() {{\n    // {W} it is.\n}}\n", ""),
        ("subjects", "b.rs", f"/// The lock. {W} it is.\n", ""),
        ("subjects", "b.py", f'"""{W} it is."""\n', ""),
        ("subjects", "b.py", "    # Those are gone.\n", ""),
        ("subjects", "b.ts", f"/** {W} it is. */\n", ""),
        ("subjects", "b.ts", "/**\n * Who holds it.\n */\n", ""),
        ("subjects", "b.toml", "# Which it is.\n", ""),
        ("subjects", "b.md", f"# B\n\nThe lock. {W} it is.\n", ""),
        ("markdown", "b.md", f"# B\n\n{'word ' * 24}words\n", "MD013"),
        ("markdown", "b.md", "# B\n\n[x](gone.md)\n", "relative-links"),
        ("markdown", "b.md", "# B\n\n[x](sub/other.md#gone)\n", "relative-links"),
        ("markdown", "b.md", "# B\n\n[x](#gone)\n", "MD051"),
        ("markdown", "b.md", "# B\n\n- a\n- b\n\n* c\n", "MD004"),
        ("markdown", "b.md", "# B\n\n| a | b |\n|---|---|\n| 1 | a cell\nin two lines |\n", "MD055"),
        ("markdown", "b.md", "# B\n\n```\ncode\n```\n", "MD040"),
        ("published-links", "bindings-python/README.md", "# B\n\n[x](../docs/api.md)\n", ""),
        ("published-links", "bindings-node/README.md", "# B\n\n[x](#b)\n", ""),
    ],
)
def test_a_planted_fault_is_found(check: str, name: str, text: str, told: str, tmp_path: Path) -> None:
    done = lint(tmp_path, {name: text, "sub/other.md": "# Other\n\n## Part\n"}, check)
    assert done.returncode != 0
    assert f"{check} failed" in done.stdout
    assert name in done.stdout
    assert told in done.stdout


def test_every_check_runs_even_if_another_one_fails(tmp_path: Path) -> None:
    done = lint(tmp_path, {**CODE, "core/src/b.rs": f"// {W} is planted.\n"}, *CHECKS)
    assert [line.split()[1] for line in done.stdout.splitlines() if line.startswith("--- ")] == [*CHECKS]
    assert "planted failed" in done.stdout
    assert "subjects failed" in done.stdout
    assert "markdown failed" not in done.stdout
