"""Generates the table of docs/cost.md from the results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from locks.programs import PROGRAMS
from locks.report import hardware, heading, quietness, wrapped
from locks.results import RESULTS

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "cost.md"
PUBLISHED = RESULTS / "cost.json"
Json = dict[str, Any]


def run(told: Json) -> str:
    """Describe the run."""
    machine = told["machine"]
    text = (
        f"`{told['command']}`, {told['day']}, {told['seconds']:,} s. {hardware(machine)}. Session timeout "
        f"{told['session_timeout']} s. {quietness(machine)}"
    )
    skipped = [f"Not measured: {PROGRAMS[peer].shown}: {why}." for peer, why in told["skipped"].items()]
    return "\n\n".join(wrapped(one) for one in (text, *skipped))


def per_lock(states: Json, kind: str = "hold ") -> float | None:
    """Return the bytes that a lock adds to the process: the growth between the two largest counts."""
    found = sorted((int(name.removeprefix(kind)), name) for name in states if name.startswith(kind))
    if len(found) < 2:
        return None
    (few, first), (many, last) = found[-2:]
    return float((states[last]["rss_kib"] - states[first]["rss_kib"]) * 1024 / (many - few))


def _cell(value: float | None, digits: int = 0) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def idle(told: Json) -> str:
    """Return a table of the costs of a connected client."""
    memory = ("RSS, MB", "PSS, MB", "anonymous, MB")
    columns = (*memory, "threads", "file descriptors", "wake-ups", "processor, ms")
    lines = heading((*columns, "import, ms", "package, MB"))
    for name, states in told["states"].items():
        base, now = states["process"], states["idle"]
        grown = [(now[one] - base[one]) / 1024 for one in ("rss_kib", "pss_kib", "anonymous_kib")]
        counts = [now[one] - base[one] for one in ("threads", "files")]
        wakes = now["wakes"] - base["wakes"]
        spent = (now["processor_us"] - base["processor_us"]) / 1e3
        package = told["packages"].get(name, {})
        cells = [
            *(_cell(one * 1.048576, 1) for one in grown),
            *(_cell(one) for one in counts),
            _cell(wakes),
            _cell(spent, 1),
            _cell(package.get("import_ms")),
            _cell(package.get("size_mb"), 1),
        ]
        lines.append(f"| {PROGRAMS[name].shown} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _states(told: Json) -> list[str]:
    first: Json = next(iter(told["states"].values()))
    return [name for name in first if name.startswith(("hold ", "wait "))]


def locks(told: Json) -> str:
    """Return a table of the memory of held locks and of waiters, and of the threads of the whole process."""
    names = _states(told)
    lines = heading(("bytes per held lock", "bytes per waiter", *(f"threads, {name}" for name in names)))
    for peer, states in told["states"].items():
        cells = [_cell(per_lock(states)), _cell(per_lock(states, "wait "))]
        cells += [_cell(states[name]["threads"]) if name in states else "" for name in names]
        lines.append(f"| {PROGRAMS[peer].shown} | {' | '.join(cells)} |")
    return "\n".join(lines)


def rest(told: Json) -> str:
    """Return a table of wake-ups and processor time in a session timeout, in which nothing happens."""
    names = _states(told)
    lines = heading(("idle", *names))
    for peer, states in told["states"].items():
        cells = []
        for name in ("idle", *names):
            state = states.get(name)
            both = None if state is None else (state["wakes"], state["processor_us"] / 1e3)
            cells.append("" if both is None else f"{both[0]:,.0f}; {both[1]:.1f} ms")
        lines.append(f"| {PROGRAMS[peer].shown} | {' | '.join(cells)} |")
    return "\n".join(lines)


def table(told: Json) -> str:
    """Return all tables."""
    return f"{idle(told)}\n\n{locks(told)}\n\n{rest(told)}"


def figures(told: Json) -> dict[str, str]:
    """Return the generated parts of the page."""
    return {"run": run(told), "idle": idle(told), "locks": locks(told), "rest": rest(told)}
