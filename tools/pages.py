"""Hooks for mkdocs. The pages are written for the hosting site's file view, and the documentation site shows
the same files.

- Links to files outside `docs` lead to the hosting site, unless the file is a page here. mkdocs checks the
  other links.
- Lines that rustdoc hides in an example are hidden here, too.
- The Python reference comes from the stubs, by mkdocstrings. The Node reference consists of TypeDoc's pages,
  and the Rust reference is rustdoc's, next to the pages.
- Numbers of scenarios lead to the contract.
- The search ranks pages for users first, and `llms.txt` lists the pages of the menu.
"""

from __future__ import annotations

import logging
import posixpath
import re
from html import unescape
from pathlib import Path
from textwrap import indent

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure import StructureItem
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page

from generated import ROOT, RUST, node_reference, rust_reference

HOST = "https://github.com/zklock/zklock"
DOCS = "docs/"
DECISIONS = "decisions/index.md"
REFERENCES = {
    "reference-python.md": "zklock",
    "reference-python-aio.md": "zklock.aio",
    "reference-python-testing.md": "zklock.testing",
    "reference-python-prometheus.md": "zklock.prometheus",
    "reference-python-opentelemetry.md": "zklock.opentelemetry",
    "reference-python-kazoo.md": "zklock.compat.kazoo",
}
NODE = "reference-node/"
RUST_PAGE = "reference-rust.md"
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
SCENARIOS = "scenarios.md"
# Search weights of pages that are not for users. Pages for users have weight 1.
WEIGHTS = {
    **dict.fromkeys(("safety.md", "architecture.md", "protocol.md", "performance.md"), 0.5),
    **dict.fromkeys(("reference-", "benchmark.md", "track-record.md", "upstream.md", "security.md"), 0.05),
    **dict.fromkeys(("decisions/", SCENARIOS, "changelog.md", "contributing.md", "tests.md"), 0.001),
}
_ORIGINS = {page: path for path, page in BORROWED.items()}
_LOG = logging.getLogger("mkdocs.plugins.pages")
_FENCE = re.compile(r"^ *(```+|~~~+).*?^ *\1 *$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"(?<!`)(`+)(?!`).+?(?<!`)\1(?!`)", re.DOTALL)
_LINK = re.compile(r"\]\(([^()\s]+)\)")
LANGUAGES = {"python": "Python", "js": "Node", "rust": "Rust"}
_BLOCK = re.compile(r"^```(\w+)\n.*?^```$", re.DOTALL | re.MULTILINE)
_GROUP = re.compile(
    r"^```python\n(?:(?!^```).)*^```\n(?:\n^```(?:js|rust)\n(?:(?!^```).)*^```\n)+", re.DOTALL | re.MULTILINE
)
_NUMBER = re.compile(r"\bS(\d+)\b")
_ROW = re.compile(r"^\| S(\d+) \|", re.MULTILINE)
_RUST = re.compile(r"^```rust\S*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blanked(text: str) -> str:
    """Return the text with all code replaced by spaces, so that offsets stay the same."""

    def spaces(code: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", code[0])

    return _CODE.sub(spaces, _FENCE.sub(spaces, text))


def shown_at(path: str) -> str | None:
    """Return the page that shows a file of the repository, or None."""
    if path in BORROWED:
        return BORROWED[path]
    inside = path.removeprefix(DOCS)
    return inside if inside != path and path.endswith((".md", ".svg")) else None


def moved(target: str, origin: str, page: str) -> str:
    """Convert a link of the file `origin` for the page that shows it."""
    if target.startswith(f"{HOST}/blob/main/"):
        path, _, fragment = target.removeprefix(f"{HOST}/blob/main/").partition("#")
    elif re.match(r"[a-z]+:|#", target):
        return target
    else:
        path, _, fragment = target.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), path))
    if path == f"{DOCS}decisions":
        there = posixpath.relpath(DECISIONS, posixpath.dirname(page) or ".")
    elif (place := shown_at(path)) is not None:
        there = posixpath.relpath(place, posixpath.dirname(page) or ".")
    else:
        if not (ROOT / path).exists():
            _LOG.warning("%s: a link to '%s': there is no such file", origin, target)
        there = f"{HOST}/{'tree' if (ROOT / path).is_dir() else 'blob'}/main/{path}"
    return f"{there}#{fragment}" if fragment else there


def numbered(text: str, page: str) -> str:
    """Return the text with each scenario number as a link to its row in the contract. The contract itself
    gets anchors.
    """
    if page == SCENARIOS:
        return _ROW.sub(r'| <span id="s\1">S\1</span> |', text)
    there = posixpath.relpath(SCENARIOS, posixpath.dirname(page) or ".")
    # Neither in code nor in the text of another link.
    plain = re.sub(r"\[[^\]]*\]\([^)]*\)", lambda link: " " * len(link[0]), blanked(text))
    for number in reversed(list(_NUMBER.finditer(plain))):
        link = f"[{number[0]}]({there}#s{number[1]})"
        text = text[: number.start()] + link + text[number.end() :]
    return text


def rewritten(text: str, origin: str, page: str) -> str:
    """Return the text of a file as the site shows it."""
    for link in reversed(list(_LINK.finditer(blanked(text)))):
        start, end = link.span(1)
        text = text[:start] + moved(text[start:end], origin, page) + text[end:]
    text = numbered(text, page)

    def visible(code: re.Match[str]) -> str:
        lines = [line for line in code[1].splitlines(keepends=True) if not re.match(r"#( |$)", line)]
        return f"```rust\n{''.join(lines)}```"

    return tabbed(_RUST.sub(visible, text))


def tabbed(text: str) -> str:
    """Turn consecutive programs in several languages into tabs."""

    def tabs(group: re.Match[str]) -> str:
        return "".join(
            f'=== "{LANGUAGES[block[1]]}"\n\n{indent(block[0], "    ")}\n\n'
            for block in _BLOCK.finditer(group[0])
        )

    return _GROUP.sub(tabs, text)


def reference(module: str) -> str:
    """Return the reference page of a module, from its stubs and docstrings."""
    return f"# `{module}`\n\n::: {module}\n    options:\n      show_root_heading: false\n"


def rust_page() -> str:
    """Return a page with links to rustdoc's pages, which have their own layout."""
    crates = "".join(
        f'* <a href="../{RUST}/{name.replace("-", "_")}/index.html"><code>{name}</code></a>, {what}\n'
        for name, what in (("zklock", "the locks"), ("zklock-embedded", "the server for tests"))
    )
    return f"# Rust\n\nThe reference of the crates, by rustdoc:\n\n{crates}"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside `docs`."""
    for path, page in BORROWED.items():
        files.append(File.generated(config, page, content=(ROOT / path).read_text()))
    for page, module in REFERENCES.items():
        files.append(File.generated(config, page, content=reference(module)))
    for name, text in node_reference().items():
        files.append(File.generated(config, NODE + name, content=text))
    files.append(File.generated(config, RUST_PAGE, content=rust_page()))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Redirect links to the site's pages, and set the page's weight in the search."""
    here = page.file.src_uri
    weight = next((weight for start, weight in WEIGHTS.items() if here.startswith(start)), 1)
    page.meta.setdefault("search", {})["boost"] = weight
    if here.startswith(NODE):
        return re.sub(r"^```ts$", "``` { .ts .wraps }", markdown, flags=re.MULTILINE)
    if here == RUST_PAGE or here in REFERENCES:
        return markdown
    return rewritten(markdown, _ORIGINS.get(here, DOCS + here), here)


def first_sentence(html: str) -> str:
    """Return the first sentence of a page as plain text."""
    for paragraph in re.findall(r"<p\b[^>]*>(.*?)</p>", html, re.DOTALL):
        if words := " ".join(unescape(re.sub(r"<[^>]+>", "", paragraph)).split()):
            return re.split(r"(?<=[.!?])\s", words, maxsplit=1)[0].removesuffix(":")
    return ""


def pages_of(item: StructureItem) -> list[Page]:
    """Return the pages of a part of the menu."""
    if isinstance(item, Section):
        return [page for child in item.children for page in pages_of(child)]
    return [item] if isinstance(item, Page) else []


def llms(config: MkDocsConfig, nav: Navigation) -> str:
    """Return the pages of the menu with their first sentences, in the format of llmstxt.org."""
    lines = [f"# {config.site_name}", "", f"> {config.site_description}"]
    for section in nav.items:
        lines += ["", f"## {section.title}", ""]
        for page in pages_of(section):
            about = first_sentence(page.content or "")
            lines.append(f"- [{page.title}]({page.url or './'})" + (f": {about}" if about else ""))
    return "\n".join(lines) + "\n"


def on_page_context(_context: object, page: Page, config: MkDocsConfig, nav: Navigation) -> None:
    """Write the list of the menu's pages. All of them are rendered before the first is written."""
    if page.file.src_uri == "index.md":
        Path(config.site_dir, "llms.txt").write_text(llms(config, nav))


def on_post_build(config: MkDocsConfig) -> None:
    """Add the Rust reference to the site."""
    rust_reference(Path(config.site_dir) / RUST)
