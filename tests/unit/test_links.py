"""Servers that a test can partition communicate only through links: forwarders in the test's process."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from harness.links import Links
from harness.server import Ensemble

ESTABLISHED = "01"


def dialled() -> dict[str, int]:
    """Return this machine's established connections: the inode of each socket and its remote port."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {line[9]: int(line[2].rpartition(":")[2], 16) for line in lines if line[3] == ESTABLISHED}


def own_sockets() -> set[str]:
    """Return the inodes of this process's sockets. The links run in this process."""
    found = set()
    for descriptor in Path("/proc/self/fd").iterdir():
        # The descriptor for this listing is already closed.
        with contextlib.suppress(FileNotFoundError):
            found.update(re.findall(r"socket:\[(\d+)\]", str(descriptor.readlink())))
    return found


def test_servers_reach_each_other_through_the_links_only() -> None:
    with Links() as links, Ensemble(links=links) as three:
        # After a restart, the servers with larger numbers connect to the restarted server again.
        for server in three.servers:
            server.kill()
            server.start()
        three.wait_serving()
        inside = {socket: port for socket, port in dialled().items() if port in three.inner_ports}
        assert len(inside) >= 4, "connections of two followers, and of the election"
        # Check again, because a link might have closed its socket since the connections were listed. A direct
        # connection between two servers would still be open.
        others = inside.keys() - own_sockets()
        assert not others & dialled().keys()
