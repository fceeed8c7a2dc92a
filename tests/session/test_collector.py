"""What a live driver's process sets aside from Python's cyclic collector, in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

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

LET_GO = """
import gc
from types import SimpleNamespace
from py4j.java_collections import JavaIterator
from py4j.java_gateway import JavaObject
from tidegate.session.collector import set_aside

gone, asked = [], []
client = SimpleNamespace(
    address="here",
    port="1",
    converters=[],
    gateway_property=SimpleNamespace(auto_field=False, enable_memory_management=True, pool=None),
    garbage_collect_object=gone.append,
    send_command=lambda text: asked.append(text.splitlines()[2]) or "yv",
)
gc.disable()
before = JavaObject("o1", client)
before.close()
del before
assert gone == [], "of Py4J's own objects none goes without the collector"
set_aside()
assert gone == ["o1"]
after, rows = JavaObject("o2", client), JavaIterator("o3", client)
after.close()
assert next(rows) is None and list(asked) == ["close", "close", "next"]
try:
    after.__nothing__
except AttributeError:
    pass
else:
    raise AssertionError("what Python asks every object for is asked of the JVM")
del after, rows
assert gone == ["o1", "o2", "o3"]
"""


@pytest.mark.parametrize("script", [SCRIPT, LET_GO], ids=["set aside", "the JVM's objects"])
def test_what_lives_long_is_set_aside_and_what_nobody_has_goes(script: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
