"""Tests of ACLs, identities and IPv6 addresses with every subcommand."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.security import ACL, make_acl, make_digest_acl

from harness.command import Command, Outcome, run, write_credentials
from harness.observer import Observer
from harness.proxy import Proxy
from harness.rights import access, nodes
from harness.security import PASSWORD, SUPER, USER, Secured, secured_server
from harness.server import Standalone

OURS = [make_digest_acl("app", "secret", all=True)]
EVERYONE = [make_acl("world", "anyone", all=True)]
LISTED = [*OURS, make_acl("world", "anyone", read=True)]
RULES = f"digest:{OURS[0].id.id}:cdrwa,world:anyone:r"
CREATE_AND_READ = make_acl("world", "anyone", create=True, read=True)
MODES = {"mutex": [], "write": ["-x"], "read": ["-s"], "slots": ["--slots", "2"]}

# Options, ACL of the nodes and directories, and ACL of the parents, as in scenarios/test_rights.py.
LISTS: dict[str, tuple[dict[str, str], list[ACL], list[ACL]]] = {
    "nothing": ({}, EVERYONE, EVERYONE),
    "creator": ({"acl": "creator"}, OURS, [*OURS, CREATE_AND_READ]),
    "creator and rules": ({"acl": "creator", "parent-acl": RULES}, OURS, LISTED),
    "rules and creator": ({"acl": RULES, "parent-acl": "creator"}, LISTED, OURS),
    "open and rules": ({"acl": "open", "parent-acl": RULES}, EVERYONE, LISTED),
}


@pytest.fixture(scope="module")
def secured() -> Iterator[Secured]:
    """Provide a server with users and a TLS port."""
    with secured_server() as made:
        yield made


@pytest.fixture(scope="module")
def admin(secured: Secured) -> Iterator[Observer]:
    """Provide an observer with access to every node of the server."""
    with Observer(secured.server.hosts) as made:
        made.client.add_auth(*SUPER)
        yield made


def given(options: dict[str, str], how: str) -> tuple[list[str], dict[str, str]]:
    """Return the options as arguments, or as environment variables."""
    if how == "option":
        return [word for name, value in options.items() for word in (f"--{name}", value)], {}
    return [], {f"ZKLOCK_{name.upper().replace('-', '_')}": value for name, value in options.items()}


@pytest.mark.parametrize("how", ["option", "environment"])
@pytest.mark.parametrize("lists", LISTS)
def test_s790_acls_of_all_nodes_that_run_creates(
    secured: Secured, admin: Observer, path: str, tmp_path: Path, lists: str, how: str
) -> None:
    options, own, above = LISTS[lists]
    login = write_credentials(tmp_path / "login", "digest:app:secret\n")
    words, env = given({"auth-file": login, **options}, how)
    for mode, flags in MODES.items():
        top = f"{path}-{mode}"
        lock = f"{top}/above/lock"
        with Command(
            secured.server.hosts,
            "run",
            *words,
            *flags,
            lock,
            "--",
            "sh",
            "-c",
            "echo in; exec sleep 60",
            env=env,
        ) as command:
            command.read_until("in")
            held = f"{lock}/leases" if mode == "slots" else lock
            assert len(admin.queue(held)) == 1
            for node in nodes(admin, top):
                assert access(admin, node) == (above if node in (top, f"{top}/above") else own), (mode, node)


IDENTITIES = {
    "auth": (["digest:app:secret"], False, ["digest"]),
    "two": (["digest:app:secret", "# and", "digest:batch:hidden"], False, ["digest", "digest"]),
    "sasl": ([f"sasl:{USER}:{PASSWORD}"], False, ["sasl"]),
    "tls": ([], True, ["x509"]),
    "all": (["digest:app:secret", f"sasl:{USER}:{PASSWORD}"], True, ["digest", "sasl", "x509"]),
}


def outcomes(hosts: str, words: list[str], path: str, node: str, label: str) -> dict[str, Outcome]:
    """Return each subcommand's outcome at a held lock. The last one breaks the lock."""
    commands = {
        "ls": ["ls", *words, path],
        "ls all": ["ls", "-r", *words, path],
        "top": ["top", "--once", *words, path],
        "wait": ["wait", "-w", "0", *words, path],
        "run": ["run", "-n", *words, path, "--", "echo", "ran"],
        # The doctor waits up to a session timeout for a taken lock, so the session timeout is short.
        "doctor": ["doctor", "--json", "--session-timeout", "1s", *words, path],
        "revoke": ["revoke", *words, path, "--holder", label],
        "break": ["break", "--yes", *words, path, node],
    }
    return {name: run(hosts, *command) for name, command in commands.items()}


