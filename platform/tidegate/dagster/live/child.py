"""Started as `python -I child.py PARENT COMMAND…`: becomes the command, and dies in order if the parent dies.

A process of its own group outlives a Dagster run that is killed with -9, and would keep the leases. On Linux the
kernel sends it SIGTERM in that moment; elsewhere it ends when it next writes to the pipe that nobody reads.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def _become(parent: int, command: list[str]) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            sys.exit("the run that started this process has ended")
    # The signal's disposition and the mask are Dagster's; the command sets its own.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    os.execv(command[0], command)


if __name__ == "__main__":
    _become(int(sys.argv[1]), sys.argv[2:])
