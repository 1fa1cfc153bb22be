"""Tests of `harness.stalls`, which measures for how long a process did not run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from harness.paths import TESTS
from harness.steps import eventually

# For each line of input, this program prints the total time for which it did not run.
MEASURE = """
import sys
from harness.answers import now
from harness.stalls import STALL_MONITOR
since = now()
for _ in sys.stdin:
    print(STALL_MONITOR.stalled_seconds(since, now()), flush=True)
"""
STOPPED = 0.5


def test_a_stopped_process_measures_the_stop() -> None:
    command = [sys.executable, "-c", MEASURE]
    with subprocess.Popen(
        command, cwd=TESTS, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def ask() -> float:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\n")
            return float(process.stdout.readline())

        # Wait until the measuring thread has begun to measure, which is shortly after the process has
        # started.
        ask()
        time.sleep(0.1)
        before = ask()
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(STOPPED)
        os.kill(process.pid, signal.SIGCONT)
        # Keep this timeout short: with a long one, a busy machine could cause the expected total by itself.
        eventually(lambda: ask() - before >= STOPPED - 0.1, "the process has measured the stop", 5)
        process.stdin.close()
