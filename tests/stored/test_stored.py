"""E8, R4: what a release has stored, every later one reads to the same answers, and goes on from as it is."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from tests.stored.answers import Rows, answers
from tests.stored.place import KEPT, kept_answers, place, unpack
from tests.support.kafka import Broker
from tidegate.iceberg.layout import is_of_view, relation_identity
from tidegate.project import Project
from tidegate.runtime.stored_gates import with_gate_names
from tidegate.session.session import Session
from tidegate.session.up_to_date import up_to_date
from tidegate.store.gates import gates_of
from tidegate.store.metadata import load_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow
#: Reasons of rows whose text the first release did not keep.
_WITHOUT = ("null_event_time", "not_null")
RELEASES = sorted(file.name.removesuffix(".tar.xz") for file in KEPT.glob("*.tar.xz"))


@dataclass
class Stored:
    """A release's tables, unpacked, with the broker that its Kafka source and sink know."""

    module: ModuleType
    root: Path
    broker: Broker
    said: dict[str, Any]
    #: Whether all of it is used that was stored, or a table of each kind and a view of each way through the engine.
    whole: bool


@pytest.fixture(
    scope="module",
    params=[
        *(pytest.param((name, False), id=name) for name in RELEASES),
        *(pytest.param((name, True), id=f"{name}-whole", marks=pytest.mark.long_run) for name in RELEASES),
    ],
)
def stored(request: pytest.FixtureRequest) -> Iterator[Stored]:
    release, whole = request.param
    module = importlib.import_module(f"tests.stored.{release}")
    with place(release) as folder, pytest.MonkeyPatch.context() as patched:
        unpack(release, folder)
        broker = Broker(folder / "broker")
        broker.start()
        patched.setenv(module.BROKER, broker.bootstrap)
        # That release's SQL could use every variable.
        allow = folder / "project" / "resources" / "local.yaml"
        assert not allow.exists()
        allow.parent.mkdir(exist_ok=True)
        allow.write_text(f"allow: {{variables: [{module.BROKER}]}}\n")
        try:
            yield Stored(module, folder / "project", broker, kept_answers(release), whole)
        finally:
            broker.stop()


def test_E8_everything_is_read_to_the_same_answers_and_nothing_is_written(
    stored: Stored, spark: SparkSession
) -> None:
    before = _files(stored.root)
    _is_of_todays_definitions(Project.load(stored.root))
    session = Session.open(project=stored.root, spark=spark)
    _same(answers(session, stored.broker, stored.module.OUT), stored.said["first"])
    # A run that has nothing to do does nothing, and says so without Spark where the release would.
    others = [r.name for r in session.catalog.relations if not r.primary_key and r.connector is not None]
    assert up_to_date(session.project, session.catalog, others) is not None
    assert _files(stored.root) == before


@pytest.mark.long_run
def test_E8_every_kind_goes_on_as_the_release_would_have(stored: Stored, spark: SparkSession) -> None:
    """After the test above: new rows for each source and table, closed windows, an amendment, deliveries. What the
    release answered after the same rows is the truth; when a row arrived depends on the clock and is left out."""
    session = Session.open(project=stored.root, spark=spark)
    relations = [relation.name for relation in session.catalog.relations if relation.connector is not None]
    others = [one.name for one in (*session.catalog.views, *session.catalog.sinks)]
    names, said, audited, only = [*relations, *others], stored.said["then"], stored.module.AUDITED, None
    if not stored.whole:
        only, audited = [*audited, "to_lake", "to_topic"], []
        names, said = [name for name in names if name in only], _about(only, said)
    stored.module.then(session, stored.broker, names)
    found = answers(session, stored.broker, stored.module.OUT, audited, clocks=False, only=only)
    _same(found, said, but=("arrival",))


def _about(names: Collection[str], said: dict[str, Any]) -> dict[str, Any]:
    """What was said of some tables, views and sinks."""
    kept = {"table lake", "topic", *(question for question in said if question.partition("$")[0] in names)}
    status = {about: told for about, told in said["status"].items() if about.split()[-1] in names}
    return {question: said[question] for question in kept} | {"status": status}


def _is_of_todays_definitions(project: Project) -> None:
    """R4: nobody's tables are made anew by an upgrade."""
    catalog = with_gate_names(project).catalog()
    assert len(gates_of(catalog, catalog.views)) == 1
    for relation in (*catalog.relations, *gates_of(catalog, catalog.views)):
        table = load_table(project.storage, relation.name)
        assert table is not None
        assert table.properties["tidegate.identity"] == relation_identity(relation), relation.name
    for view in catalog.views:
        table = load_table(project.storage, view.name)
        assert table is not None
        assert is_of_view(view, table.properties), view.name


def _files(root: Path) -> dict[str, int]:
    """Every file of the warehouse, and its size."""
    folder = root / ".tidegate"
    skipped = ("locks", "logs")
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        name: path.stat().st_size
        for path in files
        if (name := str(path.relative_to(folder))).split("/")[0] not in skipped
    }


def _same(found: dict[str, Any], said: dict[str, Any], but: Collection[str] = ()) -> None:
    """Each answer of the release is that of today. What today says beyond it (new columns, facts) is not compared, nor
    are the columns `but`."""
    differ = {question for question, answer in said.items() if not _equal(found.get(question), answer, but)}
    assert not {question: (found.get(question), said[question]) for question in sorted(differ)}


def _equal(now: Any, answer: Any, but: Collection[str]) -> bool:
    if isinstance(answer, dict) and set(answer) == {"columns", "rows"}:
        columns = [column for column in answer["columns"] if column not in but]
        return (
            now is not None
            and set(columns) <= set(now["columns"])
            and _of(now, columns) == _of(answer, columns)
        )
    if isinstance(answer, dict):
        return isinstance(now, dict) and all(now.get(name) == value for name, value in answer.items())
    return now == answer


def _of(answer: Rows, columns: Collection[str]) -> list[list[str]]:
    """The rows of some of the columns, sorted."""
    places = [answer["columns"].index(column) for column in columns]
    reason = answer["columns"].index("reason") if "reason" in columns else None
    raw = answer["columns"].index("raw") if "raw" in columns else None

    def comparable(row: list[str], place: int) -> str:
        # A later release says behind a colon what was wrong with a value.
        if place == reason:
            return row[place].partition(":")[0]
        # And it keeps the text of rows without what they must have (W5), which this one did not.
        is_new = place == raw and reason is not None and row[reason].startswith(_WITHOUT)
        return "" if is_new else row[place]

    return sorted([comparable(row, place) for place in places] for row in answer["rows"])
