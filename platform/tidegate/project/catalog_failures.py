"""What a catalog over a network fails with, as an error that says what to do: by the names of Iceberg's exceptions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeVar

from tidegate.errors import Location, TidegateError
from tidegate.masking import masked

_Error = TypeVar("_Error")

_ICEBERG = ("org.apache.iceberg.exceptions.", "org.apache.iceberg.jdbc.")
#: Of a commit that may be stored all the same.
_UNKNOWN = "CommitStateUnknownException"
#: A server, a database or the network between has failed. `RESTException` itself: of a connection that broke off.
_SILENT = (
    "UncheckedSQLException",
    "RESTException",
    "ServiceFailureException",
    "ServiceUnavailableException",
)
_REFUSING = ("NotAuthorizedException", "ForbiddenException")
#: A catalog does not answer, or the disk or object storage of its tables does not: what is there is not known.
NO_ANSWER = frozenset({"TG620", "TG623", "TG624"})
#: Of an attempt to commit, each says neither yes nor no: what broke off may have done what it was asked.
UNANSWERED = (_UNKNOWN, *_SILENT)


def origins(error: _Error | None, origin: Callable[[_Error], _Error | None]) -> Iterator[_Error]:
    """An error, what it comes from, and so on; nothing of None. Each once, since errors can name each other as their
    cause."""
    met: list[_Error] = []
    # (By equality: of the same exception of the JVM, Py4J makes another object each time that it is asked.)
    while error is not None and error not in met:
        met.append(error)
        yield error
        error = origin(error)


def causes(java: Any) -> Iterator[Any]:
    """An exception of the JVM, and those that it comes from; nothing of None."""
    return origins(java, lambda one: one.getCause())


def comes_from(error: Exception, names: Collection[str]) -> bool:
    """Whether an error is one of the JVM's exceptions with these simple names, or comes from one."""
    found = causes(getattr(error, "java_exception", None))
    return any(cause.getClass().getSimpleName() in names for cause in found)


def unanswered(java: Any, location: Location | None = None) -> TidegateError:
    """TG620 for a commit of which its catalog has said neither yes nor no."""
    return TidegateError(
        "TG620",
        f"the catalog did not say whether the commit is stored: {_said(java)}",
        hint="run again: the next run finds out, and continues from there",
        location=location,
    )


def catalog_failure(java: Any, location: Location | None = None) -> TidegateError | None:
    """TG620 if an exception of the JVM, or one that it comes from, says that a catalog gave no usable answer."""
    for cause in causes(java):
        name = str(cause.getClass().getName())
        short = name.rpartition(".")[2] if name.startswith(_ICEBERG) else ""
        if short == _UNKNOWN:
            return unanswered(cause, location)
        if short in _SILENT:
            return TidegateError(
                "TG620",
                f"the catalog does not answer: {_said(cause)}",
                hint="check warehouse.catalog of the environment, and run again: what was committed is kept",
                location=location,
            )
        if short in _REFUSING:
            return TidegateError(
                "TG620",
                f"the catalog refuses the login: {_said(cause)}",
                hint="check the login under warehouse.catalog.properties of the environment, and run again: "
                "what was committed is kept",
                location=location,
            )
    return None


def lacks_namespace(error: Exception) -> bool:
    """Whether an exception of the JVM says that the namespace of a table is not in its catalog."""
    found = causes(getattr(error, "java_exception", None))
    return any(str(cause.getClass().getSimpleName()) == "NoSuchNamespaceException" for cause in found)


def _said(java: Any) -> str:
    """The first line of what it was about, which is in the cause if there is one."""
    text = str((java.getCause() or java).getMessage() or java.getMessage()).strip()
    return masked(text.partition("\n")[0])
