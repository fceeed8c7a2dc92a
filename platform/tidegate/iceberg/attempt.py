"""One attempt to commit by Iceberg's Java: what it answers, and what it must not do when it gets no answer itself."""

from __future__ import annotations

from typing import Any

from tidegate.iceberg.protocol import AnswerLost, Conflict, Stored
from tidegate.jvm.java import java_class
from tidegate.project.catalog_failures import UNANSWERED, unanswered


def nothing_is_deleted(jvm: Any) -> Any:
    """What takes the name of a file and leaves it there, for `deleteWith`. Where an answer is lost, Iceberg's Java asks
    the catalog again, takes its own commit for somebody else's, and would delete the manifests of what is stored (R1).
    What an attempt that failed leaves are orphans. (A set of Scala is a function: whether something is in it.)"""
    empty = getattr(java_class(jvm, "scala.collection.immutable.Set$"), "MODULE$").empty()
    return java_class(jvm, "scala.jdk.FunctionWrappers").AsJavaConsumer(empty)


def attempted(update: Any) -> Stored | Conflict | AnswerLost:
    """What Iceberg's Java answers to an attempt, by the names of its exceptions."""
    try:
        update.commit()
    except Exception as error:
        java = getattr(error, "java_exception", None)
        name = java.getClass().getSimpleName() if java is not None else ""
        if name in ("ValidationException", "CommitFailedException"):
            return Conflict(error, _own_if_known(update))
        if name in UNANSWERED:
            # A database or a server that broke off may have done what it was asked, too.
            return AnswerLost(unanswered(java), _own_if_known(update))
        raise
    return Stored(_own(update))


def _own(update: Any) -> int:
    """The id that the snapshot of an attempt has, or would have. The table is read anew."""
    return int(update.updateEvent().snapshotId())


def _own_if_known(update: Any) -> int | None:
    """The same of an attempt that was no success. None where the table can't be read: of a catalog that is a folder the
    metadata that an update begins with may be gone (`IcebergTable.refresh`), and one over a network may be away."""
    from py4j.protocol import Py4JJavaError

    try:
        return _own(update)
    except Py4JJavaError:
        return None
