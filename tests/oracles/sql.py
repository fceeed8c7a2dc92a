"""semantics.md a second time, as questions to DuckDB over all worlds at once. It shares no line with the first oracle,
and imports nothing of tidegate. What a rule says of a row, a window or a session is a relation here, and not a step.

    oracle = SqlOracle(rows, begins)      # judges every row of every world (W1, W2, W5, W6)
    oracle.decisions()                    # (world, partition, offset, outcome, missed, watermark)

`rows`: world, batch (from 1), p (0 or 1), o (offset), t (event time, NULL: none), offered (the strategy's value), and
for tables k (key), deleted. `begins`: world, batch, p: a partition takes part from this batch on (W6, R3). `expires`:
the gate of a table WITH TTL (T1). Times are integers.
"""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa

Rows = list[tuple[Any, ...]]

# What happens in each world, one after the other: a partition begins, a row is read, a batch ends.
_HAPPENS = """
CREATE TABLE happens AS
SELECT *, row_number() OVER (PARTITION BY world ORDER BY batch, kind, p, o) AS seq FROM (
    SELECT world, batch, 0 AS kind, p, NULL AS o, NULL AS t, NULL AS offered FROM begins
    UNION ALL SELECT world, batch, 1, p, o, t, offered FROM given
    UNION ALL SELECT DISTINCT world, batch, 2, NULL, NULL, NULL, NULL FROM given)
"""

# W1: the bar is what stood before the row; `greatest` and `least` pass over NULL, which is undefined. W2: only a row on
# time raises, and only by what its strategy gives. W6: G is published once each partition that takes part has a
# watermark, and never goes back. R3: who comes later begins at G.
_JUDGED = """
CREATE TABLE judged AS
WITH RECURSIVE walk AS (
    SELECT world, 0::BIGINT AS seq, 0::BIGINT AS batch, 2 AS kind, NULL::BIGINT AS p, NULL::BIGINT AS o,
           NULL::BIGINT AS t, NULL::BIGINT AS bar, NULL::VARCHAR AS outcome, false AS in0, false AS in1,
           NULL::BIGINT AS w0, NULL::BIGINT AS w1, NULL::BIGINT AS g
    FROM (SELECT DISTINCT world FROM given)
    UNION ALL
    SELECT world, seq, batch, kind, p, o, t, mark, outcome,
           in0 OR (kind = 0 AND p = 0), in1 OR (kind = 0 AND p = 1),
           CASE WHEN p = 0 AND kind = 0 THEN g
                WHEN p = 0 AND outcome = 'on_time' THEN greatest(w0, offered) ELSE w0 END,
           CASE WHEN p = 1 AND kind = 0 THEN g
                WHEN p = 1 AND outcome = 'on_time' THEN greatest(w1, offered) ELSE w1 END,
           CASE WHEN kind <> 2 OR (in0 AND w0 IS NULL) OR (in1 AND w1 IS NULL) THEN g
                ELSE greatest(g, least(CASE WHEN in0 THEN w0 END, CASE WHEN in1 THEN w1 END)) END
    FROM (
        SELECT e.world, e.seq, e.batch, e.kind, e.p, e.o, e.t, e.offered, s.in0, s.in1, s.w0, s.w1, s.g,
               greatest(CASE e.p WHEN 0 THEN s.w0 ELSE s.w1 END, s.g) AS mark,
               CASE WHEN e.kind <> 1 THEN NULL
                    WHEN e.t IS NULL THEN 'rejected'
                    WHEN e.t < mark OR ({expires} AND e.t = mark) THEN 'late'
                    ELSE 'on_time' END AS outcome
        FROM walk s JOIN happens e ON e.world = s.world AND e.seq = s.seq + 1))
SELECT * FROM walk
"""

_PUBLISHED = "CREATE TABLE published AS SELECT world, batch, g FROM judged WHERE kind = 2 AND batch > 0"
_ON_TIME = """
CREATE TABLE on_time AS
SELECT j.*, r.* EXCLUDE (world, batch, p, o, t) FROM judged j JOIN given r USING (world, p, o) WHERE outcome = 'on_time'
"""
_LATE = "CREATE TABLE late AS SELECT * FROM judged WHERE outcome = 'late'"


