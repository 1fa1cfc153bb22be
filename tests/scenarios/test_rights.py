"""Tests of the rights and identities of every node that a client creates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.security import ACL, make_acl, make_digest_acl

from harness.observer import Observer
from harness.rights import KINDS, access, nodes, occupy, parents
from harness.security import PASSWORD, SUPER, USER, Secured, secured_server
from harness.server import Standalone
from harness.steps import Start

US = ("digest", "app:secret")
TOO = ("digest", "batch:hidden")
THEIRS = make_digest_acl("batch", "hidden", all=True)
OURS = [make_digest_acl("app", "secret", all=True)]
EVERYONE = [make_acl("world", "anyone", all=True)]
LISTED = [*OURS, make_acl("world", "anyone", read=True)]
RULES = f"digest:{OURS[0].id.id}:cdrwa,world:anyone:r"
ALL = 31
CREATE_AND_READ = make_acl("world", "anyone", create=True, read=True)

# For each case: the client's options, the expected ACL of a lock's nodes and directories, and the expected
# ACL of their parents.
LISTS: dict[str, tuple[dict[str, Any], list[ACL], list[ACL]]] = {
    "nothing": ({}, EVERYONE, EVERYONE),
    "creator": ({"acl": "creator"}, OURS, [*OURS, CREATE_AND_READ]),
    "creator and rules": ({"acl": "creator", "parent_acl": RULES}, OURS, LISTED),
    "rules and creator": ({"acl": RULES, "parent_acl": "creator"}, LISTED, OURS),
    "rules and open": ({"acl": RULES, "parent_acl": "open"}, LISTED, EVERYONE),
    "open and rules": ({"acl": "open", "parent_acl": RULES}, EVERYONE, LISTED),
}


@pytest.fixture
def admin(server: Standalone) -> Iterator[Observer]:
    """Provide an observer with our credentials."""
    with Observer(server.hosts) as bystander:
        bystander.client.add_auth(*US)
        yield bystander


@pytest.mark.parametrize("given", LISTS)
def test_s770_acls_of_all_created_nodes(
    surface: str, given: str, server: Standalone, admin: Observer, path: str, start: Start
) -> None:
    options, own, above = LISTS[given]
    worker = start(surface)
    worker.connect(server.hosts, auth=[US], **options)
    for kind in KINDS:
        top = f"{path}-{kind}"
        children = occupy(worker, admin, top, kind)
        assert {node: len(admin.children(node)) for node in children} == children, kind
        shared = {f"/{path.split('/')[1]}", *parents(top, kind)}
        for node in nodes(admin, top):
            assert access(admin, node) == (above if node in shared else own), (kind, node)
        assert access(admin, f"/{path.split('/')[1]}") == above


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    """Provide a server with users and a TLS port."""
    with secured_server() as made:
        yield made


# For each case: the client's credentials, and the schemes in the ACL that `creator` stands for, sorted.
LOGIN = (USER, PASSWORD)
IDENTITIES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "auth": ({"auth": [US]}, ["digest"]),
    "two": ({"auth": [US, TOO]}, ["digest", "digest"]),
    "sasl": ({"sasl": LOGIN}, ["sasl"]),
    "tls": ({"tls": True}, ["x509"]),
    "all": ({"auth": [US], "sasl": LOGIN, "tls": True}, ["digest", "sasl", "x509"]),
}


@pytest.mark.parametrize("given", IDENTITIES)
def test_s771_the_creator_of_all_created_nodes(
    surface: str, given: str, secured: Secured, path: str, start: Start
) -> None:
    """`creator` stands for all identities of the client, and is the same for each node and directory."""
    shown, schemes = IDENTITIES[given]
    encrypted = "tls" in shown
    worker = start(surface)
    options = {**shown, "tls": secured.tls} if encrypted else shown
    worker.connect(secured.hosts if encrypted else secured.server.hosts, acl="creator", **options)
    with Observer(secured.server.hosts) as admin:
        admin.client.add_auth(*SUPER)
        for kind in KINDS:
            top = f"{path}-{kind}"
            occupy(worker, admin, top, kind)
            above = parents(top, kind)
            for node in nodes(admin, top):
                acls = access(admin, node)
                if node in above:
                    assert acls.pop() == CREATE_AND_READ, (kind, node)
                assert sorted(acl.id.scheme for acl in acls) == schemes, (kind, node)
                assert {acl.perms for acl in acls} == {ALL}, (kind, node)
                ids = {acl.id.scheme: acl.id.id for acl in acls if acl.id != THEIRS.id}
                assert ids.get("digest", OURS[0].id.id) == OURS[0].id.id, (kind, node)
                assert ids.get("sasl", USER) == USER, (kind, node)
