"""ALTER of a column (E1 to E3): the text that it makes, in files, and what is refused before anything is changed."""

from __future__ import annotations

from contextlib import nullcontext

import pytest

from tests.conftest import Workbench
from tests.evolve.test_apply import shown
from tidegate.errors import Problems, TidegateError
from tidegate.evolve.planning import planned
from tidegate.project import Project
from tidegate.runtime.codes import is_curable
from tidegate.sql import analyse
from tidegate.sql.catalog.catalog import Catalog
from tidegate.sql.statements.analysis import load_catalog
from tidegate.sql.statements.statements import AlterColumn

pytestmark = pytest.mark.runner("inprocess")

WRITTEN = """CREATE TABLE t (
  -- The key, as the shop gives it.
  id INT NOT NULL COMMENT 'a, b',
  amount DECIMAL(8, 2) RENAMED FROM price, -- in euros, with tax
  double DOUBLE AS amount * 2,
  WATERMARK FOR ts AS ts - INTERVAL '5 seconds',
  ts TIMESTAMP
) APPEND ONLY"""


def altered(action: str, definition: str = WRITTEN) -> str:
    """The definition that an action makes."""
    catalog: Catalog = load_catalog([("t.sql", definition)])
    (statement,) = analyse(f"ALTER TABLE t {action}", catalog)
    assert isinstance(statement, AlterColumn)
    return statement.relation.definition


@pytest.mark.parametrize(
    ("action", "old", "new"),
    [
        ("ADD COLUMN shop VARCHAR COMMENT 'x'", "  ts TIMESTAMP\n", "  ts TIMESTAMP, shop VARCHAR COMMENT 'x'\n"),
        ("ADD list INT[]", "  ts TIMESTAMP\n", "  ts TIMESTAMP, list INT[]\n"),
        ("DROP COLUMN id", "id INT NOT NULL COMMENT 'a, b',", ""),
        ("DROP COLUMN double", "double DOUBLE AS amount * 2,", ""),
        ('RENAME ID TO "n o"', "id INT NOT NULL COMMENT 'a, b'", "\"n o\" INT NOT NULL COMMENT 'a, b' RENAMED FROM id"),
        ("ALTER COLUMN id TYPE BIGINT", "id INT NOT", "id BIGINT NOT"),
        ("ALTER COLUMN amount SET DATA TYPE DECIMAL(12, 2)", "DECIMAL(8, 2)", "DECIMAL(12, 2)"),
        ("ALTER COLUMN id DROP NOT NULL", "id INT NOT NULL COMMENT", "id INT  COMMENT"),
        ("ALTER COLUMN ts DROP NOT NULL", "ts TIMESTAMP", "ts TIMESTAMP"),
    ],
)  # fmt: skip
def test_E1_the_definition_is_edited_as_its_author_would(action: str, old: str, new: str) -> None:
    assert WRITTEN.count(old)
    assert altered(action) == WRITTEN.replace(old, new)


def test_E2_a_column_that_is_renamed_twice_was_called_as_the_last_one_says() -> None:
    plain = WRITTEN.replace("  double DOUBLE AS amount * 2,\n", "")
    assert "cost DECIMAL(8, 2) RENAMED FROM amount, -- in" in altered("RENAME COLUMN amount TO cost", plain)


def test_a_last_column_goes_with_the_comma_before_it() -> None:
    assert altered("DROP COLUMN b", "CREATE TABLE t (a INT, b INT)") == "CREATE TABLE t (a INT)"


@pytest.mark.parametrize(
    ("action", "code", "caret"),
    [
        ("DROP COLUMN idd", "TG202", "idd"),
        ("ADD COLUMN id INT", "TG206", "id"),
        ("DROP COLUMN amount", "TG202", "amount"),
        ("RENAME COLUMN ts TO at", "TG202", "ts"),
        ("ADD COLUMN a INTEGR", "TG207", "INTEGR"),
        ("ADD COLUMN IF NOT EXISTS a INT", "TG106", "IF"),
        ("ADD COLUMN a INT, ADD COLUMN b INT", "TG102", ","),
        ("DROP COLUMN id CASCADE", "TG106", "CASCADE"),
        ("RENAME TO u", "TG106", "TO"),
        ("ADD COLUMN a INT RENAMED FROM id", "TG106", "id"),
        ("ALTER COLUMN id SET NOT NULL", "TG106", "SET"),
        ("ALTER COLUMN id SET DEFAULT 1", "TG106", "SET"),
        ("ALTER COLUMN id TYP BIGINT", "TG104", "TYP"),
        ("MODIFY COLUMN id BIGINT", "TG106", "COLUMN"),
    ],
)
def test_what_is_wrong_is_shown_in_the_statement(action: str, code: str, caret: str) -> None:
    with pytest.raises(TidegateError) as caught:
        altered(action)
    where = caught.value.location
    assert where is not None
    assert (caught.value.code, where.file) == (code, "<sql>")
    assert where.text[where.column - 1 :].startswith(caret)


