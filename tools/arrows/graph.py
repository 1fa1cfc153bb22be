"""Arrows between files, and the circles that they form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path


@dataclass(frozen=True, order=True)
class Use:
    """A place where a file uses a name of another file."""

    line: int
    name: str
    file: Path | None = None
    """The using file, for an arrow between folders."""


@dataclass
class Arrows:
    """For each file, the files whose names it uses, with the first such use."""

    uses: dict[Path, dict[Path, Use]] = field(default_factory=dict)

    def add(self, user: Path, used: Path, use: Use) -> None:
        """Add a use. A file's uses of its own names do not count."""
        targets = self.uses.setdefault(user, {})
        if user != used:
            targets[used] = min(use, targets.get(used, use))

    def between_folders(self, root: Path) -> Arrows:
        """Return the arrows between the entries of each folder: files, and folders with their whole content.

        A file and the folder of its own modules (`a.rs`, `a/b.rs`) are one entry.
        """
        entries = Arrows()

        def entry(path: Path, depth: int) -> Path:
            parts = path.relative_to(root).parts
            own = path.with_suffix("")
            return own if depth == len(parts) and own in folders else root.joinpath(*parts[:depth])

        folders = {parent for file in self.uses for parent in file.parents}
        for user, targets in self.uses.items():
            for used, use in targets.items():
                depth = 1
                while user != used and entry(user, depth) == entry(used, depth) and depth < len(user.parts):
                    depth += 1
                entries.add(entry(user, depth), entry(used, depth), Use(use.line, use.name, user))
        return entries

    def components(self) -> list[set[Path]]:
        """Return the strongly connected components with more than one file (Tarjan's algorithm)."""
        index: dict[Path, int] = {}
        low: dict[Path, int] = {}
        stack: list[Path] = []
        found: list[set[Path]] = []

        def visit(file: Path) -> None:
            index[file] = low[file] = len(index)
            stack.append(file)
            for target in sorted(self.uses.get(file, {})):
                if target not in index:
                    visit(target)
                    low[file] = min(low[file], low[target])
                elif target in stack:
                    low[file] = min(low[file], index[target])
            if low[file] == index[file]:
                position = stack.index(file)
                if len(members := set(stack[position:])) > 1:
                    found.append(members)
                del stack[position:]

        for file in sorted(self.uses):
            if file not in index:
                visit(file)
        return found

    def circle(self, members: set[Path]) -> list[Path]:
        """Return a shortest circle within a component. Its first file is also the last one."""
        best: list[Path] = []
        for start in sorted(members):
            queue, reached_from = [start], {start: start}
            while queue:
                file = queue.pop(0)
                for target in sorted(self.uses[file]):
                    if target == start:
                        path = [start, file]
                        while path[-1] != start:
                            path.append(reached_from[path[-1]])
                        if not best or len(path) < len(best):
                            best = path[::-1]
                        queue.clear()
                        break
                    if target in members and target not in reached_from:
                        reached_from[target] = file
                        queue.append(target)
        return best

    def explain(self, members: set[Path], root: Path) -> Iterator[str]:
        """Yield a readable description of a component: its files, and a shortest circle with the names that
        cause it.
        """
        names = ", ".join(str(file.relative_to(root)) for file in sorted(members))
        yield f"{len(members)} of them form a circle: {names}"
        circle = self.circle(members)
        for user, used in pairwise(circle):
            use = self.uses[user][used]
            file = use.file or user
            yield f"  {file.relative_to(root)}:{use.line} uses `{use.name}` of {used.relative_to(root)}"
