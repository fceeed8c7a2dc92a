"""Calls of Java's that follow one another, as one question to the JVM.

Each call by itself is a round trip, and what it gives is one more object of which the JVM has to be told when nobody
needs it any more. A commit is fifty calls. So they are written down first, each with what earlier ones will give, and
are sent together; only what is wanted of them comes back.

A class of our own makes the calls in the JVM, by Py4J's own rules of which method is meant. It is compiled when it has
become worth that. Before, and in a JVM that can't compile, this process makes the same calls one by one.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tidegate.jvm.compiled import compiled, made_if_worth

if TYPE_CHECKING:
    from py4j.java_gateway import GatewayClient

#: How many questions are worth a class: to compile it takes as long as it saves with two hundred of them.
_WORTH = 100

#: Where the JVM's view in this process keeps what makes calls there, and how many questions there were before.
_MAKER, _ASKED = "_tidegate_calls", "_tidegate_calls_asked"

#: A text of lines. The first one: the places of what is wanted. Then for each call: whose it is, its name (none: a
#: constructor), the place of what must not be null, its arguments, and an "e". `?3` is what the call at place 3 gives.
#: All else is as Py4J writes it.
_CLASS = """
package tidegate;

import java.util.ArrayList;
import py4j.Gateway;
import py4j.Protocol;
import py4j.Py4JJavaException;
import py4j.reflection.MethodInvoker;
import py4j.reflection.ReflectionEngine;

public class Calls {
    private final Gateway gateway;

    public Calls(Gateway gateway) {
        this.gateway = gateway;
    }

    public String run(String text) throws Throwable {
        String[] lines = text.split("\\n");
        ArrayList found = new ArrayList();
        int at = 1;
        while (at < lines.length) {
            String target = lines[at], name = lines[at + 1], needed = lines[at + 2];
            ArrayList arguments = new ArrayList();
            for (at += 3; !lines[at].equals("e"); at++) {
                arguments.add(valueOf(lines[at], found));
            }
            at++;
            boolean there = needed.isEmpty() || found.get(Integer.parseInt(needed)) != null;
            found.add(there ? call(target, name, arguments.toArray(), found) : null);
        }
        StringBuilder answers = new StringBuilder();
        if (!lines[0].isEmpty()) {
            String[] wanted = lines[0].split(" ");
            for (int i = 0; i < wanted.length; i++) {
                Object one = found.get(Integer.parseInt(wanted[i]));
                answers.append(Protocol.getOutputCommand(gateway.getReturnObject(one)));
            }
        }
        return answers.toString();
    }

    private Object valueOf(String line, ArrayList found) {
        return line.startsWith("?")
            ? found.get(Integer.parseInt(line.substring(1))) : Protocol.getObject(line, gateway);
    }

    private Object call(String target, String name, Object[] arguments, ArrayList found) throws Throwable {
        ReflectionEngine engine = gateway.getReflectionEngine();
        Object object = null;
        MethodInvoker invoker;
        if (target.startsWith("z:")) {
            String owner = target.substring(2);
            invoker = name.isEmpty()
                ? engine.getConstructor(owner, arguments) : engine.getMethod(owner, name, arguments);
        } else {
            object = valueOf(target, found);
            if (object == null) {
                throw new NullPointerException("there is nothing of which to call " + name);
            }
            invoker = engine.getMethod(object, name, arguments);
        }
        try {
            return engine.invoke(object, invoker, arguments);
        } catch (Py4JJavaException error) {
            throw error.getCause();
        }
    }
}
"""


class Promise:
    """What a call gives, which is not made yet."""

    def __init__(self, place: int) -> None:
        self.place = place


class Calls:
    """Calls to be made in the JVM behind `spark._jvm`, in their order. The first one that fails ends them, with its
    own error."""

    def __init__(self, jvm: Any) -> None:
        self._jvm = jvm
        self._calls: list[tuple[Any, str, tuple[Any, ...], Promise | None]] = []

    def call(self, target: Any, name: str, *arguments: Any, needs: Promise | None = None) -> Promise:
        """A method of an object or class of Java's, or of an object (no text, no number) that an earlier call gives.
        What earlier ones give may be arguments, too. `needs`: if that is null, the call is not made, and gives null."""
        self._calls.append((target, name, arguments, needs))
        return Promise(len(self._calls) - 1)

    def new(self, kind: Any, *arguments: Any) -> Promise:
        """An object of a class."""
        return self.call(kind, "", *arguments)

    def run(self, *wanted: Promise) -> list[Any]:
        """Make the calls, and give what these ones have given, as Py4J does."""
        from py4j.protocol import get_return_value

        maker = _maker(self._jvm)
        if maker is None:
            return self._one_by_one(wanted)
        client = self._jvm._gateway_client
        kept: list[Any] = []
        lines = [" ".join(str(one.place) for one in wanted)]
        for target, name, arguments, needs in self._calls:
            lines += [
                _written(target, client, kept),
                name,
                "" if needs is None else str(needs.place),
                *(_written(argument, client, kept) for argument in arguments),
                "e",
            ]
        answers = maker.run("\n".join(lines)).split("\n")[:-1]
        return [get_return_value(answer[1:], client) for answer in answers]

    def _one_by_one(self, wanted: tuple[Promise, ...]) -> list[Any]:
        found: list[Any] = []

        def value(given: Any) -> Any:
            return found[given.place] if isinstance(given, Promise) else given

        for target, name, arguments, needs in self._calls:
            if needs is not None and value(needs) is None:
                found.append(None)
                continue
            found.append(_method(value(target), name)(*map(value, arguments)))
        return [value(one) for one in wanted]


def _method(target: Any, name: str) -> Any:
    """Of an object or class. (Py4J's objects have methods of Python's, too, for lists for example.)"""
    from py4j.java_gateway import JavaMember, JavaObject

    if isinstance(target, JavaObject):
        return JavaMember(name, target, target._target_id, target._gateway_client)
    return getattr(target, name) if name else target


def _written(given: Any, client: GatewayClient, kept: list[Any]) -> str:
    """As a line. `kept`: what the JVM must not let go of before it is asked."""
    from py4j.java_gateway import JavaClass, JavaObject
    from py4j.protocol import get_command_part

    if isinstance(given, Promise):
        return f"?{given.place}"
    if isinstance(given, JavaClass):
        return f"z:{given._fqn}"
    if not isinstance(given, JavaObject):
        for converter in client.converters or ():
            if converter.can_convert(given):
                given = converter.convert(given, client)
                kept.append(given)
                break
    return str(get_command_part(given)).removesuffix("\n")


def _maker(jvm: Any) -> Any:
    """What makes calls in the JVM. None where it is not worth it, or is not possible."""
    return made_if_worth(vars(jvm), _MAKER, _ASKED, _WORTH, lambda: _compiled(jvm))


def _compiled(jvm: Any) -> Any:
    from py4j.java_gateway import JavaObject
    from py4j.protocol import GATEWAY_SERVER_OBJECT_ID

    # Whatever fails there, the same calls can be made one by one.
    with suppress(Exception):
        server = JavaObject(GATEWAY_SERVER_OBJECT_ID, jvm._gateway_client)
        return compiled(jvm, "tidegate.Calls", _CLASS, server.getGateway())
    return None