ORDERS = """CREATE TABLE orders (id INT, note VARCHAR, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;
CREATE MATERIALIZED VIEW notes AS SELECT ts, note FROM orders EMIT ON WINDOW CLOSE;
"""


def test_E1_in_a_file_it_changes_the_log_at_the_next_run(workbench: Workbench) -> None:
    workbench.assets(orders=ORDERS.split("CREATE MAT")[0])
    session = workbench.session()
    session.execute("INSERT INTO orders VALUES (1, 'a', '2026-01-01 10:00:00')")
    changes = "ALTER TABLE orders RENAME COLUMN note TO remark;\nALTER TABLE orders ADD shop VARCHAR;\n"
    workbench.assets(z_changes=changes)
    (plan,) = planned(project := Project.load(workbench.root), project.catalog())
    assert (plan.effect, plan.what) == (
        "in place",
        ('column "note" is renamed to "remark"; column "shop" VARCHAR is added',),
    )
    session = workbench.session()
    session.execute("INSERT INTO orders VALUES (2, 'b', '2026-01-01 10:00:01', 'berlin')")
    assert shown(session, "SELECT id, remark, shop FROM orders") == [(2, "b", "berlin"), (1, "a", None)]
    # The files stay as they are: nothing is to be done any more.
    assert {one.effect for one in planned(Project.load(workbench.root), session.catalog)} == {"unchanged"}

    workbench.assets(z_changes=changes + "ALTER TABLE orders DROP shop;\nALTER TABLE orders ADD shop INT;\n")
    with pytest.raises(TidegateError) as caught:
        Project.load(workbench.root).catalog()
    assert caught.value.code == "TG204"
    assert "another one" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("changes", "refused"),
    [
        (("DROP id", "ADD ID INT"), True),
        (("RENAME id TO b", "DROP b", "ADD id INT"), True),
        (("RENAME id TO b", "DROP b", "ADD b INT"), True),
        (("RENAME id TO b", "RENAME b TO c", "ADD id INT"), True),
        (("RENAME id TO b", "RENAME b TO c", "DROP c", "ADD b INT"), True),
        (("DROP amount", "ADD price INT"), True),
        (("RENAME id TO b", "ADD id INT"), False),
        (("RENAME id TO b", "RENAME b TO id", "ADD b INT"), False),
        (("DROP id", "ADD b INT"), False),
    ],
)
def test_E2_a_column_with_a_name_that_another_one_has_had_is_refused(
    changes: tuple[str, ...], refused: bool
) -> None:
    """If all of it is deployed at once, the stored column of this name would be taken for the new one."""
    plain = WRITTEN.replace("  double DOUBLE AS amount * 2,\n", "")
    text = ";\n".join([plain, *(f"ALTER TABLE t {change}" for change in changes)])
    with pytest.raises(TidegateError, match=r"TG204.*of this name") if refused else nullcontext():
        load_catalog([("t.sql", text)])


def test_TG520_a_statement_does_not_change_what_a_file_defines(workbench: Workbench) -> None:
    session = workbench.assets(orders=ORDERS).session()
    with pytest.raises(TidegateError) as caught:
        session.execute("ALTER TABLE orders RENAME note TO remark")
    assert (caught.value.code, "write remark … RENAMED FROM note" in str(caught.value.hint)) == (
        "TG520",
        True,
    )


