"""The two tiers of tests. tests/second-tier.toml lists the tests that run only in `make test-all`, with
reasons.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

LIST = Path(__file__).resolve().parent.parent / "tests" / "second-tier.toml"

WHOLE = "*"
"""The pattern of a suite that is in the second tier as a whole."""


@cache
def _table() -> dict[str, dict[str, str]]:
    table: dict[str, dict[str, str]] = tomllib.loads(LIST.read_text())
    return table


@dataclass(frozen=True)
class Second:
    """The second tier of one suite."""

    reasons: dict[str, str]
    """Reasons by pattern. A pattern is a test's name as its runner prints it, with `*` for any text. A file
    name means all its tests.
    """

    @classmethod
    def of(cls, suite: str) -> Second:
        return cls(_table().get(suite, {}))

    @property
    def whole(self) -> bool:
        """Return whether the whole suite is in the second tier."""
        return WHOLE in self.reasons

    def has(self, test: str) -> bool:
        """Return whether a test is in the second tier."""
        return any(fnmatchcase(test, pattern) or test.startswith(f"{pattern}::") for pattern in self.reasons)

    def idle(self, tests: list[str]) -> list[str]:
        """Return the patterns that match none of these tests."""
        return [
            pattern for pattern in self.reasons if not any(Second({pattern: ""}).has(test) for test in tests)
        ]


def suites() -> list[str]:
    """Return the suites with tests in the second tier."""
    return list(_table())
