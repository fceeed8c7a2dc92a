"""What must not be broken where columns of the input are taken in (E2, E7, X2), and in what a change of columns
concerns (E1, E3)."""

from __future__ import annotations

from tests.mutants.guard import Guard

_FIELDS = "tests/tasks/decode/test_new_fields.py"
_FILES = "tests/evolve/test_taken_in.py"
_COLUMNS = "tests/plan/test_column_changes.py"
_REGISTRY = "tests/evolve/test_registry_evolution.py"
_DECLARED = f"{_FILES}::test_E2_what_was_taken_in_is_declared_as_it_is_or_not_at_all"
_BOUNDED = f"{_FIELDS}::test_E2_only_so_many_columns_are_taken_in_and_none_that_was_dropped"

GUARDS: tuple[Guard, ...] = (
    Guard(
        "taken-in-undeclared",
        "E1",
        "A column that is taken in is no change of the definition.",
        "iceberg/layout.py",
        "            if not c.taken_in\n",
        "",
        (f"{_FILES}::test_E2_E7_a_column_of_files_is_taken_in_and_has_its_values_once_it_is_declared",),
    ),
    Guard(
        "taken-in-becomes",
        "E2",
        "A column that is taken in and declared later is the same column, not one more.",
        "evolve/apply.py",
        " if one[0][0] not in wanted.adopted]",
        "]",
        (f"{_FILES}::test_E2_E7_a_column_of_files_is_taken_in_and_has_its_values_once_it_is_declared",),
    ),
    Guard(
        "taken-in-type",
        "E2",
        "What was taken in as one type is not declared as another one.",
        "plan/columns/taken_in.py",
        "    if holds(was.type, column.type):",
        "    if True:",
        (_DECLARED,),
    ),
    Guard(
        "taken-in-rename",
        "E2",
        "No column is renamed to the name of one that was taken in.",
        "evolve/differences.py",
        "        if to.casefold() in there",
        "        if False",
        (_DECLARED,),
    ),
    Guard(
        "taken-in-dropped",
        "E2",
        "What a definition has dropped is not taken in again.",
        "plan/columns/taken_in.py",
        '        if change.kind == "drop"',
        "        if False",
        (_BOUNDED, _DECLARED),
    ),
    Guard(
        "taken-in-bounded",
        "X2",
        "Who writes the input does not decide how wide a table becomes.",
        "plan/columns/taken_in.py",
        "        if sum(map(_width, [*(one.type for one in (*known, *new)), column.type])) <= MOST:",
        "        if True:",
        (_BOUNDED,),
    ),
    Guard(
        "taken-in-fits-all",
        "E4",
        "No message is rejected for a column that was taken in.",
        "tasks/decode/binary/messages.py",
        "        if column.optional:\n",
        "        if False:\n",
        (f"{_REGISTRY}::test_a_field_that_older_messages_have_as_another_type_is_reported_and_not_taken_in",),
    ),
    Guard(
        "taken-in-csv",
        "W5",
        "What was taken in does not make a line a header.",
        "tasks/decode/text/files.py",
        "    return sum(place is not None and not targets[place].optional for place in places)",
        "    return sum(place is not None for place in places)",
        (f"{_FILES}::test_W5_no_row_is_rejected_and_no_header_is_told_by_what_was_taken_in",),
    ),
    Guard(
        "taken-in-parquet",
        "W5",
        "No row of a Parquet file is rejected for a column that was taken in.",
        "tasks/parquet/parquet.py",
        "            if misfits is not None and not column.optional:",
        "            if misfits is not None:",
        (f"{_FILES}::test_columns_of_parquet_have_their_types_and_files_may_lack_them",),
    ),
    Guard(
        "schema-steps",
        "X2",
        "A stranger's schema is followed for so many steps.",
        "ingest/sources/field_types.py",
        "        if self._left < 0:",
        "        if False:",
        (f"{_FIELDS}::test_X2_a_schema_that_grows_by_itself_costs_no_time",),
    ),
    Guard(
        "taken-in-epoch",
        "E7",
        "The batch that has new columns follows the commit that takes them in.",
        "ingest/stream.py",
        "replace(plan, epoch=self.log.progress.epoch + 1, log=life",
        "replace(plan, log=life",
        (f"{_FILES}::test_E7_live_mode_takes_a_column_in_before_the_batch_that_has_it",),
    ),
    Guard(
        "members-are-names",
        "X4",
        "Names that each row of a file has for itself are values, and stand in no log.",
        "tasks/decode/text/json_members.py",
        "        if 2 * count >= len(rows) >= _FEWEST and name.isidentifier()\n",
        "",
        (f"{_FILES}::test_members_that_most_rows_of_a_json_file_have_are_reported",),
    ),
    Guard(
        "alias-that-a-column-comes-before",
        "E3",
        "A bare name counts for every relation in FROM, whatever it means now.",
        "sql/views/named_columns.py",
        "    yield path\n",
        "    if len(path) > 1:\n        yield path\n",
        (f"{_COLUMNS}::test_E3_a_view_that_reads_as_another_one_is_concerned",),
    ),
    Guard(
        "keys-of-a-map",
        "E1",
        "The keys of a MAP are not changed in place.",
        "plan/columns/changes.py",
        'if was.name == "map" and now.name == "map" and was.args[0] != now.args[0]:',
        "if False:",
        ("tests/evolve/test_nested_fields.py::test_E1_E3_the_keys_of_a_map_are_not_changed_in_place",),
    ),
)
