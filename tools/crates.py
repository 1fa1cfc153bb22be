"""Unpacks the published form of the crates for programs outside the workspace."""

from __future__ import annotations

import tarfile
from pathlib import Path

from parts import BUILT, STAMPS

HERE = STAMPS / "crates"


def unpack(archive: Path) -> tuple[str, Path]:
    """Unpack an archive. Return the name of the crate and the directory of its sources.

    Unchanged files are left alone. All files of an archive have the same time, so cargo could not recognize
    the changed ones.
    """
    with tarfile.open(archive) as packed:
        files = {member.name: member for member in packed.getmembers() if member.isfile()}
        # zklock-transport-0.1.0/src/lib.rs
        (top,) = {Path(name).parts[0] for name in files}
        for name, member in files.items():
            content = packed.extractfile(member)
            assert content is not None
            read, path = content.read(), HERE / name
            if not path.exists() or path.read_bytes() != read:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(read)
    directory = HERE / top
    for path in directory.rglob("*"):
        if path.is_file() and str(path.relative_to(HERE)) not in files:
            path.unlink()
    return top.rpartition("-")[0], directory


def published(packages: Path = BUILT / "packages") -> dict[str, Path]:
    """Return every published crate."""
    return dict(unpack(archive) for archive in sorted(packages.glob("*.crate")))


def in_place_of_the_registry(names: list[str]) -> list[str]:
    """Return options that make cargo use these crates. The registry might have none or older ones."""
    crates = published()
    return [word for name in names for word in ("--config", f'patch.crates-io.{name}.path="{crates[name]}"')]
