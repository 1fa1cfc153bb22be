"""The command that tests run under a lock: `job.py LOG WORDS…` logs its events, one JSON object a line.

The words select its behavior:

- `tick` logs the time every 10 ms.
- `child` starts a second process of the same kind, in the same process group.
- A number is the number of seconds after which the process exits with status 0.
- `-SIGTERM`, or another signal after a minus sign: the process logs this signal and continues. Other handled
  signals end it with status 3.
- `terminal` logs whether the job was started in the `foreground` or the `background`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from types import FrameType

NOTED = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2")


def main() -> None:
    """Write events until a signal or the time limit ends the process."""
    log, *words = sys.argv[1:]
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(event: str) -> None:
        line = {"event": event, "pid": os.getpid(), "time": time.clock_gettime_ns(time.CLOCK_MONOTONIC)}
        os.write(out, (json.dumps(line) + "\n").encode())

    def noted(number: int, _frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        write(name)
        if f"-{name}" not in words:
            os._exit(3)

    for name in NOTED:
        if signal.getsignal(getattr(signal, name)) != signal.SIG_IGN:
            signal.signal(getattr(signal, name), noted)
    if "child" in words:
        again = [word for word in words if word != "child"]
        subprocess.Popen([sys.executable, __file__, log, *again])
    if "terminal" in words:
        # The job never requests the terminal itself, so its state has not changed since it was started.
        write("foreground" if os.tcgetpgrp(terminal()) == os.getpgrp() else "background")
    write("start")
    limit = min((float(word) for word in words if word.replace(".", "").isdigit()), default=60.0)
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if "tick" in words:
            write("tick")
        time.sleep(0.01)
    write("end")


def terminal() -> int:
    """Return the terminal that controls this process, independent of its standard streams."""
    return os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)


if __name__ == "__main__":
    main()
