"""Java's classes by their full names."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

#: What PySpark asks the JVM for with each column and each argument, by class. The JVM answers each time, and looks for
#: a short name in each jar of each package that it may be in.
_ASKED_OFTEN = {
    "PythonUtils": ("toSeq", "toArray", "getBroadcastThreshold"),
    "functions": ("col",),
    "org.apache.spark.sql.functions": ("col", "lit", "expr", "when", "coalesce", "not", "struct"),
    "org.apache.spark.sql.classic.SparkSession": ("getActiveSession",),
}

#: Where the answers of `once` are kept.
_KNOWN = "_tidegate_known"


def java_class(jvm: Any, name: str) -> Any:
    """A class of the JVM behind `spark._jvm`, asked for in one go, and once. `jvm.org.apache…` asks at each dot whether
    that is a class, and the JVM looks for it in each of its jars: that was a tenth of the time of a small tick."""
    from py4j.java_gateway import JavaClass

    found = getattr(jvm, name)
    if isinstance(found, JavaClass):
        # (What is no class yet may become one, when another jar is added.)
        vars(jvm)[name] = found
        found.__class__ = _remembering()
    return found


@cache
def _remembering() -> type:
    """A class of the JVM that asks once for each of its methods."""
    from py4j.java_gateway import JavaClass, JavaMember

    class Remembering(JavaClass):  # type: ignore[misc]  # py4j has no types, so this one is Any
        def __getattr__(self, name: str) -> Any:
            found = super().__getattr__(name)
            if isinstance(found, JavaMember):
                self.__dict__[name] = found
            return found

    return Remembering


def once(java: Any, name: str) -> Any:
    """What a method without arguments gives that always gives the same: of a class or an object of Java's, which is
    asked once."""
    known = vars(java).setdefault(_KNOWN, {})
    if name not in known:
        known[name] = getattr(java, name)()
    return known[name]


@cache
def class_of(jvm: Any, name: str) -> Any:
    """Java's object of a class."""
    return java_class(jvm, "java.lang.Thread").currentThread().getContextClassLoader().loadClass(name)


def method(jvm: Any, owner: str, name: str, kinds: Sequence[Any] = ()) -> Any:
    """A handle (`java.lang.invoke`) of a method of a class, whoever may see it. `kinds`: the types of what it takes,
    besides the object that it is a method of, if it is not static."""
    kind = java_class(jvm, "java.lang.invoke.MethodType").methodType
    void = java_class(jvm, "java.lang.Void").TYPE
    parameters = (kind(void, list(kinds)) if kinds else kind(void)).parameterArray()
    found = class_of(jvm, owner).getDeclaredMethod(name, parameters)
    found.setAccessible(True)
    return java_class(jvm, "java.lang.invoke.MethodHandles").publicLookup().unreflect(found)


def json_mapper(jvm: Any) -> Any:
    """What Iceberg reads and writes JSON with."""
    return once(java_class(jvm, "org.apache.iceberg.util.JsonUtil"), "mapper")


def remember_classes(jvm: Any) -> None:
    """Let PySpark find in this process what it asks for most often: a tenth of the driver's time in a small tick."""
    if "PythonUtils" in vars(jvm):
        return
    for name, methods in _ASKED_OFTEN.items():
        found = java_class(jvm, name)
        for method in methods:
            vars(found)[method] = getattr(found, method)
