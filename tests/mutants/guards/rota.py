"""Guards of the order in which groups of live mode tick, and of what they wait for."""

from __future__ import annotations

from tests.mutants.guard import Guard

GUARDS = (
    Guard(
        "longest-first",
        "R2",
        "Of the groups that are due the one that has waited longest ticks first.",
        "session/rota.py",
        "key=lambda one: ((one.due - at) * one.priority, -one.priority)",
        "key=lambda one: ((at - one.due) * one.priority, -one.priority)",
        ("tests/session/test_rota.py",),
    ),
    Guard(
        "priority",
        "R2",
        "Where there are too few threads a group with a lower priority waits longer.",
        "session/rota.py",
        "((one.due - at) * one.priority, -one.priority)",
        "(one.due - at)",
        ("tests/session/test_rota.py",),
    ),
    Guard(
        "priority-of-cpu",
        "R2",
        "Where the CPU is fully used a group with a lower priority waits longer, though a thread is free.",
        "session/rota.py",
        "if place.called or not place.full:",
        "if True:",
        ("tests/session/test_rota_full_cpu.py", "tests/session/test_driver_endings.py"),
    ),
    Guard(
        "no-starving",
        "R2",
        "No group lets others have the CPU for longer than a minute.",
        "session/rota.py",
        "return min(max(counts, default=0.0) / place.priority, LONGEST_HOLD)",
        "return max(counts, default=0.0) / place.priority",
        ("tests/session/test_rota_full_cpu.py",),
    ),
    Guard(
        "hanging-tick",
        "R2",
        "A tick that hangs does not keep a thread from the other groups.",
        "session/rota.py",
        "at - one.since < LONG_TICK for one in rota.places",
        "True for one in rota.places",
        ("tests/session/test_rota.py",),
    ),
)
