"""Temporary views that are frames, as Spark has them: a query keeps the one that it was written over. To Sail a name is
the view that has it when the query runs, so here the frames go with the query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class Views:
    """The temporary views of one session."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._frames: dict[str, Any] = {}

    def put(self, name: str, frame: DataFrame) -> None:
        """Make or replace one. A name may be quoted."""
        bare = name[1:-1].replace("``", "`") if name.startswith("`") else name
        self._frames[bare.lower()] = frame

    def query(self, text: str, *_: Any, **__: Any) -> DataFrame:
        """As `spark.sql`, for queries."""
        from pyspark.sql.connect.dataframe import DataFrame as Frame
        from pyspark.sql.connect.plan import SQL, LogicalPlan, SubqueryAlias

        class Over(LogicalPlan):
            """A query with the frames that it names."""

            def __init__(self, root: SQL, named: list[LogicalPlan]) -> None:
                super().__init__(None, named)  # type: ignore[arg-type]  # references, of which there may be none
                self._root, self._named = root, named

            def plan(self, session: Any) -> Any:
                plan = self._create_proto_relation()
                plan.with_relations.root.CopyFrom(self._root.plan(session))
                plan.with_relations.references.extend(one.plan(session) for one in self._named)
                return plan

        known = text.lower()
        named = [
            SubqueryAlias(frame._plan, name)
            for name, frame in self._frames.items()
            if name in known or name.replace("`", "``") in known
        ]
        spark: Any = self._spark
        if not named:
            return Frame(SQL(text), spark)  # type: ignore[return-value]
        # What is selected from it has a number, by which `frame["column"]` is found; a query with frames has none.
        return Frame(Over(SQL(text), named), spark).select("*")  # type: ignore[return-value]

    def table(self, name: str) -> DataFrame:
        """As `spark.table`."""
        return self.query(f"SELECT * FROM {name}")


def put_view(frame: DataFrame, name: str) -> None:
    """As `frame.createOrReplaceTempView(name)`."""
    views: Views = frame.sparkSession.tidegate_views  # type: ignore[attr-defined]
    views.put(name, frame)
