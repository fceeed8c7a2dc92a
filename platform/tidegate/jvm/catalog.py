"""The catalog of a session, as Iceberg's Java makes it before the first query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate.errors import TidegateError
from tidegate.jvm.failures import spark_message
from tidegate.jvm.within import active
from tidegate.project.catalog_failures import causes
from tidegate.project.storage import CATALOG, Storage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: What PostgreSQL says (SQLSTATE) where another one has made the same table or column in the meantime.
_MADE_MEANWHILE = frozenset({"23505", "42701", "42P07"})
#: It makes two tables, and adds a column to one of them: whoever fails at each of them is through the next time.
_TRIES = 4


def load_catalog(spark: SparkSession, storage: Storage) -> None:
    """Make the session's catalog where it needs a secret, and take the secret out of the settings: the catalog keeps
    it. Before the first query, so that no event has seen it. Also where it makes its own tables in a database. Raises
    TG620."""
    secret = storage.secret_settings()
    in_database = storage.settings.catalog.type == "jdbc" and storage.sqlite is None
    if not secret and not in_database:
        return
    try:
        for left in reversed(range(_TRIES)):
            try:
                with active(spark):
                    spark._jsparkSession.sessionState().catalogManager().catalog(CATALOG)
                break
            except Exception as error:
                # Sessions that begin at the same moment in a new database all make its tables, and one of them does it.
                if not left or _state(error) not in _MADE_MEANWHILE:
                    raise
    except Exception as error:
        raise TidegateError(
            "TG620",
            f"the {storage.settings.catalog.type} catalog does not answer: {spark_message(error)}",
            hint="check warehouse.catalog of the environment",
        ) from None
    finally:
        for name in secret:
            spark.conf.unset(name)


def _state(error: Exception) -> str:
    """The SQLSTATE of the database's error that an exception of the JVM comes from; empty without one."""
    for cause in causes(getattr(error, "java_exception", None)):
        if str(cause.getClass().getName()).startswith(("java.sql.", "org.postgresql.")):
            return str(cause.getSQLState())
    return ""
