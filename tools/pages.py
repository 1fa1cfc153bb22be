"""Hooks for mkdocs. They adapt pages that are written for the hosting site to the documentation site.

- Links to files outside `docs` lead to the hosting site, unless the file is a page here. mkdocs checks the
  other links.
- Lines that rustdoc hides in an example are hidden here, too. Programs in several languages become tabs.
- The Python reference comes from the stubs, by mkdocstrings. The Node reference consists of TypeDoc's pages,
  and the Rust reference is rustdoc's, next to the pages.
- The number of a scenario becomes a link to that scenario.
- The search ranks pages for users first, and `llms.txt` lists the pages of the menu.
"""

from __future__ import annotations

import logging
import os
import posixpath
import re
import shutil
import subprocess
from html import unescape
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import indent

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
NODE_PACKAGE = ROOT / "bindings-node"
HOST = "https://github.com/zklock/zklock"
# Files outside `docs` that are pages.
BORROWED = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "benches/README.md": "benchmark.md",
    "bindings-node/README.md": "package-node.md",
    "bindings-python/README.md": "package-python.md",
    "examples/README.md": "examples.md",
    "tests/README.md": "tests.md",
    "tests/scenarios.md": "scenarios.md",
}
ORIGINS = {page: path for path, page in BORROWED.items()}
PYTHON = {
    "reference-python.md": "zklock",
    "reference-python-aio.md": "zklock.aio",
    "reference-python-testing.md": "zklock.testing",
    "reference-python-prometheus.md": "zklock.prometheus",
    "reference-python-opentelemetry.md": "zklock.opentelemetry",
    "reference-python-kazoo.md": "zklock.compat.kazoo",
}
NODE = "reference-node/"
NODE_MODULES = ("zklock", "zklock/testing", "zklock/prometheus", "zklock/opentelemetry")
RUST = "rustdoc"
RUST_PAGE = """# Rust\n\nThe reference of the crates, by rustdoc:\n
* <a href="../rustdoc/zklock/index.html"><code>zklock</code></a>, the locks
* <a href="../rustdoc/zklock_embedded/index.html"><code>zklock-embedded</code></a>, the server for tests
"""
QUICKLY = "ZKLOCK_SITE_QUICKLY"
"""Environment variable that omits the API references, to build the rest of the site quickly."""
# Search weights of pages that are mainly for developers of zklock. Other pages have weight 1.
WEIGHTS = {
    **dict.fromkeys(("safety.md", "architecture.md", "protocol.md", "performance.md"), 0.5),
    **dict.fromkeys(("reference-", "benchmark.md", "track-record.md", "upstream.md", "security.md"), 0.05),
    **dict.fromkeys(("decisions/", "scenarios.md", "changelog.md", "contributing.md", "tests.md"), 0.001),
}
_LOG = logging.getLogger("mkdocs.plugins.pages")
LANGUAGES = {"python": "Python", "js": "Node", "rust": "Rust"}
_BLOCK = re.compile(r"^```(\w+)\n.*?^```\n", re.DOTALL | re.MULTILINE)
_GROUP = re.compile(
    r"^```python\n(?:(?!^```).)*^```\n(?:\n^```(?:js|rust)\n(?:(?!^```).)*^```\n)+", re.DOTALL | re.MULTILINE
)
# A code block, inline code, a link or the end of a link, or the number of a scenario.
_TOKEN = re.compile(
    r"^ *(```+|~~~+).*?^ *\1 *$|(`+)(?!`).+?(?<!`)\2(?!`)"
    r"|(?:\[(?:`[^`]*`|[^][`])*)?\]\((?P<target>[^()\s]+)(?=\))|\bS(?P<number>\d+)\b",
    re.DOTALL | re.MULTILINE,
)


def run(*command: str | Path, cwd: Path = ROOT, **environment: str) -> None:
    """Run a program. Stop with its output if it fails."""
    done = subprocess.run(
        command, cwd=cwd, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")


def moved(target: str, origin: str, page: str) -> str:
    """Convert a link of the file `origin` for the page that shows it."""
    path, _, fragment = target.removeprefix(f"{HOST}/blob/main/").partition("#")
    if re.match(r"[a-z]+:|$", path):
        return target
    if path == target.partition("#")[0]:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), path))
    place = {**BORROWED, "docs/decisions": "decisions/index.md"}.get(path, path.removeprefix("docs/"))
    if place != path and place.endswith((".md", ".svg")):
        there = posixpath.relpath(place, posixpath.dirname(page) or ".")
    else:
        if not (ROOT / path).exists():
            _LOG.warning("%s: a link to '%s': there is no such file", origin, target)
        there = f"{HOST}/{'tree' if (ROOT / path).is_dir() else 'blob'}/main/{path}"
    return f"{there}#{fragment}" if fragment else there


