"""E1, E2: what else meets a view that is to be renamed: sinks, other letters, odd names, DROP, and other catalogs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Workbench
from tests.views.test_renaming import (
    HOURLY,
    PLAIN,
    SINK,
    changes,
    delivered,
    facts,
    inserted,
    opened,
    problems,
    values,
    with_renames,
)
from tidegate.errors import TidegateError
from tidegate.evolve.removed import removed
from tidegate.iceberg.layout import NewTable, name_of, placed, quote
from tidegate.iceberg.tables import renamed
from tidegate.session.session import Session
from tidegate.sinks.deliver import begin
from tidegate.store.folder_catalog import current_file, newest_in_folder
from tidegate.store.places import leave, new_place
from tidegate.views.amend.vouched import finished

pytestmark = pytest.mark.runner("inprocess")

ONLY_NEW = SINK.replace("path = 'out'", "path = 'out', snapshot = 'false'")


@pytest.fixture
def begun(workbench: Workbench) -> Session:
    """A view `old` with two windows, which no sink delivers."""
    session = opened(with_renames(workbench), "old", s="")
    inserted(session, "00:00", "01:00", "02:00")
    session.run()
    return session


def test_E1_a_new_sink_that_wants_only_news_begins_where_the_renamed_view_is(
    workbench: Workbench, begun: Session
) -> None:
    session = opened(workbench, "new RENAMED FROM old", s=ONLY_NEW.format(name="new"))
    inserted(session, "03:00")
    session.run()
    assert values(session, "new") == [1, 1, 1]
    assert delivered(workbench) == ["03:00"]


def test_E1_a_sink_that_is_prepared_alone_begins_there_too(workbench: Workbench, begun: Session) -> None:
    """As live mode and Dagster do it, before any view is open."""
    session = opened(workbench, "new RENAMED FROM old", s=ONLY_NEW.format(name="new"))
    sink = session.catalog.sinks.find("out")
    assert sink is not None
    begin(session, sink)
    session.run()
    assert delivered(workbench) == []


def test_E1_a_new_sink_does_not_begin_at_results_that_are_not_to_be_renamed(
    workbench: Workbench, begun: Session
) -> None:
    text = ONLY_NEW.format(name="new")
    with pytest.raises(TidegateError, match="TG506"):
        opened(workbench, "new RENAMED FROM old", "sum(n)", s=text).run()
    assert not (workbench.root / "out").exists()


def test_E1_a_former_name_may_be_written_in_other_letters(workbench: Workbench, begun: Session) -> None:
    opened(workbench, "old", s=SINK.format(name="old")).run()
    before, of_sink = facts(begun, "old"), delivered(workbench)
    session = opened(workbench, "new RENAMED FROM OLD")
    assert [changes(session)[name].effect for name in ("new", "out")] == ["in place", "unchanged"]
    assert removed(session.project, session.catalog) == []
    session.run()
    assert (facts(session, "new"), facts(session, "old")) == (before, None)
    assert {one.effect for one in changes(session).values()} == {"unchanged"}
    inserted(session, "03:00")
    session.run()
    assert delivered(workbench) == [*of_sink, "03:00"]


def test_E1_a_reader_that_writes_the_new_name_in_other_letters_follows(
    workbench: Workbench, begun: Session
) -> None:
    opened(workbench, "old", s="", plain=PLAIN.format(of="old")).run()
    before = facts(begun, "plain")
    session = opened(workbench, "new RENAMED FROM old", s="", plain=PLAIN.format(of="NEW"))
    assert changes(session)["plain"].effect == "in place"
    session.run()
    assert facts(session, "plain")[0] == before[0]
    assert {one.effect for one in changes(session).values()} == {"unchanged"}


def test_E1_who_opens_a_view_by_itself_renames_it_first(workbench: Workbench, begun: Session) -> None:
    before = facts(begun, "old")
    session = opened(workbench, "new RENAMED FROM old", s="")
    view: Any = session.catalog.get("new")
    why = finished(session, view, session.project)
    assert why == 'it keeps the results that are stored as "old", which the next run renames'
    with session.lease("new"):
        session.view_table(view)
    assert (facts(session, "new"), facts(session, "old")) == (before, None)


def test_E2_a_view_that_is_not_renamed_yet_is_not_dropped(workbench: Workbench, begun: Session) -> None:
    before = facts(begun, "old")
    session = opened(workbench, "new RENAMED FROM old", s="")
    session.confirm = lambda what: True
    with pytest.raises(TidegateError, match="TG506") as failed:
        session.execute("DROP MATERIALIZED VIEW new")
    assert "run first" in (failed.value.hint or "")
    assert facts(session, "old") == before
    session.run()
    session.execute("DROP MATERIALIZED VIEW new")
    assert (facts(session, "old"), facts(session, "new")) == (None, None)


def test_E2_names_with_backticks_and_dots_are_taken_as_they_are(workbench: Workbench, begun: Session) -> None:
    storage = begun.project.storage
    for name in ("a`b", "a.b", "`", "a``.`b", "plain"):
        identifier = f"tidegate.main.{quote(name)}"
        assert name_of(identifier) == name
        assert renamed(identifier, "new.er") == "tidegate.main.`new.er`"
        leave(storage, "main", name, "file:/warehouse/main/first/")
        place = placed(NewTable(identifier, (), (), {}), storage).location
        assert place is not None
        assert place.startswith(f"file:/warehouse/main/{name}-")
    assert name_of("tidegate.main.plain") == "plain"
    assert new_place(storage, "main", "ab") is None


def test_E2_a_table_that_has_its_first_name_again_and_a_later_one_of_the_other_have_own_folders(
    workbench: Workbench, begun: Session
) -> None:
    opened(workbench, "new RENAMED FROM old", s="").run()
    session = opened(workbench, "old RENAMED FROM new", s="")
    session.run()
    again = HOURLY.format(name="new", what="sum(n)")
    session = opened(workbench, "old", s="", again=again)
    session.run()
    assert (values(session, "old"), values(session, "new"), problems(session)) == ([1, 1], [5, 5], [])
    place = Path(facts(session, "new")[2].removeprefix("file:"))
    assert place.name.startswith("new-")
    (place / "left.parquet").write_bytes(b"of a task that was killed")
    session.confirm = lambda what: True
    session.forget("new")
    assert not place.exists()
    assert (values(session, "old"), problems(session)) == ([1, 1], [])


def test_E2_an_opened_table_needs_no_folder(
    workbench: Workbench, begun: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*_: object) -> None:
        raise AssertionError("a folder is looked for, of a table that is there")

    monkeypatch.setattr("tidegate.iceberg.layout.new_place", asked)
    inserted(begun, "03:00")
    begun.run()
    assert values(begun, "old") == [1, 1, 1]


def test_TG620_a_folder_does_not_continue_what_was_renamed_in_its_successor(
    workbench: Workbench, begun: Session
) -> None:
    folder = begun.project.storage.local_warehouse
    assert folder is not None
    before = facts(begun, "old")
    # As it was moved: with metadata that the folder's own catalog would take for its newest.
    assert current_file(folder / "main" / "old" / "metadata") is not None
    opened(workbench, "new RENAMED FROM old", s="").run()
    assert facts(begun, "new") == before
    with pytest.raises(TidegateError, match="TG620"):
        newest_in_folder(folder, "main", "old")
