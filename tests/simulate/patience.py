"""How long a history may take. A machine that does other things, too, may leave it a small part of its CPU: therefore a
history is ended by the CPU that it has taken, and by the clock only where it must be waiting for ever."""

from __future__ import annotations

import faulthandler
import resource
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import ceil

#: CPU-seconds of one history, of which most take less than one; and seconds in which one comes to its end on any
#: machine.
LONGEST, FOREVER = 100.0, 3600.0
#: What ends a process whose history has taken too long.
ENDED = signal.SIGXCPU


@contextmanager
def limited(cpu: float = LONGEST, clock: float = FOREVER) -> Iterator[None]:
    """While the block runs, this process says where it stands, and ends, when it has taken so much."""
    assert sys.__stderr__ is not None
    # (`chain`: what the signal does by itself follows, which is the end.)
    faulthandler.register(ENDED, sys.__stderr__, all_threads=True, chain=True)
    faulthandler.dump_traceback_later(clock, exit=True, file=sys.__stderr__)
    # (A limit of the process, for its timers belong to the decoders of tidegate, which have limits of their own.)
    before = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (ceil(time.process_time() + cpu), before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, before)
        faulthandler.cancel_dump_traceback_later()
