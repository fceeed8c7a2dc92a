"""A commit that is put on one snapshot and on no other, whatever has been committed in between (R2)."""

from __future__ import annotations

from functools import cache
from typing import Any

from tidegate.jvm.java import java_class


def only_on(jvm: Any, parent: int | None) -> Any:
    """What Iceberg's Java asks, each time it makes a commit ready, whether the table's newest snapshot is the one that
    the commit belongs on (None: whether there is none), for `validateWith`. Put together from Java's own methods: an
    implementation in Python would be called out of the middle of a commit, from any thread."""
    said, equals, of_text, then, instance = _parts(jvm, parent is None)
    equal = equals.bindTo("false" if parent is None else str(parent)).asType(of_text)
    return instance(then(said, equal))


@cache
def _parts(jvm: Any, none: bool) -> tuple[Any, ...]:
    """What is the same for every commit of a JVM: a method that says of the ancestors, as a text, the id of the first
    (`none`: whether there is one), and what compares it."""
    loader = java_class(jvm, "java.lang.Thread").currentThread().getContextClassLoader()
    handles = java_class(jvm, "java.lang.invoke.MethodHandles")
    kinds = java_class(jvm, "java.lang.invoke.MethodType").methodType
    lookup, then = handles.publicLookup(), handles.filterReturnValue
    iterator, text = loader.loadClass("java.util.Iterator"), loader.loadClass("java.lang.String")
    anything, snapshot = loader.loadClass("java.lang.Object"), loader.loadClass("org.apache.iceberg.Snapshot")
    boxed = java_class(jvm, "java.lang.Boolean" if none else "java.lang.Long")
    truth, plain = java_class(jvm, "java.lang.Boolean").TYPE, boxed.TYPE
    ancestors = lookup.findVirtual(loader.loadClass("java.lang.Iterable"), "iterator", kinds(iterator))
    if none:
        asked = lookup.findVirtual(iterator, "hasNext", kinds(plain))
    else:
        first = lookup.findVirtual(iterator, "next", kinds(anything)).asType(kinds(snapshot, iterator))
        asked = then(first, lookup.findVirtual(snapshot, "snapshotId", kinds(plain)))
    box = loader.loadClass("java.lang.Boolean" if none else "java.lang.Long")
    said = then(then(ancestors, asked), lookup.findStatic(box, "toString", kinds(text, plain)))
    equals = lookup.findVirtual(anything, "equals", kinds(truth, anything))
    validator = loader.loadClass("org.apache.iceberg.SnapshotAncestryValidator")
    proxies = java_class(jvm, "java.lang.invoke.MethodHandleProxies")
    return said, equals, kinds(truth, text), then, lambda whole: proxies.asInterfaceInstance(validator, whole)