class SqlOracle:
    """All worlds of two tables, judged."""

    def __init__(self, rows: pa.Table, begins: pa.Table, *, expires: bool = False) -> None:
        self._db = duckdb.connect()
        self._db.execute("SET threads = 1")
        self._db.register("given_rows", rows)
        self._db.register("given_begins", begins)
        self._db.execute("CREATE TABLE given AS SELECT * FROM given_rows")
        self._db.execute("CREATE TABLE begins AS SELECT * FROM given_begins")
        for statement in (_HAPPENS, _JUDGED.format(expires=expires), _PUBLISHED, _ON_TIME, _LATE):
            self._db.execute(statement)

    def _ask(self, query: str, *given: Any) -> Rows:
        return self._db.execute(query, list(given)).fetchall()

    def decisions(self) -> Rows:
        """W1, W2, W5: (world, p, o, outcome, the watermark as of the row, Wp after it)."""
        return self._ask(
            "SELECT world, p, o, outcome, bar, CASE p WHEN 0 THEN w0 ELSE w1 END FROM judged WHERE kind = 1"
        )

    def published(self) -> Rows:
        """W6: (world, batch, G after it)."""
        return self._ask("SELECT * FROM published")

    def windows(self, size: int, slide: int) -> Rows:
        """C1, C2: (world, start, end, rows, batch that emits it) of each window; a tumble slides by its size."""
        return self._ask(
            """
            WITH groups AS (
                SELECT world, s.start, s.start + $1 AS ending, count(*) AS n
                FROM on_time, LATERAL (SELECT unnest(range(t - ((t % $2) + $2) % $2, t - $1, -$2)) AS start) s
                GROUP BY ALL)
            SELECT world, start, ending, n, min(batch) FROM groups JOIN published USING (world)
            WHERE g >= ending GROUP BY ALL
            """,
            size,
            slide,
        )

    def sessions(self, gap: int) -> Rows:
        """C3: (world, batch, start, end, rows) of all sessions that are final after each batch."""
        return self._ask(
            """
            WITH seen AS (
                SELECT m.world, m.batch, m.g, r.t, r.p, r.o,
                       coalesce(r.t - lag(r.t) OVER places >= $1, true) AS begins
                FROM published m JOIN on_time r ON r.world = m.world AND r.batch <= m.batch
                WINDOW places AS (PARTITION BY m.world, m.batch ORDER BY r.t, r.p, r.o)),
            numbered AS (
                SELECT *, sum(begins::INT) OVER (PARTITION BY world, batch ORDER BY t, p, o) AS number FROM seen)
            SELECT world, batch, min(t), max(t) + $1, count(*) FROM numbered
            GROUP BY world, batch, g, number HAVING g >= max(t) + $1
            """,
            gap,
        )

    def sorted(self) -> Rows:
        """C4: (world, batch that releases it, t, p, o), in the order of release."""
        return self._ask(
            """
            SELECT r.world, min(m.batch) AS released, r.t, r.p, r.o
            FROM on_time r JOIN published m ON m.world = r.world AND m.g > r.t
            GROUP BY r.world, r.t, r.p, r.o ORDER BY r.world, released, r.t, r.p, r.o
            """
        )

    def table(self) -> Rows:
        """T1, T2, T4: (world, batch, k, t, p, o): what a SELECT finds after each batch."""
        return self._ask(
            _LIVES
            + """
            SELECT world, at_batch, k, t, p, o FROM (
                SELECT *, row_number() OVER (PARTITION BY world, at_batch, k ORDER BY t DESC, p DESC, o DESC) AS place
                FROM lasts WHERE at_g IS NULL OR t > at_g)
            WHERE place = 1 AND NOT deleted
            """
        )

    def left(self) -> Rows:
        """T2, T4: (world, batch, p, o) of what a view over all times counts after each batch: the last change of each
        life that is not replaced by the larger one of a life that began before it had expired there."""
        return self._ask(
            _LIVES
            + """
            SELECT world, at_batch, p, o FROM lasts x WHERE NOT deleted AND NOT EXISTS (
                FROM lasts y WHERE y.world = x.world AND y.at_batch = x.at_batch AND y.k = x.k
                AND (y.t, y.p, y.o) > (x.t, x.p, x.o) AND (y.since IS NULL OR y.since < x.t))
            """
        )

    def amended(self, size: int, slide: int, amends: pa.Table) -> Rows:
        """B1-B3: (world, start, rows, revision) of each closed window once its late rows were absorbed after the
        batches of `amends` (world, batch), the last of which ends a world."""
        self._db.register("amends", amends)
        return self._ask(
            """
            WITH places AS (
                SELECT world, batch, outcome, s.start
                FROM (SELECT world, batch, outcome, t FROM judged WHERE outcome IN ('on_time', 'late')),
                    LATERAL (SELECT unnest(range(t - ((t % $2) + $2) % $2, t - $1, -$2)) AS start) s),
            looks AS (SELECT world, batch, g FROM amends JOIN published USING (world, batch)),
            -- The first look at a late row that finds its window closed absorbs it.
            absorbed AS (
                SELECT p.world, p.start, min(l.batch) AS look FROM places p
                JOIN looks l ON l.world = p.world AND l.batch >= p.batch AND l.g >= p.start + $1
                WHERE p.outcome = 'late' GROUP BY p.world, p.start, p.batch),
            revisions AS (SELECT world, start, count(DISTINCT look) + 1 AS number FROM absorbed GROUP BY ALL),
            closed AS (
                SELECT p.*, m.g FROM places p
                JOIN (SELECT world, max_by(g, batch) AS g FROM published GROUP BY world) m
                    ON m.world = p.world AND m.g >= p.start + $1)
            SELECT c.world, c.start, count(*), coalesce(any_value(r.number), 1)
            FROM closed c LEFT JOIN revisions r USING (world, start)
            WHERE c.outcome = 'on_time' OR EXISTS (
                FROM looks l WHERE l.world = c.world AND l.batch >= c.batch AND l.g >= c.start + $1)
            GROUP BY c.world, c.start
            """,
            size,
            slide,
        )


# T2: a change finds its key absent where the last one of its partition is at or below the bar that it was judged by.
# Then a life begins; `since` is that bar. Of each life its last change counts, as of each batch.
_LIVES = """
WITH changes AS (
    SELECT *, coalesce(lag(t) OVER own <= bar, lag(t) OVER own IS NULL) AS begins FROM on_time
    WINDOW own AS (PARTITION BY world, k, p ORDER BY o)),
lives AS (SELECT *, sum(begins::INT) OVER (PARTITION BY world, k, p ORDER BY o) AS life FROM changes),
lasts AS (
    SELECT l.world, m.batch AS at_batch, m.g AS at_g, l.k, l.p, max_by(l.t, l.o) AS t,
           max_by(l.deleted, l.o) AS deleted, max(l.o) AS o, min_by(struct_pack(bar := l.bar), l.o).bar AS since
    FROM lives l JOIN published m ON m.world = l.world AND m.batch >= l.batch
    GROUP BY l.world, m.batch, m.g, l.k, l.p, l.life)
"""
