"""`python -m zklock.testing`: the test server for a shell."""

import argparse
import signal
import sys

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
    # Block these signals until the program waits for them below.
    ends = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)
    try:
        server = Server(port)
    except (BadArgument, OSError) as problem:
        # Print only the reason, because the text of an `OSError` starts with its error number.
        print(getattr(problem, "strerror", None) or problem, file=sys.stderr)
        return 1
    with server:
        print(f"listening on {server.hosts}, for development only; Ctrl-C ends it", flush=True)
        signal.sigwait(ends)
    return 0


if __name__ == "__main__":
    sys.exit(main())
