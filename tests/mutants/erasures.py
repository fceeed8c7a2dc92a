"""What must not be broken where rows are erased (E9)."""

from __future__ import annotations

from tests.mutants.guard import Guard

GUARDS: tuple[Guard, ...] = (
    Guard(
        "erasure-reaches",
        "E9",
        "Where not every place is reached that may have a person's rows, nothing is erased.",
        "maintenance/erase_reach.py",
        "    if reasons:",
        "    if False:",
        ("tests/maintenance/test_erase.py::test_E9_what_is_not_reached_refuses_all_of_it",),
    ),
    Guard(
        "erasure-expires",
        "E9",
        "No earlier snapshot keeps the files of erased rows.",
        "maintenance/erase.py",
        "    upkeep.expire(_ALL)",
        "    pass",
        ("tests/maintenance/test_erase.py::test_E9_nothing_of_the_person_is_left_at_rest",),
    ),
    Guard(
        "erasure-decides-nothing",
        "E4",
        "The one snapshot that an erasure leaves says what the commit before it said.",
        "maintenance/erase.py",
        "    upkeep.forget_removed(base)",
        "    upkeep.forget_removed(type(base)(base.id, {}))",
        (
            "tests/maintenance/test_erase.py::test_E9_rows_go_from_every_outcome_and_all_others_stay_as_they_are",
        ),
    ),
    Guard(
        "erasure-views",
        "E9",
        "A view whose rows may depend on rows of others is not changed by a condition on its columns.",
        "sql/views/passed_columns.py",
        "    if len(view.inputs) != 1 or view.over is not None or any(word in text for word in _OTHERS):",
        "    if len(view.inputs) != 1:",
        (
            "tests/maintenance/test_erase_views.py::test_E9_a_view_whose_rows_depend_on_others_refuses_all_of_it",
        ),
    ),
    Guard(
        "erasure-versions",
        "E9",
        "Earlier versions of a view, which may show what the current one does not, go with its past.",
        "maintenance/erase.py",
        "    upkeep.forget_names()",
        "    pass",
        ("tests/maintenance/test_erase_views.py::test_E9_earlier_versions_of_views_go_too",),
    ),
    Guard(
        "erasure-marks",
        "E9",
        "A backfill leaves a window alone that held erased rows.",
        "views/amend/comparison.py",
        "        if held is not None:",
        "        if False:",
        (
            "tests/maintenance/test_erase_views.py"
            "::test_E9_counts_and_sums_stay_if_somebody_says_so_and_their_windows_are_marked",
        ),
    ),
    Guard(
        "erasure-newest",
        "E9",
        "An erasure ends only where the rows that it has looked at are those of the newest snapshot.",
        "maintenance/erase.py",
        "forget_history(upkeep, before, seen)",
        "forget_history(upkeep, before, upkeep.table.current())",
        (
            "tests/simulate/test_simulate.py::test_a_history_that_once_failed_is_right"
            "[rows-looked-for-in-an-older-state]",
        ),
    ),
    Guard(
        "erasure-marks-newest",
        "E9",
        "Windows are marked only in the newest state of a view.",
        "views/revisions/erased_windows.py",
        "    table.append([], None, base.facts, base, change=change)",
        "    table.set_properties({MARKS: marks})",
        (
            "tests/simulate/test_simulate.py::test_a_history_that_once_failed_is_right"
            "[windows-marked-by-an-older-state]",
        ),
    ),
)
