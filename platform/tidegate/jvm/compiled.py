"""Small classes of Java of our own, compiled in the JVM by what Spark compiles its queries with."""

from __future__ import annotations

from typing import Any

from tidegate.jvm.java import java_class


def compiled(jvm: Any, name: str, text: str, *arguments: Any) -> Any:
    """An object of the class `name`, whose Java is `text`, made with these arguments by its only constructor. It is
    compiled for each call of this: once for a JVM. Raises Py4JError or TypeError where that is not possible, because
    the release of Spark or Hadoop is another one."""
    # (A class that is not there is a package to Py4J, which can't be called.)
    compiler = java_class(jvm, "org.codehaus.janino.SimpleCompiler")()
    compiler.setParentClassLoader(java_class(jvm, "java.lang.Thread").currentThread().getContextClassLoader())
    compiler.cook(text)
    made = compiler.getClassLoader().loadClass(name)
    of_arrays, anything = (
        java_class(jvm, "java.lang.reflect.Array"),
        java_class(jvm, "java.lang.Class").forName("java.lang.Object"),
    )
    given = of_arrays.newInstance(anything, len(arguments))
    for place, argument in enumerate(arguments):
        of_arrays.set(given, place, argument)
    return made.getDeclaredConstructors()[0].newInstance(given)