def test_TG511_TG506_what_is_refused_changes_nothing(workbench: Workbench) -> None:
    session = workbench.session()
    for statement in ORDERS.split(";\n")[:-1]:
        session.execute(statement)
    session.execute(
        "INSERT INTO orders VALUES (1, 'a', '2026-01-01 10:00:00'), (2, 'b', '2026-01-01 10:00:09')"
    )
    before = session.execute("SHOW CREATE TABLE orders").rows()
    for statement, code in (
        ("ALTER TABLE orders DROP COLUMN note", "TG511"),
        ("ALTER TABLE orders ALTER COLUMN note TYPE INT", "TG506"),
        ("ALTER TABLE orders ALTER COLUMN ts TYPE TIMESTAMPTZ", "TG506"),
        ("ALTER TABLE orders ADD COLUMN more INT NOT NULL", "TG506"),
    ):
        with pytest.raises(TidegateError) as caught:
            session.execute(statement)
        assert (caught.value.code, caught.value.location is not None) == (code, True), statement
        assert session.execute("SHOW CREATE TABLE orders").rows() == before
        assert workbench.session().execute("SHOW CREATE TABLE orders").rows() == before
    # A view that reads the column by its old meaning says that it is to be recomputed.
    session.execute("ALTER TABLE orders ALTER COLUMN id TYPE BIGINT")
    session.execute("CREATE MATERIALIZED VIEW ids AS SELECT ts, id FROM orders EMIT ON WINDOW CLOSE")
    session.execute("FLUSH")
    assert shown(session, "SELECT id FROM ids") == [(1,)]


LOG = "CREATE TABLE t (a INT, b INT, ts TIMESTAMP, WATERMARK FOR ts AS ts) APPEND ONLY;"
ROW = "INSERT INTO t VALUES (1, 2, '2026-01-01 10:00:00')"


