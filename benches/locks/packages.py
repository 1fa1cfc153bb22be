"""Unpacks Debian packages into `benches/target`, without installing them or starting a service."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from pathlib import Path

from locks.peers import TARGET

UNPACKED = TARGET / "debian"
LIBRARIES = UNPACKED / "usr" / "lib" / "x86_64-linux-gnu"

# The packages of each program, including dependencies that a minimal system lacks.
PACKAGES = {
    "redis-server": (
        "redis-server",
        "redis-tools",
        "libjemalloc2",
        "liblzf1",
        "liblua5.1-0",
        "lua-bitop",
        "lua-cjson",
        "libatomic1",
    ),
    "etcd": ("etcd-server",),
    "postgres": ("postgresql-15", "libpq5", "libllvm14", "libz3-4", "libxml2", "libicu72", "libldap-2.5-0"),
}


class Unavailable(Exception):
    """Raised if a program is not available here."""


def _found(program: str) -> Path | None:
    """Return the path of an installed or unpacked program."""
    if (on_path := shutil.which(program)) is not None:
        return Path(on_path)
    for root in (Path("/usr"), UNPACKED / "usr"):
        places = [root / "bin" / program, *sorted(root.glob(f"lib/postgresql/*/bin/{program}"), reverse=True)]
        for place in places:
            if place.exists():
                return place
    return None


def program(name: str) -> Path:
    """Return a program's path. Unpack it if it is not installed."""
    if (found := _found(name)) is None:
        _unpack(PACKAGES[name])
        found = _found(name)
    if found is None:
        raise Unavailable(f"{', '.join(PACKAGES[name])} do not contain {name}")
    return found


def main() -> None:
    """Unpack the missing programs before anything is measured. Programs that cannot be unpacked are reported
    by the benchmark itself.
    """
    for name in PACKAGES:
        with contextlib.suppress(Unavailable):
            program(name)


def _unpack(packages: tuple[str, ...]) -> None:
    if shutil.which("apt-get") is None:
        raise Unavailable("apt-get is not available")
    archives = UNPACKED / "archives"
    archives.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        ["apt-get", "download", "--quiet", *packages],
        cwd=archives,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        why = (done.stderr.strip().splitlines() or ["apt-get failed"])[-1]
        raise Unavailable(f"{why} (as root, `apt-get update` may help)")
    for archive in archives.glob("*.deb"):
        subprocess.run(["dpkg", "--extract", archive, UNPACKED], check=True)
        archive.unlink()


if __name__ == "__main__":
    main()
