"""The properties of public types that are compared between languages."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Member:
    """A property, a method or an option."""

    type: str
    """Its type or its return type, in the language's notation."""
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
"""A pseudo-type whose members are the functions of modules."""


def flattened(types: Types, name: str) -> dict[str, Member]:
    """Return the members of a type, including inherited ones."""
    found: dict[str, Member] = {}
    for base in reversed(types[name].bases):
        if base in types:
            found |= flattened(types, base)
    return found | types[name].members
