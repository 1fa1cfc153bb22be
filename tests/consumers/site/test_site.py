"""The site in a browser: no code is cut off, pages fit a phone, and the search lists user pages first."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.browser import look
from harness.paths import REPOSITORY
from harness.site import build
from pages import RUST

# The build includes the API references, and the tests show hundreds of pages one after another.
pytestmark = pytest.mark.timeout(600)

TOO_WIDE = """
const wide = [];
const { pages, width, blocks } = given;
for (const page of pages) {
  const shown = await show(page, width);
  if (shown.documentElement.scrollWidth > width) wide.push(`${page} is wider than ${width} px`);
  for (const one of blocks ? shown.querySelectorAll(blocks) : [])
    if (one.scrollWidth > one.clientWidth)
      wide.push(`${page} by ${one.scrollWidth - one.clientWidth} px: ${one.textContent.trim().slice(0, 60)}`);
}
return wide;
"""

# Returns the pages that the search lists for each query, in order. The result count appears after the search.
FOUND = """
const found = {};
for (const query of given) {
  const shown = await show(`/index.html?q=${encodeURIComponent(query)}`, 1400);
  const resultCount = () => shown.querySelector('.md-search-result__meta')?.textContent ?? '';
  while (!/matching document/.test(resultCount())) await new Promise((resolve) => setTimeout(resolve, 10));
  const links = [...shown.querySelectorAll('a.md-search-result__link')];
  found[query] = links.map((link) => new URL(link.href).pathname);
}
return found;
"""
FIRST = {
    "apscheduler": "/frameworks/",
    "celery": "/frameworks/",
    "cron": "/howto/cron/",
    "dask": "/frameworks/",
    "deadlock": "/choosing/",
    "fencing token": "/howto/database/",
    "LockLost": "/errors/",
    "LockTimeout": "/errors/",
    "metrics": "/observability/",
    "Mutex": "/choosing/",
    "timeout": "/howto/operations/",
    "tls": "/howto/security/",
    "upgrade": "/howto/upgrade/",
}
"""The page that must be the first result for each query."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site with its API references. Return its directory."""
    made = tmp_path_factory.mktemp("site")
    done = build(REPOSITORY, made)
    assert done.returncode == 0, done.stderr
    return made


@pytest.fixture(scope="module")
def addresses(site: Path) -> list[str]:
    """Return all pages except those of rustdoc, which has its own layout."""
    pages = [page.relative_to(site) for page in site.rglob("index.html")]
    found = sorted(f"/{page}" for page in pages if page.parts[0] != RUST)
    assert len(found) > 100
    return found


def test_no_code_is_wider_than_its_column(site: Path, addresses: list[str]) -> None:
    """Code is never wider than its column, because readers overlook text that needs sideways scrolling."""
    assert look(site, TOO_WIDE, {"pages": addresses, "width": 1400, "blocks": "pre, pre > code"}) == []


def test_no_page_is_wider_than_a_phone(site: Path, addresses: list[str]) -> None:
    """On a phone, a page never scrolls sideways. Only code and tables can."""
    assert look(site, TOO_WIDE, {"pages": addresses, "width": 390}) == []


def test_the_search_lists_user_pages_first(site: Path) -> None:
    found = look(site, FOUND, list(FIRST))
    assert {query: pages[:1] for query, pages in found.items()} == {
        query: [page] for query, page in FIRST.items()
    }
    # The search lists decisions too, but not first.
    assert "/decisions/logging-and-metrics/" in found["metrics"]
