"""The console command. A verb of the engine imports no slow modules."""

from __future__ import annotations

import signal
import sys


def main() -> int:
    """Runs the command line of this process; returns the exit code."""
    # While modules load, Ctrl-C ends the process at once without a traceback.
    raises = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if raises:
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    from iolab.measure import handover

    if len(sys.argv) > 1 and sys.argv[1] in handover.VERBS:
        return handover.run(sys.argv[1], sys.argv[2:])

    from iolab import cli

    if raises:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return cli.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
