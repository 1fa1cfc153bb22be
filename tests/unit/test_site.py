"""Tests of the documentation site: its build finds broken links and adapts the links of the pages."""

from __future__ import annotations

import re
import shutil
from html import unescape
from pathlib import Path

import pytest
import zklock.aio
import zklock.testing
from zklock import opentelemetry, prometheus
from zklock.compat import kazoo

import pages
from harness.paths import REPOSITORY
from harness.site import build

# The build of the site also builds the Rust reference and perhaps its dependencies. This takes minutes on a
# busy machine.
pytestmark = pytest.mark.timeout(900)

DIAGRAMS = sorted((REPOSITORY / "docs" / "diagrams").glob("*.svg"))


def test_a_page_is_adapted_to_the_site() -> None:
    text = "[a](../tests/liar.py) [b](safety.md#the-term) [c](../CONTRIBUTING.md#floors) [d](decisions)\n"
    assert pages.rewritten(text, "docs/python.md", "python.md") == (
        f"[a]({pages.HOST}/blob/main/tests/liar.py) [b](safety.md#the-term) [c](contributing.md#floors) "
        "[d](decisions/index.md)\n"
    )
    assert pages.rewritten("[a](../interop.md)", "docs/decisions/x.md", "decisions/x.md") == (
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


def test_numbers_of_scenarios_lead_to_the_contract() -> None:
    text = "As S23 says (S1, [S2](x.md)), `S3`.\n\n```\nS4\n```\n"
    assert pages.rewritten(text, "docs/howto/x.md", "howto/x.md") == (
        "As [S23](../scenarios.md#s23) says ([S1](../scenarios.md#s1), [S2](x.md)), `S3`.\n\n```\nS4\n```\n"
    )
    row = "| S23 | Curator holds | As S1 | |\n"
    assert pages.rewritten(row, "tests/scenarios.md", "scenarios.md") == (
        '| <span id="s23">S23</span> | Curator holds | As S1 | |\n'
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site with its references."""
    made = tmp_path_factory.mktemp("site")
    done = build(REPOSITORY, made)
    assert done.returncode == 0, done.stderr
    return made


def html(site: Path, page: str) -> str:
    """Return a page as it is served."""
    return (site / page / "index.html").read_text()


def words(text: str) -> str:
    """Return the words of a page, separated by single spaces."""
    return " ".join(unescape(re.sub(r"<[^>]+>", "", text)).split())


def test_the_site_asks_nobody_else(site: Path) -> None:
    shown = {page.relative_to(site): page.read_text() for page in site.rglob("*.html")}
    assert len(shown) > 50
    for name, text in shown.items():
        assert not re.search(r"<(script|link|img|iframe)\b[^>]*\b(src|href)=[\"']?(https?:)?//", text), name
    assert "fencing" in (site / "search" / "search_index.json").read_text()


MODULES = {
    "reference-python": zklock,
    "reference-python-aio": zklock.aio,
    "reference-python-testing": zklock.testing,
    "reference-python-prometheus": prometheus,
    "reference-python-opentelemetry": opentelemetry,
    "reference-python-kazoo": kazoo,
}


@pytest.mark.parametrize("page", MODULES)
def test_the_reference_of_python_has_every_name(site: Path, page: str) -> None:
    module = MODULES[page]
    text = html(site, page)
    public = [one for one in module.__all__ if not one.startswith("_")]
    assert [one for one in public if f'id="{module.__name__}.{one}"' not in text] == []
    assert ">>> " in words(text)


def test_the_reference_of_python_has_signatures_bases_and_members(site: Path) -> None:
    text = html(site, "reference-python")
    assert re.findall(r'<h2 id="zklock\.(\w+)"', text)[:2] == ["Client", "Mutex"]
    (mutex,) = re.findall(r'<h2 id="zklock\.Mutex".*?(?=<h2 )', text, re.DOTALL)
    assert "Mutex( client: Client | str | None, path: str, *, reentrant: bool = True," in words(mutex)
    assert "Bases: Lock" in words(mutex)
    assert "acquire( blocking: bool = True, timeout: float | None = -1," in words(mutex)
    assert 'id="zklock.Mutex.contenders"' in mutex
    assert "Client( hosts: str | None = None," in words(html(site, "reference-python-aio"))
    assert "traced( lock: Lock, timeout: float | None = -1," in words(
        html(site, "reference-python-opentelemetry")
    )


def test_the_reference_of_node_is_in_the_menu_and_has_titles(site: Path) -> None:
    page = html(site, "reference-node/zklock/classes/Mutex")
    assert "LockTimeoutError if the lock is not acquired in time" in words(page)
    assert "<title>Node: Mutex - zklock</title>" in page
    for module in pages.NODE_MODULES:
        assert f"<title>{module} - zklock</title>" in html(site, f"reference-node/{module}")
    (menu,) = re.findall(
        r'<nav class="md-nav md-nav--primary.*?</nav>\s*</div>', html(site, "rust"), re.DOTALL
    )
    for module in ("", *(f"{module}/" for module in pages.NODE_MODULES)):
        assert f'href="../reference-node/{module}"' in menu


def test_the_reference_of_rust_is_beside_the_pages(site: Path) -> None:
    assert "fn hold" in words((site / pages.RUST / "zklock" / "struct.Mutex.html").read_text())
    found = re.findall(rf'href="\.\./({pages.RUST}/[^"]+)"', html(site, "reference-rust"))
    assert len(found) == 2
    assert [one for one in found if not (site / one).exists()] == []


def test_programs_find_every_page_of_the_menu(site: Path) -> None:
    """llms.txt lists every page with its title and its first sentence."""
    listed = re.findall(r"^- \[(.+)\]\((\S+)\)(?:: (.+))?$", (site / "llms.txt").read_text(), re.MULTILINE)
    sources = re.findall(
        r"^ +- (?:[^#\n]+: )?(\S+\.md)$", (REPOSITORY / "mkdocs.yml").read_text(), re.MULTILINE
    )
    assert len(sources) > 40
    assert [url for _, url, _ in listed] == [
        "./" if source == "index.md" else f"{re.sub(r'(index)?[.]md$', '', source).rstrip('/')}/"
        for source in sources
    ]
    assert [url for _, url, _ in listed if not (site / url / "index.html").exists()] == []
    about = {url: (title, sentence) for title, url, sentence in listed}
    assert about["howto/upgrade/"][0] == "Upgrade, mixed versions"
    assert about["choosing/"][1] == "This page explains how to choose a kind of lock and a lock path."


def test_each_dead_link_is_told_and_fails_the_build(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for source in REPOSITORY.iterdir():
        if source.name in {"docs", "tools"}:
            shutil.copytree(source, copy / source.name)
        else:
            (copy / source.name).symlink_to(source)
    page = copy / "docs" / "interop.md"
    code = "`[not](gone.py)`\n\n```\n[nor](this.md)\n```\n\n"
    dead = [
        "gone.md",
        "safety.md#gone",
        "#gone",
        "../core/src/gone.rs",
        "/docs/safety.md",
        "../../outside.md",
    ]
    dead += [
        f"{pages.HOST}/blob/main/{path}" for path in ("core/gone.rs", "docs/gone.md", "docs/safety.md#lost")
    ]
    page.write_text(f"{page.read_text()}\n{code}{' '.join(f'[x]({target})' for target in dead)}\n")
    done = build(copy, tmp_path / "site", **{pages.QUICKLY: "1"})
    assert done.returncode != 0
    told = [line for line in done.stderr.splitlines() if line.startswith("WARNING") or "anchor" in line]
    assert [line for line in told if "interop.md" not in line] == []
    assert len(told) == len(dead), done.stderr
    for target in dead:
        there = target.removeprefix(f"{pages.HOST}/blob/main/docs/")
        assert any(f"'{there}'" in line for line in told), target


@pytest.mark.parametrize("drawing", DIAGRAMS, ids=lambda drawing: drawing.stem)
def test_every_diagram_is_shown_and_legible_on_light_and_dark_pages(drawing: Path) -> None:
    """Every diagram has its own background, and uses only the colors of the common style."""
    pages_texts = "".join(page.read_text() for page in (REPOSITORY / "docs").glob("*.md"))
    assert f"(diagrams/{drawing.name})" in pages_texts
    head, style, shapes = re.split(r"<style>|</style>", drawing.read_text())
    common = re.split(r"<style>|</style>", DIAGRAMS[0].read_text())[1]
    assert style == common
    light, dark = (set(re.findall(r"--\w+:", part)) for part in style.split("prefers-color-scheme: dark")[:2])
    assert light == dark >= {f"{used}:" for used in re.findall(r"var\((--\w+)\)", style)}
    assert not re.search(r"#[0-9a-f]{3}|(fill|stroke|style|color)=", head + shapes)
    (width, height), *_ = re.findall(r'viewBox="0 0 (\d+) (\d+)"', head)
    assert f'<rect class="paper" width="{width}" height="{height}"' in shapes
    used = {word for words in re.findall(r'class="([^"]*)"', shapes) for word in words.split()}
    assert used <= set(re.findall(r"\.(\w+)", style)), "a class without a style is black on black"
