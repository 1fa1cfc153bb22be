"""Celery tasks that use a lock. The broker and the results are files below CELERY_FILES."""

from __future__ import annotations

import json
import os
import time
import uuid
from pathlib import Path
from typing import Any

import zklock
from celery import Celery
from kombu.transport import filesystem

FILES = Path(os.environ["CELERY_FILES"])
PATH = os.environ["LOCK_PATH"]


def put(channel: filesystem.Channel, queue: str, payload: Any, **_: object) -> None:
    """Put a message into the queue atomically. With kombu's method, a worker could read an empty file."""
    file = Path(channel.data_folder_out, f"{time.monotonic_ns() // 1_000_000}_{uuid.uuid4()}.{queue}.msg")
    part = file.with_name(f"{file.name}.part")
    part.write_text(json.dumps(payload))
    part.rename(file)


setattr(filesystem.Channel, "_put", put)  # noqa: B010

app = Celery("tasks", broker="filesystem://", backend=f"file://{FILES / 'results'}")
app.conf.update(
    broker_transport_options={
        "data_folder_in": str(FILES / "queue"),
        "data_folder_out": str(FILES / "queue"),
        "control_folder": str(FILES / "control"),
        "polling_interval": 0.05,
    },
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    broker_connection_retry_on_startup=True,
    worker_enable_remote_control=False,
    worker_max_tasks_per_child=int(os.environ.get("MAX_TASKS", "0")) or None,
)

# These locks are created from a hosts string, so no client exists when the children are forked.
lock = zklock.Mutex(os.environ["ZKLOCK_HOSTS"], PATH)
kept = zklock.Mutex(os.environ["ZKLOCK_HOSTS"], f"{PATH}-kept")
inside = FILES / "inside"


def note(line: str) -> None:
    """Append a line to the notes that tests read."""
    with (FILES / "notes").open("a") as notes:
        notes.write(line + "\n")


def enter(seconds: float) -> tuple[int, int]:
    """Hold the lock for a while. Fail if another task holds it too."""
    with lock as lease:
        inside.mkdir()
        note(f"enter {os.getpid()}")
        time.sleep(seconds)
        inside.rmdir()
        return lease.fencing_token, os.getpid()


@app.task  # type: ignore[untyped-decorator]
def work(seconds: float) -> tuple[int, int]:
    """Hold the lock for a while."""
    return enter(seconds)


@app.task  # type: ignore[untyped-decorator]
def keep() -> int:
    """Acquire a lock and never release it."""
    kept.acquire()
    note("kept")
    return os.getpid()


@app.task  # type: ignore[untyped-decorator]
def die() -> int:
    """Kill this process while it holds the lock. Celery then repeats the task in another child."""
    if not (FILES / "died").exists():
        (FILES / "died").touch()
        client = zklock.Client(os.environ["ZKLOCK_HOSTS"], session_timeout=2)
        zklock.Mutex(client, PATH).acquire()
        note(f"dies {os.getpid()}")
        os.kill(os.getpid(), 9)
    with lock:
        return os.getpid()
