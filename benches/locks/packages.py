"""Programs from Debian's packages, unpacked below this directory: nothing is installed; no service starts."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from pathlib import Path

from locks.peers import TARGET

UNPACKED = TARGET / "debian"
LIBRARIES = UNPACKED / "usr" / "lib" / "x86_64-linux-gnu"

# The packages of each program, with what they need that a small system has not.
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
    """A program cannot be had here."""


def _found(program: str) -> Path | None:
    """Where it is installed or unpacked."""
    if (on_path := shutil.which(program)) is not None:
        return Path(on_path)
    for root in (Path("/usr"), UNPACKED / "usr"):
        places = [root / "bin" / program, *sorted(root.glob(f"lib/postgresql/*/bin/{program}"), reverse=True)]
        for place in places:
            if place.exists():
                return place
    return None


def program(name: str) -> Path:
    """A program, unpacked if it is not installed."""
    if (found := _found(name)) is None:
        _unpack(PACKAGES[name])
        found = _found(name)
    if found is None:
        raise Unavailable(f"{', '.join(PACKAGES[name])} hold no {name}")
    return found


def main() -> None:
    """Unpack what is not installed, before anything is measured. What cannot be had, the run names."""
    for name in PACKAGES:
        with contextlib.suppress(Unavailable):
            program(name)


def _unpack(packages: tuple[str, ...]) -> None:
    if shutil.which("apt-get") is None:
        raise Unavailable("there is no apt-get")
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
