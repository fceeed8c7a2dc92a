"""What a live driver's process sets aside from Python's cyclic collector, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import gc, weakref
from tidegate.session.collector import set_aside

class Node:
    pass

def ring():
    one, other = Node(), Node()
    one.next, other.next = other, one
    return weakref.ref(one)

before = ring()
gc.disable()
long_lived = [Node() for _ in range(50_000)]
set_aside()
assert before() is None, "what is in nobody's hands is collected first"
assert gc.get_freeze_count() > 50_000, gc.get_freeze_count()
assert gc.get_count()[0] < 1_000 and not any(one in gc.get_objects() for one in long_lived[:1])
gc.enable()
# A cycle that comes later is collected, and the collector begins by itself.
after, made = ring(), []
while after() is not None and len(made) < 1_000_000:
    made.append([])
assert after() is None, len(made)
# What is set aside goes when nobody has it any more, unless it is in a cycle.
one = weakref.ref(long_lived[0])
del long_lived
assert one() is None
"""


def test_what_lives_long_is_set_aside_and_later_cycles_are_collected() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
