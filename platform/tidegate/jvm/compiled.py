"""Small classes of Java of our own, compiled in the JVM by what Spark compiles its queries with."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tidegate.jvm.java import class_of, java_class, method

#: Whoever makes one thing may need another one for it.
_LOCK = threading.RLock()


def compiled(jvm: Any, name: str, text: str, *arguments: Any) -> Any:
    """An object of the class `name`, whose Java is `text`, made with these arguments by its only constructor. It is
    compiled for each call of this: once for a JVM. Raises Py4JError or TypeError where that is not possible, because
    the release of Spark or Hadoop is another one."""
    made = _cooked(jvm, text).getClassLoader().loadClass(name)
    of_arrays, anything = (
        java_class(jvm, "java.lang.reflect.Array"),
        java_class(jvm, "java.lang.Class").forName("java.lang.Object"),
    )
    given = of_arrays.newInstance(anything, len(arguments))
    for place, argument in enumerate(arguments):
        of_arrays.set(given, place, argument)
    return made.getDeclaredConstructors()[0].newInstance(given)


def added(jvm: Any, name: str, text: str, beside: Any) -> Any:
    """The class `name`, whose Java is `text`, where the class `beside` is: whoever finds that one finds it, too, by its
    name. It is compiled once for a JVM. Raises as `compiled`."""
    from py4j.protocol import Py4JJavaError

    loader = beside.getClassLoader()
    try:
        return loader.loadClass(name)
    except Py4JJavaError:
        code = _cooked(jvm, text).getBytecodes().get(name)
    kinds = [class_of(jvm, "java.lang.String"), java_class(jvm, "java.lang.Class").forName("[B")]
    kinds += [java_class(jvm, "java.lang.Integer").TYPE] * 2
    define = method(jvm, "java.lang.ClassLoader", "defineClass", kinds)
    return define.invokeWithArguments([loader, name, code, 0, len(code)])


def made_if_worth(known: dict[str, Any], kept: str, asked: str, worth: int, make: Callable[[], Any]) -> Any:
    """What `make` gives, which `known` keeps by the name `kept`: made once, when this was asked for more than `worth`
    times, which it counts by the name `asked`. None before. Safe in any thread."""
    if kept not in known:
        with _LOCK:
            known[asked] = known.get(asked, 0) + 1
            if known[asked] > worth and kept not in known:
                known[kept] = make()
    return known.get(kept)


def _cooked(jvm: Any, text: str) -> Any:
    """A compiler that has compiled this text."""
    # (A class that is not there is a package to Py4J, which can't be called.)
    compiler = java_class(jvm, "org.codehaus.janino.SimpleCompiler")()
    compiler.setParentClassLoader(java_class(jvm, "java.lang.Thread").currentThread().getContextClassLoader())
    compiler.cook(text)
    return compiler
