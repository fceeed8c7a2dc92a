"""Java's classes by their full names.

A file of its own: everything that speaks with the JVM imports it, also what must not import each other.
"""

from __future__ import annotations

from typing import Any


def java_class(jvm: Any, name: str) -> Any:
    """A class of the JVM behind `spark._jvm`, asked for in one go. `jvm.org.apache…` asks at each dot whether that is a
    class, and the JVM looks for it in each of its jars: that was a tenth of the time of a small tick."""
    return getattr(jvm, name)
