"""The site of the documentation: links that lead nowhere are found, and those of the pages are adapted."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import zklock

import diagrams
import generated
import links
import pages
from harness.paths import REPOSITORY

MKDOCS = Path(sys.executable).with_name("mkdocs")


def wrong(root: Path, text: str, name: str = "docs/page.md") -> list[str]:
    page = root / name
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text)
    (root / "docs").mkdir(exist_ok=True)
    (root / "docs/other.md").write_text("# Other\n\n## `Lease`: what *it* has\n")
    links.anchors.cache_clear()
    return links.problems(root, [name])


@pytest.mark.parametrize(
    "target", ["other.md", "other.md#lease-what-it-has", "#here", "../docs", "https://example.org/x"]
)
def test_what_leads_somewhere_is_right(tmp_path: Path, target: str) -> None:
    assert wrong(tmp_path, f"# Here\n\nA [link]({target}).\n") == []


@pytest.mark.parametrize(
    "target",
    [
        "gone.md",
        "other.md#gone",
        "#gone",
        "/docs/other.md",
        f"{links.HOST}/blob/main/gone.md",
        "../../outside.md",
    ],
)
def test_what_leads_nowhere_is_named(tmp_path: Path, target: str) -> None:
    (problem,) = wrong(
        tmp_path, f"# Here\n\nA [link]({target}), `[not](gone.md)`.\n\n```\n[nor](this.md)\n```\n"
    )
    assert problem.startswith(f"docs/page.md:3: {target}: ")


def test_relative_links_do_not_work_on_a_registry(tmp_path: Path) -> None:
    (problem,) = wrong(tmp_path, "[other](../docs/other.md)\n", links.PUBLISHED[0])
    assert "published" in problem


def test_a_page_is_adapted_to_the_site() -> None:
    text = "[a](../tests/liar.py) [b](safety.md#the-term) [c](../CONTRIBUTING.md#floors) [d](decisions)\n"
    assert pages.rewritten(text, "docs/python.md", "python.md") == (
        f"[a]({links.HOST}/blob/main/tests/liar.py) [b](safety.md#the-term) [c](contributing.md#floors) "
        "[d](decisions/index.md)\n"
    )
    assert pages.rewritten("[a](../interop.md)", "docs/decisions/0002-x.md", "decisions/0002-x.md") == (
        "[a](../interop.md)"
    )


def test_rust_is_shown_as_rustdoc_shows_it() -> None:
    code = "```rust,no_run\n# async fn f() {\nlet x = 1;\n# }\n#[derive(Debug)]\n```"
    assert pages.rewritten(code, "README.md", "index.md") == "```rust\nlet x = 1;\n#[derive(Debug)]\n```"


def test_programs_in_two_languages_are_tabs() -> None:
    text = "```python\na = 1\n```\n\n```js\nlet a = 1;\n```\n\n```text\n1\n```\n"
    assert pages.rewritten(text, "docs/x.md", "x.md") == (
        '=== "Python"\n\n    ```python\n    a = 1\n    ```\n\n'
        '=== "Node"\n\n    ```js\n    let a = 1;\n    ```\n\n\n```text\n1\n```\n'
    )


# Without `--quiet`, which keeps warnings from `--strict` as well.
def build(root: Path, target: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [MKDOCS, "build", "--strict", "--config-file", root / "mkdocs.yml", "--site-dir", target],
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"} | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_the_site_builds_and_asks_nobody_else(tmp_path: Path) -> None:
    done = build(REPOSITORY, tmp_path)
    assert done.returncode == 0, done.stderr
    shown = {page.relative_to(tmp_path): page.read_text() for page in tmp_path.rglob("*.html")}
    assert len(shown) > 50
    for name, text in shown.items():
        assert not re.search(r"<(script|link|img|iframe)\b[^>]*\b(src|href)=[\"']?(https?:)?//", text), name
    # From the stubs, with its examples.
    words = re.sub(r"<[^>]+>", "", shown[Path("reference-python/index.html")])
    assert "&gt;&gt;&gt; with lock" in words
    reference = shown[Path("reference-python/index.html")]
    public = [one for one in zklock.__all__ if not one.startswith("_")]
    assert [one for one in public if f'id="zklock.{one}"' not in reference] == []
    # From the types of Node, with their comments; and from rustdoc.
    mutex = re.sub(r"<[^>]+>", "", shown[Path("reference-node/index/classes/Mutex/index.html")])
    assert "LockTimeoutError if it is not acquired in time" in mutex
    assert "fn hold" in re.sub(r"<[^>]+>", "", shown[Path(generated.RUST, "zklock/struct.Mutex.html")])
    links_to_rust = re.findall(
        rf'href="\.\./({generated.RUST}/[^"]+)"', shown[Path("reference-rust/index.html")]
    )
    assert [Path(one) for one in links_to_rust if Path(one) not in shown] == []
    assert len(links_to_rust) == 2
    assert "fencing" in (tmp_path / "search" / "search_index.json").read_text()


@pytest.mark.parametrize("broken", ["[x](gone.md)", "[x](safety.md#gone)"])
def test_a_dead_link_fails_the_build(tmp_path: Path, broken: str) -> None:
    copy = tmp_path / "copy"
    for name in ("docs", "mkdocs.yml", "tools", "bindings-python/python", *pages.BORROWED):
        source, target = REPOSITORY / name, copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    page = copy / "docs" / "interop.md"
    page.write_text(f"{page.read_text()}\n{broken}\n")
    done = build(copy, tmp_path / "site", **{generated.QUICKLY: "1"})
    assert done.returncode != 0
    assert "interop.md" in done.stderr + done.stdout


@pytest.mark.parametrize("name", diagrams.DIAGRAMS)
def test_the_diagrams_are_as_drawn(name: str) -> None:
    assert (diagrams.PICTURES / f"{name}.svg").read_text() == diagrams.drawn(name), (
        "run `python3 tools/diagrams.py`"
    )


def test_every_diagram_is_shown() -> None:
    texts = "".join(page.read_text() for page in (REPOSITORY / "docs").glob("*.md"))
    assert [name for name in diagrams.DIAGRAMS if f"(diagrams/{name}.svg)" not in texts] == []