def test_E7_a_session_that_was_opened_before_a_change_does_not_take_it_back(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(LOG)
    session.execute(ROW)
    earlier = workbench.session()
    session.execute("ALTER TABLE t ADD COLUMN shop INT")
    session.execute("INSERT INTO t VALUES (3, 4, '2026-01-01 10:00:01', 7)")
    for statement in (
        "INSERT INTO t VALUES (5, 6, '2026-01-01 10:00:02')",
        "ALTER TABLE t ADD COLUMN other VARCHAR",
        "ALTER TABLE t ALTER WATERMARK FOR ts AS ts - INTERVAL '5 seconds'",
    ):
        with pytest.raises(TidegateError, match="since this session was opened") as caught:
            earlier.execute(statement)
        assert caught.value.code == "TG506"
    assert shown(earlier, "SELECT a FROM t ORDER BY a") == [(1,), (3,)]
    assert shown(workbench.session(), "SELECT a, shop FROM t ORDER BY a") == [(1, None), (3, 7)]


def test_W13_a_session_that_was_opened_before_another_strategy_does_not_take_it_back(
    workbench: Workbench,
) -> None:
    session = workbench.session()
    session.execute(LOG)
    session.execute(ROW)
    earlier = workbench.session()
    session.execute("ALTER TABLE t ALTER WATERMARK FOR ts AS ts - INTERVAL '1 hour'")
    # Nothing was judged by it yet: nothing is taken back.
    earlier.execute("INSERT INTO t VALUES (2, 4, '2026-01-01 11:00:00')")
    session.execute("INSERT INTO t VALUES (3, 4, '2026-01-01 10:30:00'), (4, 4, '2026-01-01 12:30:00')")
    with pytest.raises(TidegateError, match="since this session was opened") as caught:
        earlier.execute("INSERT INTO t VALUES (5, 6, '2026-01-01 12:00:00')")
    assert (caught.value.code, is_curable(caught.value)) == ("TG506", True)
    # Files that can't be read say nothing: then it is not known, and tried again.
    workbench.assets(t2="CREATE TABLE (")
    with pytest.raises(TidegateError, match=r"can't be compared with the files as they are now \(TG1"):
        earlier.execute("INSERT INTO t VALUES (5, 6, '2026-01-01 12:00:00')")


def test_E2_an_alter_that_was_killed_is_finished_before_the_next_one(
    workbench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidegate.session import alter

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    session = workbench.session()
    session.execute(LOG)
    session.execute(ROW)
    for interrupted, following, expected in (
        ("RENAME COLUMN b TO c", "RENAME COLUMN c TO d", [(1, 2)]),
        ("DROP COLUMN a", "ADD COLUMN a INT", [(None, 2)]),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(alter, "open_log", killed)
            with pytest.raises(KeyboardInterrupt):
                session.execute(f"ALTER TABLE t {interrupted}")
        session = workbench.session()
        session.execute(f"ALTER TABLE t {following}")
        assert shown(session, "SELECT a, d FROM t") == expected


@pytest.mark.parametrize(
    "changes",
    [
        "ALTER TABLE t RENAME a TO c; ALTER TABLE t RENAME b TO a; ALTER TABLE t RENAME c TO b;",
        "ALTER TABLE t DROP a; ALTER TABLE t RENAME b TO a;",
    ],
)
def test_E2_a_rename_to_the_name_of_another_stored_column_is_refused(
    workbench: Workbench, changes: str
) -> None:
    workbench.assets(t=LOG).session().execute(ROW)
    session = workbench.assets(z=changes).session()
    project = Project.load(workbench.root)
    (plan,) = planned(project, project.catalog())
    assert plan.effect == "refused"
    assert '"b" is to be renamed to "a", but another stored column' in str(plan.what)
    with pytest.raises(TidegateError, match="but another stored column has this name"):
        session.run()
    # By hand, with the same columns as before.
    workbench.assets(z="", t=LOG.replace("a INT, b INT", "a INT RENAMED FROM b, b INT RENAMED FROM a"))
    project = Project.load(workbench.root)
    assert planned(project, project.catalog())[0].effect == "refused"
    # One after the other they are made, and the words may stay.
    for columns in (
        "c INT RENAMED FROM a, b INT",
        "c INT, a INT RENAMED FROM b",
        "b INT RENAMED FROM c, a INT RENAMED FROM b",
    ):
        workbench.assets(t=LOG.replace("a INT, b INT", columns)).session().run()
    workbench.assets(t=LOG.replace("a INT, b INT", "b INT RENAMED FROM c, a INT RENAMED FROM b, d VARCHAR"))
    session = workbench.session()
    session.run()
    assert shown(session, "SELECT a, b, d FROM t") == [(2, 1, None)]


def test_check_shows_an_alter_of_what_is_not_there_and_nothing_that_follows_from_a_broken_one() -> None:
    problems = Problems()
    load_catalog(
        [
            ("t.sql", LOG),
            ("v.sql", "CREATE MATERIALIZED VIEW v AS SELECT ts, more FROM t EMIT ON WINDOW CLOSE;"),
            (
                "z.sql",
                "ALTER TABLE u ADD x INT; ALTER TABLE t DROP nothing; ALTER TABLE t ADD more INT;"
                "ALTER TABLE v ADD x INT;",
            ),
        ],
        None,
        problems,
    )
    assert [(one.code, one.message.split('"')[1]) for one in problems.errors] == [
        ("TG201", "u"),
        ("TG202", "t"),
        ("TG201", "v"),
    ]


def test_TG511_a_strategy_is_not_changed_if_the_files_would_not_fit_any_more(workbench: Workbench) -> None:
    session = workbench.session()
    session.execute(LOG)
    session = workbench.assets(z="ALTER TABLE t ADD shop INT;").session()
    with pytest.raises(TidegateError) as caught:
        session.execute("ALTER TABLE t ALTER WATERMARK FOR ts AS ts - INTERVAL '5 seconds'")
    assert caught.value.code == "TG511"
    assert workbench.session().relation("t").columns[-1].name == "shop"


def test_TG506_a_view_of_all_columns_says_that_its_results_do_not_have_a_new_one(
    workbench: Workbench,
) -> None:
    session = workbench.session()
    for statement in (
        LOG,
        ROW,
        "CREATE MATERIALIZED VIEW every AS SELECT * FROM t EMIT ON WINDOW CLOSE",
        "INSERT INTO t VALUES (3, 4, '2026-01-01 10:00:01')",
        "FLUSH",
        "ALTER TABLE t ADD COLUMN c INT",
    ):
        session.execute(statement)
    with pytest.raises(TidegateError, match='column "c" INT is added') as caught:
        session.execute("SELECT * FROM every")
    assert (caught.value.code, "tidegate apply every" in str(caught.value.hint)) == ("TG506", True)
    # What has nothing to do with it goes on.
    session.execute("CREATE MATERIALIZED VIEW one AS SELECT ts, c FROM t EMIT ON WINDOW CLOSE")
    assert shown(session, "SELECT c FROM one") == [(None,)]