def rewritten(text: str, origin: str, page: str) -> str:
    """Return the text of a file as the site shows it."""
    contract = posixpath.relpath("scenarios.md", posixpath.dirname(page) or ".")

    def token(found: re.Match[str]) -> str:
        if found["target"]:
            return found[0].removesuffix(found["target"]) + moved(found["target"], origin, page)
        if found["number"]:
            return found[0] if page == contract else f"[{found[0]}]({contract}#s{found['number']})"
        if found[0].startswith("```rust"):
            shown = re.sub(r"^#(?: .*)?\n", "", found[0], flags=re.MULTILINE)
            return re.sub(r"^```rust\S*", "```rust", shown)
        return found[0]

    def tabs(group: re.Match[str]) -> str:
        blocks = _BLOCK.finditer(group[0])
        return "".join(f'=== "{LANGUAGES[block[1]]}"\n\n{indent(block[0], "    ")}\n' for block in blocks)

    if page == "scenarios.md":
        text = re.sub(r"^\| S(\d+) \|", r'| <span id="s\1">S\1</span> |', text, flags=re.MULTILINE)
    return _GROUP.sub(tabs, _TOKEN.sub(token, text))


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the pages from outside `docs`, and the references."""
    pages = {page: (ROOT / path).read_text() for path, page in BORROWED.items()} | {
        "reference-rust.md": RUST_PAGE
    }
    for page, module in PYTHON.items():
        pages[page] = f"# `{module}`\n\n::: {module}\n    options:\n      show_root_heading: false\n"
    if QUICKLY in os.environ:
        pages |= {f"{NODE}index.md": "# Node\n"}
        pages |= {f"{NODE}{name}/index.md": f"# {name}\n" for name in NODE_MODULES}
    else:
        with TemporaryDirectory() as made:
            run(NODE_PACKAGE / "node_modules" / ".bin" / "typedoc", "--out", made, cwd=NODE_PACKAGE)
            for file in Path(made).rglob("*.md"):
                pages[NODE + str(file.relative_to(made))] = file.read_text()
    for name, text in pages.items():
        files.append(File.generated(config, name, content=text))


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Adapt a page to the site, and set its weight in the search."""
    here = page.file.src_uri
    weight = next((weight for start, weight in WEIGHTS.items() if here.startswith(start)), 1)
    page.meta.setdefault("search", {})["boost"] = weight
    if here.startswith(NODE):
        return re.sub(r"^```ts$", "``` { .ts .wraps }", markdown, flags=re.MULTILINE)
    return (
        markdown
        if here.startswith("reference-")
        else rewritten(markdown, ORIGINS.get(here, f"docs/{here}"), here)
    )


def first_sentence(html: str) -> str:
    """Return the first sentence of a page as plain text."""
    paragraphs = re.findall(r"<p\b[^>]*>(.*?)</p>", html, re.DOTALL)
    texts = (" ".join(unescape(re.sub(r"<[^>]+>", "", text)).split()) for text in paragraphs)
    return re.split(r"(?<=[.!?])\s", next(filter(None, texts), ""), maxsplit=1)[0].removesuffix(":")


def on_page_context(_context: object, page: Page, config: MkDocsConfig, nav: Navigation) -> None:
    """Write the list of the menu's pages. mkdocs calls this after it has rendered all pages."""
    if page.file.src_uri != "index.md":
        return
    lines = [f"# {config.site_name}", "", f"> {config.site_description}"]
    for section, pages in groupby(nav.pages, key=lambda one: [*one.ancestors][-1].title):
        lines += ["", f"## {section}", ""]
        for one in pages:
            about = first_sentence(one.content or "")
            lines.append(f"- [{one.title}]({one.url or './'})" + (f": {about}" if about else ""))
    Path(config.site_dir, "llms.txt").write_text("\n".join(lines) + "\n")


def on_post_build(config: MkDocsConfig) -> None:
    """Add the Rust reference to the site. A dead link in it is an error."""
    if QUICKLY not in os.environ:
        packages = ("--package=zklock", "--package=zklock-embedded")
        run("cargo", "doc", "--locked", "--no-deps", "--quiet", *packages, RUSTDOCFLAGS="-D warnings")
        target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
        shutil.copytree(target / "doc", Path(config.site_dir, RUST))
