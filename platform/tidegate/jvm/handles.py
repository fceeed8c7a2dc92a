"""Steps of Java's that always follow one another, put together once (`java.lang.invoke`): each step by itself is a
round trip to the JVM, and what it gives is one more object to be let go of."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from tidegate.jvm.java import java_class, once

#: Where an object keeps the handles that it is the first argument of.
_BOUND = "bound handles"


class Handle:
    """A method or a field of a class of Java's, or several of them as one. A call of it is a round trip for each
    argument, and one more; it takes objects, no numbers. `java`: Java's own."""

    def __init__(self, jvm: Any, java: Any) -> None:
        self._jvm, self.java = jvm, java

    def __call__(self, *arguments: Any) -> Any:
        bound = self.java
        for one in arguments:
            bound = bound.bindTo(one)
        return bound.invokeWithArguments(once(java_class(self._jvm, "java.util.Collections"), "emptyList"))

    def on(self, java: Any) -> Handle:
        """With a first argument to which this is done again and again: that is told once."""
        known = vars(java).setdefault(_BOUND, {})
        if self not in known:
            known[self] = Handle(self._jvm, self.java.bindTo(java))
        found: Handle = known[self]
        return found

    def of(self, place: int, other: Handle) -> Handle:
        """Takes what the other one takes in the place of an argument, which that one gives."""
        return self._made("collectArguments", place, other.java)

    def then(self, other: Handle) -> Handle:
        """Gives what the other one makes of what this one gives."""
        return self._made("filterReturnValue", other.java)

    def behind(self, *others: Handle) -> Handle:
        """Does first what others do, with the first ones of its arguments; they give nothing."""
        found = self
        for other in others:
            found = found._made("foldArguments", other.java)
        return found

    def of_one(self) -> Handle:
        """Takes one argument, in the place of all of its own ones, which are of one class."""
        kind = self.java.type()
        single = java_class(self._jvm, "java.lang.invoke.MethodType").methodType(
            kind.returnType(), kind.parameterType(0)
        )
        # All of them zero: each place gets the first argument.
        integer = java_class(self._jvm, "java.lang.Integer").TYPE
        zeros = java_class(self._jvm, "java.lang.reflect.Array").newInstance(integer, kind.parameterCount())
        return self._made("permuteArguments", single, zeros)

    def _made(self, how: str, *more: Any) -> Handle:
        of = java_class(self._jvm, "java.lang.invoke.MethodHandles")
        return Handle(self._jvm, getattr(of, how)(self.java, *more))


def method(jvm: Any, owner: str, name: str, kinds: Sequence[Any] = ()) -> Handle:
    """A method of a class, which is its first argument unless it is static. `kinds`: the types of what it takes."""
    kind = java_class(jvm, "java.lang.invoke.MethodType").methodType
    void = java_class(jvm, "java.lang.Void").TYPE
    parameters = (kind(void, list(kinds)) if kinds else kind(void)).parameterArray()
    found = class_of(jvm, owner).getDeclaredMethod(name, parameters)
    found.setAccessible(True)
    return Handle(jvm, _lookup(jvm).unreflect(found))


def getter(jvm: Any, owner: str, name: str) -> Handle:
    """What gives a field of an object."""
    return Handle(jvm, _lookup(jvm).unreflectGetter(field(jvm, owner, name)))


def setter(jvm: Any, owner: str, name: str) -> Handle:
    """What sets a field of an object."""
    return Handle(jvm, _lookup(jvm).unreflectSetter(field(jvm, owner, name)))


def emptied(jvm: Any, owner: str, name: str) -> Handle:
    """What sets a field of an object to null, zero or false."""
    nothing = java_class(jvm, "java.lang.invoke.MethodHandles").zero(field(jvm, owner, name).getType())
    return setter(jvm, owner, name).of(1, Handle(jvm, nothing))


def counted_up(jvm: Any, owner: str, name: str) -> Handle:
    """What adds one to a field that counts."""
    kind = field(jvm, owner, name).getType()
    return setter(jvm, owner, name).of(1, one_more(jvm, owner, name, kind)).of_one()


def one_more(jvm: Any, owner: str, name: str, kind: Any) -> Handle:
    """What gives a field that counts, and one more, as this type."""
    integer = java_class(jvm, "java.lang.Integer").TYPE
    of = java_class(jvm, "java.lang.invoke.MethodType").methodType
    plus_one = method(jvm, "java.lang.Math", "incrementExact", [integer]).java
    plus_one = plus_one.asType(of(kind, field(jvm, owner, name).getType()))
    return getter(jvm, owner, name).then(Handle(jvm, plus_one))


@cache
def class_of(jvm: Any, name: str) -> Any:
    """Java's object of a class."""
    return java_class(jvm, "java.lang.Thread").currentThread().getContextClassLoader().loadClass(name)


@cache
def field(jvm: Any, owner: str, name: str) -> Any:
    """A field of a class, whoever may see it."""
    found = class_of(jvm, owner).getDeclaredField(name)
    found.setAccessible(True)
    return found


def _lookup(jvm: Any) -> Any:
    return java_class(jvm, "java.lang.invoke.MethodHandles").publicLookup()
