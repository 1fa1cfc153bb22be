"""`python -m zklock.testing`: the test server for a shell."""

import argparse
import contextlib
import signal
import sys
import time

from zklock._errors import BadArgument
from zklock.testing import Server

EXAMPLES = """\
examples:
  python -m zklock.testing                # on a free port, which it prints
  python -m zklock.testing --port 2181    # where clients look by default

In another shell:
  ZKLOCK_HOSTS=127.0.0.1:2181 python job.py
  echo srvr | nc 127.0.0.1 2181
"""


if sys.platform == "win32":

    def _block_signals() -> None:
        """Do nothing: Ctrl-C raises an exception in `_wait_for_signal`. Windows sends no SIGTERM."""

    def _wait_for_signal() -> None:
        """Wait for Ctrl-C, which on Windows ends a sleep, but not a wait for a lock."""
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                time.sleep(60)

else:
    _ENDS = {signal.SIGINT, signal.SIGTERM}

    def _block_signals() -> None:
        """Block the signals until the program waits for them."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDS)

    def _wait_for_signal() -> None:
        """Wait for one of the signals."""
        signal.sigwait(_ENDS)


def main() -> int:
    """Serve until Ctrl-C or SIGTERM."""
    parser = argparse.ArgumentParser(
        prog="python -m zklock.testing",
        description="A ZooKeeper server of one node, in memory: for tests and development only."
        " Production is Apache ZooKeeper. Ctrl-C or SIGTERM stops it, and its nodes are lost.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--port",
        type=int,
        default=0,
        help="the port on 127.0.0.1; 0, the default, selects a free port",
    )
    port = parser.parse_args().port
    _block_signals()
    try:
        server = Server(port)
    except (BadArgument, OSError) as problem:
        # Print only the reason, because the text of an `OSError` starts with its error number.
        print(getattr(problem, "strerror", None) or problem, file=sys.stderr)
        return 1
    with server:
        print(f"listening on {server.hosts}, for development only; press Ctrl-C to stop", flush=True)
        _wait_for_signal()
    return 0


if __name__ == "__main__":
    sys.exit(main())
