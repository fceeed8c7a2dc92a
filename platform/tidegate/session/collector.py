"""Python's memory, and what the JVM keeps for it, in a process that works for months.

Python's cyclic collector walks all objects that may be part of a cycle. Nearly all of those of a live driver never go:
modules, definitions, and what tables say of themselves. Small ticks make enough new ones to have them walked again and
again, at a tenth of a second for each walk. So once everything is imported and used, they are set aside. What comes
after them is collected as before, and what is no part of a cycle goes at once, set aside or not.

The JVM keeps an object for as long as its twin in Python is there. Py4J makes each twin a part of a cycle: it keeps the
methods that were asked for, and they keep it. Of a driver with six groups the JVM kept a hundred commits that were long
over, each with all that its table says of itself: 300 MB of heap. So Py4J keeps no methods any more.
"""

from __future__ import annotations

import gc
from typing import Any

#: So many more objects than have gone are made before the youngest are looked at: by Python's own 700 that is many
#: times in a tick.
_YOUNG = 10_000


def set_aside() -> None:
    """Have the collector look only at what is made from now on, and the JVM let go of each object with its last use.
    Once in a process: what is set aside, and becomes part of a cycle that nobody needs, stays."""
    _let_go_at_once()
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, *gc.get_threshold()[1:])


def _let_go_at_once() -> None:
    """Have Py4J keep no method with its object. (It asks the JVM nothing to make one.)"""
    from py4j.java_collections import JavaIterator
    from py4j.java_gateway import JavaMember, JavaObject, is_magic_member
    from py4j.protocol import Py4JError

    def member(java: Any, name: str) -> Any:
        if is_magic_member(name):
            raise AttributeError(name)
        return JavaMember(name, java, java._target_id, java._gateway_client)

    def following(iterator: Any) -> Any:
        try:
            return member(iterator, "next")()
        except Py4JError:
            raise StopIteration from None

    JavaObject.__getattr__ = member
    JavaIterator.next = JavaIterator.__next__ = following
