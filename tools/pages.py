"""Hooks for mkdocs: pages are written for the hosting site's file view, and the site shows the same ones.

Links to files outside `docs` lead to the hosting site, unless the file is itself a page here. What rustdoc
hides in an example is hidden here, too. The reference of Python comes from the stubs, by mkdocstrings; that
of Node by TypeDoc, as pages; that of Rust by rustdoc, beside them.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from textwrap import indent

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from generated import RUST, node_reference, rust_reference
from links import HOST, ROOT, links

DOCS = "docs/"
DECISIONS = "decisions/index.md"
REFERENCES = {"reference-python.md": "zklock", "reference-python-aio.md": "zklock.aio"}
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
_ORIGINS = {page: path for path, page in BORROWED.items()}
LANGUAGES = {"python": "Python", "js": "Node", "rust": "Rust"}
_BLOCK = re.compile(r"^```(\w+)\n.*?^```$", re.DOTALL | re.MULTILINE)
_GROUP = re.compile(
    r"^```python\n(?:(?!^```).)*^```\n(?:\n^```(?:js|rust)\n(?:(?!^```).)*^```\n)+", re.DOTALL | re.MULTILINE
)
_RUST = re.compile(r"^```rust\S*\n(.*?)^```", re.DOTALL | re.MULTILINE)


def shown_at(path: str) -> str | None:
    """The page that shows a file of the repository, if one does."""
    if path in BORROWED:
        return BORROWED[path]
    inside = path.removeprefix(DOCS)
    return inside if inside != path and path.endswith((".md", ".svg")) else None


def moved(target: str, origin: str, page: str) -> str:
    """A link of the file `origin`, for the page that shows it."""
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
        there = f"{HOST}/{'tree' if (ROOT / path).is_dir() else 'blob'}/main/{path}"
    return f"{there}#{fragment}" if fragment else there


def rewritten(text: str, origin: str, page: str) -> str:
    """The text of a file, as the site shows it."""
    for link in reversed(list(links(text))):
        text = text[: link.start] + moved(link.target, origin, page) + text[link.end :]

    def visible(code: re.Match[str]) -> str:
        lines = [line for line in code[1].splitlines(keepends=True) if not re.match(r"#( |$)", line)]
        return f"```rust\n{''.join(lines)}```"

    return tabbed(_RUST.sub(visible, text))


def tabbed(text: str) -> str:
    """Programs in several languages that follow each other, as tabs."""

    def tabs(group: re.Match[str]) -> str:
        return "".join(
            f'=== "{LANGUAGES[block[1]]}"\n\n{indent(block[0], "    ")}\n\n'
            for block in _BLOCK.finditer(group[0])
        )

    return _GROUP.sub(tabs, text)


def decisions() -> str:
    """The list of all decisions, by number."""
    lines = ["# Decisions", "", "What was decided, on what evidence.", ""]
    for path in sorted((ROOT / DOCS / "decisions").glob("[0-9]*.md")):
        title = path.read_text().splitlines()[0].removeprefix("# ")
        number, _, words = title.partition(". ")
        lines.append(f"* {number}: [{words or title}]({path.name})")
    return "\n".join(lines) + "\n"


def reference(module: str) -> str:
    """The page of a module, from its stubs and docstrings."""
    return f"# `{module}`\n\n::: {module}\n    options:\n      show_root_heading: false\n"


def rust_page() -> str:
    """Leads to what rustdoc writes, which has a look of its own."""
    crates = "".join(
        f'* <a href="../{RUST}/{name.replace("-", "_")}/index.html"><code>{name}</code></a>, {what}\n'
        for name, what in (("zklock", "the locks"), ("zklock-embedded", "the server for tests"))
    )
    return f"# Rust\n\nThe reference of the crates, by rustdoc:\n\n{crates}"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages that lie elsewhere."""
    for path, page in BORROWED.items():
        files.append(File.generated(config, page, content=(ROOT / path).read_text()))
    files.append(File.generated(config, DECISIONS, content=decisions()))
    for page, module in REFERENCES.items():
        files.append(File.generated(config, page, content=reference(module)))
    for name, text in node_reference().items():
        files.append(File.generated(config, NODE + name, content=text))
    files.append(File.generated(config, RUST_PAGE, content=rust_page()))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Leads links to where the site has their targets."""
    here = page.file.src_uri
    if here in (DECISIONS, RUST_PAGE) or here in REFERENCES or here.startswith(NODE):
        return markdown
    return rewritten(markdown, _ORIGINS.get(here, DOCS + here), here)


def on_post_build(config: MkDocsConfig) -> None:
    """Puts the reference of Rust beside the pages."""
    rust_reference(Path(config.site_dir) / RUST)