@pytest.mark.parametrize("who", IDENTITIES)
def test_s791_every_subcommand_uses_the_identity(
    secured: Secured, admin: Observer, path: str, tmp_path: Path, who: str
) -> None:
    """Each subcommand can access a lock of the same user, and none can access another user's lock."""
    lines, encrypted, schemes = IDENTITIES[who]
    words = ["--acl", "creator"]
    if lines:
        words += ["--auth-file", write_credentials(tmp_path / "login", "\n".join(lines) + "\n")]
    shown = [word for name, file in secured.tls.items() for word in (f"--tls-{name}", file)]
    words += shown if encrypted else []
    hosts = secured.hosts if encrypted else secured.server.hosts
    holds = ["sh", "-c", "echo in; exec sleep 60"]
    with Command(hosts, "run", "--label", "ours", *words, path, "--", *holds) as command:
        command.read_until("in")
        (node,) = admin.queue(path)
        for created in (path, f"{path}/{node}"):
            assert sorted(acl.id.scheme for acl in access(admin, created)) == schemes
        stranger = outcomes(secured.server.hosts, [], path, node, "ours")
        assert {
            name: reported.status for name, reported in stranger.items() if name != "doctor"
        } == dict.fromkeys(("ls", "ls all", "top", "wait", "run", "revoke", "break"), 77)
        assert any("cannot acquire the lock" in one["finding"] for one in json.loads(stranger["doctor"].out))
        assert admin.queue(path) == [node], "the lock was broken"
        assert admin.client.get(f"{path}/{node}")[0] != b"__REVOKE__"
        ours = outcomes(hosts, words, path, node, "ours")
        statuses = {"ls": 0, "ls all": 0, "top": 0, "wait": 75, "run": 75, "revoke": 0, "break": 0}
        assert {name: reported.status for name, reported in ours.items() if name != "doctor"} == statuses
        assert all("ours (" in ours[name].out for name in ("ls", "ls all", "top", "revoke", "break"))
        assert "ours (" in ours["run"].err
        assert "ours (" in ours["wait"].err
        findings = [one["finding"] for one in json.loads(ours["doctor"].out)]
        assert any("process" in one and "cannot acquire the lock" in one for one in findings), findings
        assert not any("open access control list" in one for one in findings)
        assert command.wait().status == 79


def test_s796_every_subcommand_over_ipv6(server: Standalone, observer: Observer, path: str) -> None:
    with Proxy(server.hosts, host="::1", opaque=True) as proxy:
        assert proxy.hosts == f"[::1]:{proxy.port}"
        for hosts in (proxy.hosts, f"{proxy.hosts},[::1]:1", f"{proxy.hosts}{path}"):
            lock = "/a" if hosts.endswith(path) else f"{path}/a"
            for option in (True, False):
                address = ["-z", hosts] if option else []
                with Command(
                    "" if option else hosts, "run", "--label", "ours", *address, lock, "--", "sleep", "60"
                ) as command:
                    (node,) = observer.wait_queue(f"{path}/a", 1)
                    reported = outcomes("" if option else hosts, address, lock, node, "ours")
                    statuses = [
                        reported[name].status for name in ("ls", "top", "wait", "run", "revoke", "break")
                    ]
                    assert statuses == [0, 0, 75, 75, 0, 0], reported
                    findings = json.loads(reported["doctor"].out)
                    found = [one["finding"] for one in findings]
                    assert any(f"{proxy.hosts} runs ZooKeeper" in one for one in found), found
                    assert any(f"{proxy.hosts} has a tickTime of" in one for one in found), found
                    assert any("[::1]:1 refuses connections" in one for one in found) == (",[::1]:1" in hosts)
                    assert command.wait().status == 79
