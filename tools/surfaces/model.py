"""What is compared of a language's public types."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Member:
    """A property, a method or an option."""

    type: str
    """What it is, or what it returns, in the language's own words."""
    doc: str = ""
    is_property: bool = False
    is_async: bool = False
    parameters: dict[str, Member] = field(default_factory=dict)
    default: str | None = None


@dataclass
class Type:
    """A class, or a record of options."""

    doc: str = ""
    bases: list[str] = field(default_factory=list)
    members: dict[str, Member] = field(default_factory=dict)
    constructor: dict[str, Member] = field(default_factory=dict)


Types = dict[str, Type]

FUNCTIONS = "functions"
"""The type, so to speak, whose members are the functions of modules."""


def flattened(types: Types, name: str) -> dict[str, Member]:
    """The members of a type with those that it inherits."""
    found: dict[str, Member] = {}
    for base in reversed(types[name].bases):
        if base in types:
            found |= flattened(types, base)
    return found | types[name].members
