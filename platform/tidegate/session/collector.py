"""Python's cyclic collector in a process that works for months.

The collector walks all objects that may be part of a cycle. Nearly all of those of a live driver never go: modules,
definitions, and what tables say of themselves. Small ticks make enough new ones to have them walked again and again,
at a tenth of a second for each walk. So once everything is imported and used, they are set aside.
What comes after them is collected as before, and what is no part of a cycle goes at once, set aside or not.

A file of its own: what measures a tick does this, too, without the process that a driver is.
"""

from __future__ import annotations

import gc

#: So many more objects than have gone are made before the youngest are looked at: by Python's own 700 that is many
#: times in a tick. (What py4j has of an object of the JVM is a cycle: so long the JVM keeps that, too.)
_YOUNG = 10_000


def set_aside() -> None:
    """Have the collector look only at what is made from now on. Once in a process: what is set aside, and becomes part
    of a cycle that nobody needs, stays."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])
