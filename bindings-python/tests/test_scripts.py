"""If a test fails while its program hangs, the program prints the stacks of its threads."""

from __future__ import annotations

import subprocess

import pytest
import scripts


def wait_in_vain(hanging: scripts.Program) -> None:
    """Wait until it has reported three hangs, and then for its end."""
    assert hanging.stdout is not None
    assert [hanging.stdout.readline() for _ in range(3)] == ["there\n"] * 3
    hanging.wait(0)


def test_a_program_that_hangs_tells_where(capfd: pytest.CaptureFixture[str]) -> None:
    code = r"""
    def stuck_in_the_thread():
        sys.stdout.write("there\n")
        threading.Event().wait()

    def stuck_in_the_parent():
        sys.stdout.write("there\n")
        os.waitpid(child, 0)

    def stuck_in_the_child():
        sys.stdout.write("there\n")
        sys.stdin.read()

    child = os.fork()
    if not child:
        stuck_in_the_child()
    threading.Thread(target=stuck_in_the_thread).start()
    stuck_in_the_parent()
    """
    with pytest.raises(subprocess.TimeoutExpired), scripts.start(code, "unused", "unused") as hanging:
        wait_in_vain(hanging)
    printed = capfd.readouterr().err
    for place in ("thread", "parent", "child"):
        assert f"in stuck_in_the_{place}" in printed
