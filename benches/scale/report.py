"""Generates the tables of docs/scale.md from the results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from locks.report import filled
from locks.results import RESULTS

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "scale.md"
PUBLISHED = RESULTS / "scale.json"
Json = dict[str, Any]


def titles(told: Json) -> tuple[dict[str, str], dict[str, str]]:
    """Return two mappings from phases to titles: phases in which the clients are idle, and phases in which
    all of them perform an action.
    """
    clients = told["clients"]
    each = told["locks"] // clients
    resting = {
        "idle": "idle",
        "wait in queues of 10": "wait in queues of 10",
        f"wait in queues of {clients}": "wait in one queue",
        "hold 1": "hold 1 lock per client",
        "hold all": f"hold {each} locks per client",
    }
    done = {
        "connect": "connect",
        "drain queues of 10": f"hand on {clients // 10:,} locks, {clients:,} holds",
        f"drain queues of {clients}": f"hand on one lock, {clients:,} holds",
        "acquire 1": "acquire 1 lock per client, for the first time",
        "acquire more": f"acquire {each - 1} more locks per client, for the first time",
        "close": "close while all locks are held",
    }
    return resting, done


def run(told: Json) -> str:
    """Describe the run in one line."""
    return (
        f"`make bench-scale`, {told['day']}: {told['clients']:,} clients in {told['processes']} processes,"
        f"\n{told['locks']:,} locks."
    )


def resting(told: Json) -> str:
    """Return a table of the requests while nothing changes."""
    lines = [
        "| *T* | Activity | requests/s | writes/s | bytes/s in | bytes/s out | watches |",
        "|---:|---|---:|---:|---:|---:|---:|",
    ]
    for timeout, phases in told["runs"].items():
        lines += [
            f"| {timeout} s | {title} | {phase['requests_per_second']:,.0f}"
            f" | {phase['writes_per_second']:,.0f} | {phase['received_per_second']:,.0f}"
            f" | {phase['sent_per_second']:,.0f} | {phase['watches']:,} |"
            for name, title in titles(told)[0].items()
            if (phase := phases.get(name))
        ]
    return "\n".join(lines)


def sizes(told: Json) -> str:
    """Return a table of memory and threads."""
    lines = [
        "| Activity | clients, MiB | threads | server, MiB | nodes | clients' processors | server's |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    phases = next(iter(told["runs"].values()))
    lines += [
        f"| {title} | {phase['client_kib'] / 1024:,.0f} | {phase['client_threads']:,}"
        f" | {phase['server_kib'] / 1024:,.0f} | {phase['nodes']:,}"
        f" | {phase['client_seconds_per_second']:.2f} | {phase['server_seconds_per_second']:.2f} |"
        for name, title in titles(told)[0].items()
        if (phase := phases.get(name))
    ]
    return "\n".join(lines)


def doing(told: Json) -> str:
    """Return a table of the cost of each action that all clients perform at the same time."""
    lines = [
        "| Simultaneous action | seconds | requests | writes | bytes in | bytes out |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    phases = next(iter(told["runs"].values()))
    for name, title in titles(told)[1].items():
        if phase := phases.get(name):
            # Leave the cells empty: sockets that were closed no longer have byte counts, so the difference
            # would be wrong.
            sent = [f"{phase[way]:,.0f}" if name != "close" else "" for way in ("received", "sent")]
            lines.append(
                f"| {title} | {phase['seconds']:.1f} | {phase['requests']:,} | {phase['writes']:,}"
                f" | {' | '.join(sent)} |"
            )
    return "\n".join(lines)


def figures(told: Json) -> dict[str, str]:
    """Return the generated parts of the page."""
    return {"run": run(told), "resting": resting(told), "sizes": sizes(told), "doing": doing(told)}


def publish() -> None:
    """Write the tables into the page."""
    told = json.loads(PUBLISHED.read_text())
    PAGE.write_text(filled(PAGE.read_text(), figures(told)))


if __name__ == "__main__":
    publish()
