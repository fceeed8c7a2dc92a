"""Small classes of Java of our own, compiled in the JVM by what Spark compiles its queries with."""

from __future__ import annotations

from typing import Any

from tidegate.jvm.java import class_of, java_class, method


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


def _cooked(jvm: Any, text: str) -> Any:
    """A compiler that has compiled this text."""
    # (A class that is not there is a package to Py4J, which can't be called.)
    compiler = java_class(jvm, "org.codehaus.janino.SimpleCompiler")()
    compiler.setParentClassLoader(java_class(jvm, "java.lang.Thread").currentThread().getContextClassLoader())
    compiler.cook(text)
    return compiler
