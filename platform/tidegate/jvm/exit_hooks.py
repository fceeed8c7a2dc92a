"""What ended threads leave in the JVM for the time when it ends.

Each compaction by Iceberg has threads of its own, and a hook that would wait for them if the JVM ended. The hook stays
when they have ended: 3 KB of heap for each compaction, since it has a copy of what Spark knows of the thread that began
it. A driver runs for months.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

from tidegate.jvm.compiled import compiled

#: Where the JVM's view in this process keeps what removes hooks there.
_REMOVER = "_tidegate_exit_hooks"
_LOCK = threading.Lock()

#: Spark opens the fields of `java.lang` to all classes. In Java 21 a thread's work is one field deeper.
_CLASS = """
package tidegate;

import java.lang.reflect.Field;
import java.util.Map;
import java.util.concurrent.ExecutorService;

public class ExitHooks {
    public int removeEnded() throws Exception {
        Class owner = Class.forName("java.lang.ApplicationShutdownHooks");
        Object[] hooks;
        synchronized (owner) {
            hooks = ((Map) value(owner, null, "hooks")).keySet().toArray();
        }
        int removed = 0;
        for (int i = 0; i < hooks.length; i++) {
            Thread hook = (Thread) hooks[i];
            if (hook.getName().startsWith("DelayedShutdownHook-for-") && hasEnded(work(hook))) {
                removed += Runtime.getRuntime().removeShutdownHook(hook) ? 1 : 0;
            }
        }
        return removed;
    }

    private static Object work(Thread hook) throws Exception {
        try {
            return value(Thread.class, hook, "target");
        } catch (NoSuchFieldException error) {
            Object holder = value(Thread.class, hook, "holder");
            return value(holder.getClass(), holder, "task");
        }
    }

    private static boolean hasEnded(Object work) throws Exception {
        Field[] fields = work.getClass().getDeclaredFields();
        for (int i = 0; i < fields.length; i++) {
            fields[i].setAccessible(true);
            Object found = fields[i].get(work);
            if (found instanceof ExecutorService) {
                return ((ExecutorService) found).isTerminated();
            }
        }
        return false;
    }

    private static Object value(Class owner, Object of, String name) throws Exception {
        Field field = owner.getDeclaredField(name);
        field.setAccessible(true);
        return field.get(of);
    }
}
"""


def remove_ended_hooks(jvm: Any) -> int:
    """Remove the hooks of threads that have ended; how many there were. 0 in a JVM where that is not possible."""
    # Whatever fails there, they only take room.
    with suppress(Exception):
        known = vars(jvm)
        with _LOCK:
            if _REMOVER not in known:
                known[_REMOVER] = compiled(jvm, "tidegate.ExitHooks", _CLASS)
        return int(known[_REMOVER].removeEnded())
    return 0
